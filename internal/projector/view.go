package projector

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// View is a consistent look at the state, valid only inside the function given
// to Read. The fold waits meanwhile: look, copy, return.
type View struct{ m *model }

// Read calls f with a view.
func (m *model) Read(f func(v *View)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f(&View{m})
}

// Seq is the sequence the view stands at.
func (v *View) Seq() uint64 { return v.m.cursor.seq }

// Base is what the log's sequences are counted from in event ids.
func (v *View) Base() uint64 { return v.m.cursor.base }

// NodeInfo is a registered node. Identity is a private handle of its label set,
// fit for caches and nothing else.
type NodeInfo struct {
	policy.Node
	Version  uint64 // log sequence of the event that gave the present facts
	Identity uint32
}

// Node returns a node that exists now.
func (v *View) Node(id policy.NodeID) (NodeInfo, bool) {
	n := v.m.state.nodes[id]
	if n == nil || n.identity == nil {
		return NodeInfo{}, false
	}
	info := v.m.state.info(n)
	if n.addressed {
		if b, err := v.m.get(nodeKey(n.project.id, id)); err == nil {
			if r, err := readNode(b); err == nil {
				info.Addresses = r.addresses
			}
		}
	}
	return info, true
}

func (l *layout) info(n *node) NodeInfo {
	return NodeInfo{
		Node:     policy.Node{ID: n.id, Project: n.project.id, Labels: n.identity.labels},
		Version:  *l.factsOf(n),
		Identity: n.identity.ordinal,
	}
}

// looked is how many nodes or policies a view looks at for one part of a list:
// the fold waits meanwhile, a millisecond or so.
const looked = 1024

// Nodes lists a project's nodes whose ids begin with prefix and whose labels satisfy
// expr, by id, those above after, at most limit, of the next thousand or so that the project has. more says
// that there may be others above next.
func (v *View) Nodes(project uuid.UUID, prefix string, expr policy.Expr, above policy.NodeID, limit int) (out []NodeInfo, next policy.NodeID, more bool, err error) {
	start := append(nodeKey(project, above), 0)
	first := nodeKey(project, policy.NodeID(prefix))
	if above == "" || bytes.Compare(start, first) < 0 {
		start = first
	}
	it, err := v.m.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: after(first)})
	if err != nil {
		return nil, "", false, fmt.Errorf("list nodes: %w", err)
	}
	defer it.Close()
	at := 0
	for ok := it.First(); ok; ok = it.Next() {
		if len(out) == limit || at == looked {
			return out, next, true, nil
		}
		at++
		next = policy.NodeID(it.Key()[17:])
		n := v.m.state.nodes[next]
		if n == nil || n.identity == nil || !expr.Matches(n.identity.labels) {
			continue
		}
		info := v.m.state.info(n)
		if n.addressed {
			r, err := readNode(it.Value())
			if err != nil {
				return nil, "", false, err
			}
			info.Addresses = r.addresses
		}
		out = append(out, info)
	}
	return out, next, false, it.Error()
}

// Policy returns a live policy of a project, its head hydrated.
func (v *View) Policy(project, id uuid.UUID) (policy.Policy, bool, error) {
	p := v.live(project, id)
	if p == nil {
		return policy.Policy{}, false, nil
	}
	out := p.info()
	rev, err := v.revisionAt(id, p.headSeq)
	out.Head = rev.Revision
	return out, true, err
}

func (v *View) live(project, id uuid.UUID) *policyState {
	p := v.m.state.policies[id]
	if p == nil || p.deleted() || p.project.id != project {
		return nil
	}
	return p
}

func (p *policyState) info() policy.Policy {
	return policy.Policy{
		ID: p.id, Project: p.project.id, Slug: p.slug, DisplayName: p.name, Head: policy.Revision{ID: p.head},
		CreatedAt: logTime(p.created), UpdatedAt: logTime(p.headTime),
	}
}

// PolicyBySlug finds a live policy's id.
func (v *View) PolicyBySlug(project uuid.UUID, slug string) (uuid.UUID, bool) {
	if p := v.m.state.slugHolder(project, slug); p != nil {
		return p.id, true
	}
	return uuid.Nil, false
}

// Policies lists a project's live policies by id, those above after, at most
// limit, of the next thousand or so that the project has or had. Of the head they
// have the id only. more says that there may be others above next.
func (v *View) Policies(project, above uuid.UUID, limit int) (out []policy.Policy, next uuid.UUID, more bool, err error) {
	start := append(policyKey(project, above), 0)
	it, err := v.m.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: after(append([]byte{keyPolicy}, project[:]...))})
	if err != nil {
		return nil, next, false, fmt.Errorf("list policies: %w", err)
	}
	defer it.Close()
	at := 0
	for ok := it.First(); ok; ok = it.Next() {
		if len(out) == limit || at == looked {
			return out, next, true, nil
		}
		at++
		next = uuid.UUID(it.Key()[17:])
		if p := v.live(project, next); p != nil {
			out = append(out, p.info())
		}
	}
	return out, next, false, it.Error()
}

// RevisionInfo is a stored revision and its place in the log.
type RevisionInfo struct {
	policy.Revision
	Seq  uint64
	Time time.Time // log timestamp

	Slug, DisplayName string // of the policy, as the revision left it
}

// Revisions lists a live policy's revisions, newest first, those below before
// (0: from the head), at most limit.
func (v *View) Revisions(project, id uuid.UUID, before uint64, limit int) ([]RevisionInfo, error) {
	if v.live(project, id) == nil {
		return nil, nil
	}
	if before == 0 {
		before = 1<<64 - 1
	}
	it, err := v.m.db.NewIter(&pebble.IterOptions{LowerBound: revisionKey(id, 0), UpperBound: revisionKey(id, before)})
	if err != nil {
		return nil, fmt.Errorf("list revisions: %w", err)
	}
	defer it.Close()
	var out []RevisionInfo
	for ok := it.Last(); ok && len(out) < limit; ok = it.Prev() {
		r, err := readRevision(it.Key(), it.Value())
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, it.Error()
}

// Revision returns one revision of a live policy, one that is staged included.
func (v *View) Revision(project, id, revision uuid.UUID) (RevisionInfo, bool, error) {
	if v.live(project, id) == nil {
		return RevisionInfo{}, false, nil
	}
	b, err := v.m.get(revisionIDKey(id, revision))
	if errors.Is(err, pebble.ErrNotFound) {
		return beside(v.m.state.policies[id], revision)
	}
	if err != nil || len(b) != 8 {
		return RevisionInfo{}, false, errors.Join(err, errRecord)
	}
	r, err := v.revisionAt(id, binary.BigEndian.Uint64(b))
	return r, err == nil, err
}

// beside returns the revision of a rollout that has not ended.
func beside(p *policyState, revision uuid.UUID) (RevisionInfo, bool, error) {
	if p.rollout == nil || p.rollout.revision != revision || p.rollout.over() {
		return RevisionInfo{}, false, nil
	}
	ev, err := p.rollout.event()
	at := p.rollout.staged
	return RevisionInfo{ev.Revision, at.seq, logTime(at.time), ev.Slug, ev.DisplayName}, err == nil, err
}

func (v *View) revisionAt(id uuid.UUID, seq uint64) (RevisionInfo, error) {
	key := revisionKey(id, seq)
	b, err := v.m.get(key)
	if err != nil {
		return RevisionInfo{}, fmt.Errorf("read revision of policy %s at %d: %w", id, seq, err)
	}
	return readRevision(key, b)
}

func readRevision(key, value []byte) (RevisionInfo, error) {
	if len(value) < 8 {
		return RevisionInfo{}, errRecord
	}
	ev, err := policy.Decode(value[8:])
	rc, ok := ev.(policy.RevisionCreated)
	if err != nil || !ok {
		return RevisionInfo{}, errRecord
	}
	at := int64(binary.BigEndian.Uint64(value))
	return RevisionInfo{rc.Revision, binary.BigEndian.Uint64(key[17:]), logTime(at), rc.Slug, rc.DisplayName}, nil
}

// Rows are a node's rows, by policy id. Generation changes whenever the rows of
// the identity do, so (Identity, Generation) is a cache key within one process.
type Rows struct {
	Identity   uint32
	Generation uint64
	Rows       []Row
}

// Row is one (node, policy) row without its payload.
type Row struct {
	Policy      uuid.UUID
	Revision    uuid.UUID
	Fingerprint compiler.Fingerprint
	CompiledAt  time.Time // log timestamp of the head revision
}

// Generation is the cache key of a node's rows, without deriving them.
func (v *View) Generation(id policy.NodeID) (identity uint32, generation uint64, ok bool) {
	n := v.m.state.nodes[id]
	if n == nil || n.identity == nil {
		return 0, 0, false
	}
	return n.identity.ordinal, v.m.state.rowsGeneration(n.identity, n.identity.selectors()), true
}

// Rows derives the rows of a node that exists now.
func (v *View) Rows(id policy.NodeID) (Rows, bool) {
	n := v.m.state.nodes[id]
	if n == nil || n.identity == nil {
		return Rows{}, false
	}
	by := n.identity.selectors()
	return Rows{n.identity.ordinal, v.m.state.rowsGeneration(n.identity, by), rowsInForce(by)}, true
}

// rowsInForce are the rows that nodes know of: not those of policies in audit mode,
// which have no rules.
func rowsInForce(by []*selector) []Row {
	return slices.DeleteFunc(rows(by), func(r Row) bool { return r.Fingerprint == compiler.Empty.Fingerprint })
}

// rows are what a node must apply that selectors match (docs/design.md#the-read-model).
func rows(by []*selector) []Row {
	var out []Row
	for _, s := range by {
		for _, p := range s.policies {
			out = append(out, Row{p.id, p.head, p.fp, logTime(p.headTime)})
		}
	}
	slices.SortFunc(out, func(a, b Row) int { return slices.Compare(a.Policy[:], b.Policy[:]) })
	return out
}

// Payload returns the rule payload of a row's fingerprint. A payload that does
// not hash to it is *CorruptError.
func (v *View) Payload(fp compiler.Fingerprint) ([]byte, error) { return payload(v.m.db, fp) }

func payload(r pebble.Reader, fp compiler.Fingerprint) ([]byte, error) {
	b, closer, err := r.Get(payloadKey(fp))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, &CorruptError{Detail: fmt.Sprintf("the payload of fingerprint %s is missing", fp)}
	}
	if err != nil {
		return nil, fmt.Errorf("read payload %s: %w", fp, err)
	}
	defer closer.Close()
	if sha256.Sum256(b) != fp {
		return nil, &CorruptError{Detail: fmt.Sprintf("the payload of fingerprint %s does not hash to it", fp)}
	}
	return slices.Clone(b), nil
}

// Member is a node a selector side matches.
type Member struct {
	ID        policy.NodeID
	Addressed bool // has an address
}

// Match lists the nodes of a project that each side of a selector matches, by id.
func (v *View) Match(project uuid.UUID, sel policy.Selector) (source, destination []Member) {
	p := v.m.state.projects[project]
	if p == nil {
		return nil, nil
	}
	return v.members(p, sel.Source), v.members(p, sel.Destination)
}

func (v *View) members(p *project, e policy.Expr) []Member {
	var out []Member
	ids := v.m.state.matchSide(p, e)
	ids.each(func(o uint32) bool {
		v.m.state.identities.at(o).nodes.each(&v.m.state.layout, func(n uint32) bool {
			m := v.m.state.nodeAt(n)
			out = append(out, Member{m.id, m.addressed})
			return true
		})
		return true
	})
	slices.SortFunc(out, func(a, b Member) int { return compareIDs(a.ID, b.ID) })
	return out
}

func compareIDs(a, b policy.NodeID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Counts are for status and metrics.
type Counts struct {
	Nodes, Identities, Policies, Selectors int
	Rejected                               uint64
	AdmissionPolicies                      int
}

// Counts of what exists now.
func (v *View) Counts() Counts {
	l := v.m.state.live
	return Counts{Nodes: l.nodes, Identities: l.identities, Policies: l.policies, Selectors: l.selectors, Rejected: v.m.cursor.rejected, AdmissionPolicies: v.m.state.admission.live}
}
