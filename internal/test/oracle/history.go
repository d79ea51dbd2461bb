package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/edictdev/edict/policy"
)

// History says, from the log alone, what each event changed for each node, and
// under which ids nodes may be told of it (docs/protocol.md). It goes through
// every node and every policy that an event touches, one by one. Of the product
// it takes the arithmetic of policy.EventID, and nothing else.
type History struct {
	base  uint64
	head  uint64
	plane Plane
	seen  map[string]bool // event ids

	watched  map[string]bool // nil: all nodes
	numbers  []string        // policies, as they were accepted
	policies map[string]*policyPast
	nodes    map[string]*nodePast
	moved    map[string][]uint64 // by project: events of its nodes and policies
}

// Thing is what a row, an artifact or the end of one is about.
type Thing struct{ Policy, Kind, Name string }

// String names the thing.
func (t Thing) String() string {
	if t.Policy != "" {
		return t.Policy
	}
	return t.Kind + "." + t.Name
}

// Told is what a node is told of a thing.
type Told struct {
	ID          policy.EventID
	Thing       Thing
	Gone        bool
	Revision    string // of a row: the policy's head at the id
	Fingerprint string // of what is told: of the rules that can be said, or of the document
	Body        string // the rules, or the document
	Omitted     int

	row string // fingerprint of the whole row
}

type policyPast struct {
	number   uint32
	project  string
	selector string     // in its one spelling
	payload  string     // of the head
	heads    []headFrom // ascending
	since    []uint64   // events that changed its rules, its selector or which nodes have which, ascending
}

type headFrom struct {
	seq uint64
	id  string
}

type nodePast struct {
	project string
	labels  string
	since   []uint64 // events that gave it other labels, its coming and going included
	told    map[Thing][]Told
	has     map[string][]headFrom // by policy: the revisions that it had of it, whether it was told or not
	order   []Told                // all of them, ascending
	sets    []setFrom
}

// setFrom is a node's set of artifacts from an event on.
type setFrom struct {
	seq     uint64
	present bool // the node was there
	parts   []part
}

type part struct{ kind, name, document string }

// NewHistory is that of the log with this base. Of other nodes than these, if
// any are named, it says nothing.
func NewHistory(base uint64, nodes ...string) *History {
	h := &History{
		base: base, seen: map[string]bool{}, policies: map[string]*policyPast{}, nodes: map[string]*nodePast{}, moved: map[string][]uint64{},
	}
	if len(nodes) > 0 {
		h.watched = map[string]bool{}
		for _, n := range nodes {
			h.watched[n] = true
		}
	}
	return h
}

// Head is the sequence of the last event.
func (h *History) Head() uint64 { return h.head }

// Plane is the plane as the last event left it.
func (h *History) Plane() *Plane { return &h.plane }

// Changes is what events changed for a node, in the order of their ids: what a
// node that hears everything live is told.
func (h *History) Changes(node string) []Told {
	if n := h.nodes[node]; n != nil {
		return n.order
	}
	return nil
}

// Skip passes over an event that was rejected.
func (h *History) Skip(seq uint64) { h.head = seq }

// Apply folds an event that was accepted.
func (h *History) Apply(seq uint64, body []byte) error {
	h.head = seq
	var e struct {
		event
		ID        string            `json:"id"`
		Artifacts []json.RawMessage `json:"artifacts"`
		Kind      string            `json:"kind"`
		Name      string            `json:"name"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return fmt.Errorf("event %d: %w", seq, err)
	}
	if h.seen[e.ID] && e.ID != "" {
		return nil // met again
	}
	h.seen[e.ID] = true
	switch e.Type {
	case "artifact_released":
		return h.release(seq, e.NodeID, e.ProjectID, e.Artifacts)
	case "artifact_withdrawn":
		h.withdraw(seq, e.NodeID, e.ProjectID, e.Kind, e.Name)
		return nil
	case "admission_policy_updated", "admission_policy_deleted", "principal_updated", "principal_removed",
		"relation_written", "relation_removed", "node_registered", "signing_key_rotated", "project_quota_updated",
		"project_archived", "project_restored":
		return nil // nothing that a node is told
	}
	rolling := h.plane.trials[e.PolicyID].underWay()
	if err := h.plane.Apply(body); err != nil {
		return fmt.Errorf("event %d: %w", seq, err)
	}
	if e.PolicyID != "" {
		h.policy(seq, e.PolicyID, rolling || h.plane.trials[e.PolicyID].underWay())
		e.ProjectID = h.policies[e.PolicyID].project
	} else {
		h.node(seq, e.NodeID, e.ProjectID)
	}
	h.moved[e.ProjectID] = append(h.moved[e.ProjectID], seq)
	return nil
}

// policy notes what an event did to a policy, and to every node for it. rolling: the
// event moved a rollout.
func (h *History) policy(seq uint64, id string, rolling bool) {
	p, now := h.policies[id], h.plane.policies[id]
	if p == nil {
		p = &policyPast{number: uint32(len(h.numbers)), project: now.project} //nolint:gosec // some thousands
		h.policies[id] = p
		h.numbers = append(h.numbers, id)
	}
	text := spell(now)
	if rolling || p.selector != text || p.payload != now.payload {
		p.since = append(p.since, seq)
	}
	p.selector, p.payload = text, now.payload
	if now.revision != "" { // of a deleted policy the last head stays
		p.heads = append(p.heads, headFrom{seq, now.revision})
	}
	for node := range h.nodes {
		h.row(seq, node, id)
	}
}

// spell is a selector in its one spelling; nothing: there is none.
func spell(p facts) string {
	var sides []string
	for _, side := range [][]clause{p.source, p.destination} {
		words := []string{}
		for _, c := range side {
			words = append(words, fmt.Sprint(c.op, c.key, slices.Sorted(slices.Values(c.values))))
		}
		slices.Sort(words)
		sides = append(sides, strings.Join(slices.Compact(words), ","))
	}
	return strings.Join(sides, " > ")
}

// of is the past of a node, from its first event on.
func (h *History) of(node, project string) *nodePast {
	if h.watched != nil && !h.watched[node] {
		return &nodePast{told: map[Thing][]Told{}, has: map[string][]headFrom{}}
	}
	n := h.nodes[node]
	if n == nil {
		n = &nodePast{project: project, told: map[Thing][]Told{}, has: map[string][]headFrom{}}
		h.nodes[node] = n
	}
	return n
}

// node notes what an event did to a node.
func (h *History) node(seq uint64, id, project string) {
	n := h.of(id, project)
	now, present := h.plane.nodes[id]
	labels := ""
	if present {
		labels = fmt.Sprint("labels ", now.labels)
	}
	if labels == n.labels {
		return
	}
	n.labels, n.since = labels, append(n.since, seq)
	for _, p := range h.numbers {
		h.row(seq, id, p)
	}
	h.set(seq, id, n, n.parts())
}

// row notes whether an event gave a node a row, changed or took it.
func (h *History) row(seq uint64, node, id string) {
	n := h.nodes[node]
	if n == nil {
		return
	}
	var now Row
	for _, r := range h.plane.row(node, id) {
		now = r
	}
	thing := Thing{Policy: id}
	was, known := n.last(thing)
	has := now.Policy != ""
	if has {
		n.has[id] = append(n.has[id], headFrom{seq, now.Revision})
	}
	told := Told{ID: policy.NewEventID(h.base, seq, h.policies[id].number), Thing: thing, Revision: h.headAt(id, seq)}
	switch {
	case has && (!known || was.Gone || was.row != now.Fingerprint):
		told.Revision = now.Revision
		told.Fingerprint, told.Body, told.Omitted, told.row = Fingerprint(now.Said), now.Said, now.Omitted, now.Fingerprint
	case !has && known && !was.Gone:
		told.Gone, told.Fingerprint, told.Body = true, EmptyFingerprint, "[]"
	default:
		return
	}
	n.note(told)
}

// Leaves reports whether a node has a row, or an artifact, when it has heard: it has no
// row of a policy that is gone, or in audit mode.
func (t Told) Leaves() bool { return !t.Gone && (t.Body != "[]" || t.Omitted > 0) }

func (n *nodePast) last(t Thing) (Told, bool) {
	list := n.told[t]
	if len(list) == 0 {
		return Told{}, false
	}
	return list[len(list)-1], true
}

func (n *nodePast) note(t Told) {
	n.told[t.Thing] = append(n.told[t.Thing], t)
	at, _ := slices.BinarySearchFunc(n.order, t, func(a, b Told) int { return int(int64(a.ID - b.ID)) }) //nolint:gosec // near each other
	n.order = slices.Insert(n.order, at, t)
}

func (n *nodePast) parts() []part {
	if len(n.sets) == 0 {
		return nil
	}
	return n.sets[len(n.sets)-1].parts
}

// headAt is the head of a policy as it was at a sequence.
func (h *History) headAt(id string, seq uint64) (head string) {
	return lastOf(h.policies[id].heads, seq)
}

// lastOf is the last of a list at a sequence.
func lastOf(list []headFrom, seq uint64) (id string) {
	for _, x := range list {
		if x.seq <= seq {
			id = x.id
		}
	}
	return id
}

// release gives a node a set of artifacts.
func (h *History) release(seq uint64, node, project string, documents []json.RawMessage) error {
	parts := []part{}
	for _, d := range documents {
		var e struct{ Kind, Name string }
		if err := json.Unmarshal(d, &e); err != nil {
			return fmt.Errorf("event %d: %w", seq, err)
		}
		parts = append(parts, part{e.Kind, e.Name, string(d) + "\n"})
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.kind+"\x00"+a.name, b.kind+"\x00"+b.name) })
	h.set(seq, node, h.of(node, project), parts)
	return nil
}

// withdraw takes one away.
func (h *History) withdraw(seq uint64, node, project, kind, name string) {
	n := h.of(node, project)
	left := slices.DeleteFunc(slices.Clone(n.parts()), func(p part) bool { return p.kind == kind && p.name == name })
	h.set(seq, node, n, left)
}

// set notes a node's artifacts, and whether it is there to be told of them.
func (h *History) set(seq uint64, id string, n *nodePast, parts []part) {
	var before setFrom
	if len(n.sets) > 0 {
		before = n.sets[len(n.sets)-1]
	}
	_, present := h.plane.nodes[id]
	after := setFrom{seq, present, parts}
	n.sets = append(n.sets, after)
	had, has := before.told(), after.told()
	for i, p := range had {
		if find(has, p) < 0 {
			n.note(Told{ID: policy.NewEventID(h.base, seq, policy.NumberWithdrawn+uint32(i)), Thing: p.thing(), Gone: true}) //nolint:gosec // at most 256
		}
	}
	for i, p := range has {
		if was := find(had, p); was < 0 || had[was].document != p.document {
			n.note(p.told(h.base, seq, i))
		}
	}
}

func (s setFrom) told() []part {
	if !s.present {
		return nil
	}
	return s.parts
}

func (p part) thing() Thing { return Thing{Kind: p.kind, Name: p.name} }

func (p part) told(base, seq uint64, place int) Told {
	return Told{
		ID: policy.NewEventID(base, seq, policy.NumberArtifact+uint32(place)), Thing: p.thing(), //nolint:gosec // at most 256
		Fingerprint: Fingerprint(p.document), Body: p.document,
	}
}

func find(parts []part, p part) int {
	return slices.IndexFunc(parts, func(q part) bool { return q.kind == p.kind && q.name == p.name })
}

// Tells is the one thing that an id may say to a node. It is ok where the event
// it names made it so: it changed the rules or the selector of the policy, or
// gave the node its labels or its artifacts, and the node had the thing then; or
// it took the thing away. A thing may so be told again that the node has.
func (h *History) Tells(node string, id policy.EventID) (t Told, ok bool) {
	seq, ok := id.Seq(h.base)
	n := h.nodes[node]
	if !ok || n == nil || seq > h.head {
		return t, false
	}
	switch number := id.Number(); {
	case number == policy.NumberTable:
		return t, false
	case number >= policy.NumberWithdrawn:
		return h.tellsArtifact(n, seq, id)
	case int(number) < len(h.numbers):
		return h.tellsRow(n, seq, id)
	}
	return t, false
}

func (h *History) tellsRow(n *nodePast, seq uint64, id policy.EventID) (t Told, ok bool) {
	name := h.numbers[id.Number()]
	for _, x := range n.told[Thing{Policy: name}] {
		if at, _ := x.ID.Seq(h.base); at <= seq {
			t, ok = x, true
		}
	}
	at, _ := t.ID.Seq(h.base)
	if !ok || t.Gone && at != seq {
		return Told{}, false
	}
	if !slices.Contains(h.policies[name].since, seq) && !slices.Contains(n.since, seq) {
		return Told{}, false
	}
	if t.ID, t.Revision = id, h.headAt(name, seq); !t.Gone {
		t.Revision = lastOf(n.has[name], seq)
	}
	return t, true
}

func (h *History) tellsArtifact(n *nodePast, seq uint64, id policy.EventID) (t Told, ok bool) {
	i := slices.IndexFunc(n.sets, func(s setFrom) bool { return s.seq == seq })
	if i < 0 {
		return t, false
	}
	if number := id.Number(); number >= policy.NumberArtifact {
		place := int(number - policy.NumberArtifact)
		if !n.sets[i].present || place >= len(n.sets[i].parts) {
			return t, false
		}
		return n.sets[i].parts[place].told(h.base, seq, place), true
	}
	place := int(id.Number() - policy.NumberWithdrawn)
	if i == 0 || place >= len(n.sets[i-1].parts) {
		return t, false
	}
	// A node that was away may be told later that something was withdrawn.
	p := n.sets[i-1].parts[place]
	if n.sets[i].present && find(n.sets[i].parts, p) >= 0 {
		return t, false
	}
	return Told{ID: id, Thing: p.thing(), Gone: true}, true
}

// Row is the fingerprint of the whole row that a node had last, as a pull shows
// it.
func (t Told) Row() string { return t.row }

// MustPull reports whether a node that resumes from an id must be told to pull: it
// is of another log, or beyond the end, or nobody can say what it lost. from is
// how far back the kept past reached, breaks are losses of the log that were
// accepted.
func (h *History) MustPull(id policy.EventID, from uint64, breaks ...uint64) bool {
	seq, ours := id.Seq(h.base)
	if !ours || seq > h.head || from > 0 && seq <= from {
		return true
	}
	return slices.ContainsFunc(breaks, func(b uint64) bool { return seq <= b })
}

// TableMay reports whether the table of a node may have changed above one
// sequence, up to another: something happened to a node or a policy of its
// project.
func (h *History) TableMay(node string, above, upTo uint64) bool {
	n := h.nodes[node]
	return n != nil && slices.ContainsFunc(h.moved[n.project], func(seq uint64) bool { return seq > above && seq <= upTo })
}
