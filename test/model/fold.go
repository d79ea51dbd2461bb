package main

// The fold, as small as it can be. A label set is one of four; a selector is
// the set of label sets that it matches, as a mask. Everything here is a pure
// function of the log.

type kind int

const (
	revise   kind = iota // make or revise a policy
	remove               // delete a policy
	label                // register a node, or give it other labels or another address
	leave                // remove a node
	release              // give a node a set of artifacts
	withdraw             // take one artifact of a node away
	rotate               // another signing key
	other                // an event that touches nothing
)

type event struct {
	kind    kind
	policy  int // number: the n-th policy of the plane, by log order
	node    int
	labels  int
	address int
	sel     uint8
	rules   int    // stands for the fingerprint
	set     []part // of release, ascending by name
	name    int    // of withdraw
	tick    int    // of the clock that bases are counted by
}

const nobody = -1 // labels of a node that is not registered

// policyState: since is the last event that changed its rules or its selector.
// A revision that changes neither only adds to revs: nobody is sent it.
type policyState struct {
	sel   uint8 // 0: deleted
	rules int
	since int
	revs  []int // sequences of its revisions, ascending
}

// part is one artifact of a node. since is what must not be its id.
type part struct{ name, content, since int }

// nodeState: since is the last event that changed its label set, and set since
// setSince what it is. A node that left keeps its set: it is sent the set when it
// comes back.
type nodeState struct {
	labels, address, since int
	set                    []part
	setSince               int
}

// The kept past. Up to (not at) seq a policy had another selector, a node other
// labels, and a node's set this artifact, in this place.
type lost struct {
	seq, policy int
	sel         uint8
}
type (
	former    struct{ seq, node, labels int }
	withdrawn struct {
		seq, node, name, place int
		away                   bool // the node was not there
	}
)

// state is the read model after event seq. It is never changed: a fold copies.
type state struct {
	seq       int
	policies  []policyState
	nodes     []nodeState
	lost      []lost
	former    []former
	withdrawn []withdrawn
	changed   int // the last event that changed a node or a policy: tables may differ
	key       int // that signs
	keySince  int
}

func (s *state) clone() *state {
	n := *s
	n.policies = append([]policyState(nil), s.policies...)
	n.nodes = append([]nodeState(nil), s.nodes...)
	n.lost = s.lost[:len(s.lost):len(s.lost)]
	n.former = s.former[:len(s.former):len(s.former)]
	n.withdrawn = s.withdrawn[:len(s.withdrawn):len(s.withdrawn)]
	return &n
}

func (s *state) fold(e event) *state {
	n := s.clone()
	n.seq++
	switch e.kind {
	case revise:
		n.revise(e)
	case remove:
		p := &n.policies[e.policy]
		n.lost = append(n.lost, lost{n.seq, e.policy, p.sel})
		p.sel, p.since, n.changed = 0, n.seq, n.seq
	case label, leave:
		to := e.labels
		if e.kind == leave {
			to = nobody
		}
		x := &n.nodes[e.node]
		if x.labels != to {
			n.former = append(n.former, former{n.seq, e.node, x.labels})
			x.labels, x.since = to, n.seq
		}
		x.address, n.changed = e.address, n.seq
	case release:
		n.reset(e.node, e.set)
	case withdraw:
		var left []part
		for _, p := range n.nodes[e.node].set {
			if p.name != e.name {
				left = append(left, p)
			}
		}
		n.reset(e.node, left)
	case rotate:
		n.key, n.keySince = n.key+1, n.seq
	}
	return n
}

func (s *state) revise(e event) {
	if e.policy == len(s.policies) {
		s.policies = append(s.policies, policyState{})
	}
	p := &s.policies[e.policy]
	if p.sel != e.sel {
		s.lost = append(s.lost, lost{s.seq, e.policy, p.sel})
	}
	if len(p.revs) == 0 || p.sel != e.sel || p.rules != e.rules {
		p.since = s.seq
	}
	p.sel, p.rules = e.sel, e.rules
	p.revs = append(p.revs[:len(p.revs):len(p.revs)], s.seq)
	s.changed = s.seq
}

// reset gives a node another set of artifacts.
func (s *state) reset(node int, set []part) {
	x := &s.nodes[node]
	var now []part
	for _, p := range set {
		p.since = s.seq
		if was := find(x.set, p.name); was >= 0 && x.set[was].content == p.content {
			p.since = x.set[was].since
		}
		now = append(now, p)
	}
	for place, p := range x.set {
		if find(now, p.name) < 0 {
			s.withdrawn = append(s.withdrawn, withdrawn{s.seq, node, p.name, place, x.labels == nobody})
		}
	}
	x.set, x.setSince = now, s.seq
}

func find(set []part, name int) int {
	for i, p := range set {
		if p.name == name {
			return i
		}
	}
	return -1
}

func matches(sel uint8, labels int) bool { return labels != nobody && sel>>labels&1 == 1 }

func (s *state) has(node, policy int) bool {
	return policy < len(s.policies) && matches(s.policies[policy].sel, s.nodes[node].labels)
}

// table stands for a node's compiled table: it holds the addresses of everybody
// whom a policy of the node is about.
func (s *state) table(node int) uint64 {
	sum := uint64(14695981039346656037)
	mix := func(v int) { sum = (sum ^ uint64(v+7)) * 1099511628211 } //nolint:gosec // a hash
	for num := range s.policies {
		if !s.has(node, num) {
			continue
		}
		mix(num)
		mix(s.policies[num].rules)
		for n, x := range s.nodes {
			if s.has(n, num) {
				mix(n)
				mix(x.address)
			}
		}
	}
	return sum
}

// revisionAt is the head of a policy as it was at seq.
func (p *policyState) revisionAt(seq int) int {
	r := 0
	for _, x := range p.revs {
		if x <= seq {
			r = x
		}
	}
	return r
}

// tells says what a frame is.
type tells int

const (
	row   tells = iota // a row, or an artifact
	gone               // that it is gone
	pull               // the message to pull
	table              // that the table changed
)

// frame is what a node is sent. Equal ids must have equal frames.
type frame struct {
	id       id
	tells    tells
	thing    int // the policy's number, or artifact + the name
	content  int
	revision int
	prev     id  // on the subject: the id before this one
	born     int // on the subject: the log
	key      int // that signed it, on the subject
	last     bool
}

const artifact = 1 << 10 // things above are artifacts

// live is what event seq tells a node: the difference it made, by number.
// Sequences are the log's, not yet places of ids.
func live(before, after *state, node int) (out []frame) {
	at := func(num int) id { return id{after.seq, num} }
	for num := range after.policies {
		had, has := before.has(node, num), after.has(node, num)
		p := &after.policies[num]
		switch {
		case has && (!had || before.policies[num].rules != p.rules):
			out = append(out, frame{id: at(num), thing: num, content: p.rules, revision: p.revisionAt(after.seq)})
		case had && !has:
			out = append(out, frame{id: at(num), tells: gone, thing: num, revision: p.revisionAt(after.seq)})
		}
	}
	had, has := before.parts(node), after.parts(node)
	for i, p := range had {
		if find(has, p.name) < 0 {
			out = append(out, frame{id: at(numWithdrawn + i), tells: gone, thing: artifact + p.name})
		}
	}
	for i, p := range has {
		if was := find(had, p.name); was < 0 || had[was].content != p.content {
			out = append(out, frame{id: at(numArtifact + i), thing: artifact + p.name, content: p.content})
		}
	}
	if off("number") { // ordinals: the place among what changed for this node
		for i := range out {
			out[i].id.num = i
		}
	}
	if len(out) > 0 {
		out[len(out)-1].last = true
	}
	return out
}

// parts are the artifacts that a node is sent: none while it is not there.
func (s *state) parts(node int) []part {
	if s.nodes[node].labels == nobody {
		return nil
	}
	return s.nodes[node].set
}

// past is what a node that has heard of everything up to n is sent from the
// read model alone: each thing that changed since, once, and what it lost.
//
// A row changes with its policy or with its node, so the later of the two
// since numbers is its id. That may tell a row that did not change for this
// node (its labels moved and the policy matches both), never the reverse.
func (s *state) past(node int, n id, from int) (out []frame) {
	x := s.nodes[node]
	for num := range s.policies {
		p := &s.policies[num]
		if s.has(node, num) {
			seq := p.since
			if !off("node-since") {
				seq = max(seq, x.since)
			}
			rev := p.revisionAt(seq)
			if off("revision-at") {
				rev = p.revisionAt(s.seq)
			}
			out = append(out, frame{id: id{seq, num}, thing: num, content: p.rules, revision: rev})
		} else if seq := s.lastLoss(node, num, max(n.place, from+1)); seq > 0 {
			out = append(out, frame{id: id{seq, num}, tells: gone, thing: num, revision: p.revisionAt(seq)})
		}
	}
	out = append(out, s.pastParts(node, max(n.place, from+1))...)
	sortFrames(out)
	if off("number") {
		at, k := 0, 0
		for i := range out {
			if out[i].id.place != at {
				at, k = out[i].id.place, 0
			}
			out[i].id.num = k
			k++
		}
	}
	keep := out[:0]
	for _, f := range out {
		if n.before(f.id) {
			keep = append(keep, f)
		}
	}
	return keep
}

// pastParts is past for artifacts. since is of the whole set: a place in the
// set means something only for the set as an event left it.
func (s *state) pastParts(node, from int) (out []frame) {
	x := s.nodes[node]
	if x.labels == nobody {
		return nil
	}
	for i, p := range x.set {
		seq := max(x.setSince, x.since)
		if off("set-since") {
			seq = max(p.since, x.since)
		}
		out = append(out, frame{id: id{seq, numArtifact + i}, thing: artifact + p.name, content: p.content})
	}
	met := map[int]bool{}
	for i := len(s.withdrawn) - 1; i >= 0 && !off("withdrawn"); i-- {
		r := s.withdrawn[i]
		if r.node != node || met[r.name] || r.seq < from || r.away && off("withdrawn-away") {
			continue
		}
		met[r.name] = true
		if find(x.set, r.name) < 0 {
			out = append(out, frame{id: id{r.seq, numWithdrawn + r.place}, tells: gone, thing: artifact + r.name})
		}
	}
	return out
}

// lastLoss is the last event, from seq from on, at which a node lost a policy
// that it does not have now; 0: it did not have it then either. It walks back
// through the kept past of both, of which nothing below from is left.
func (s *state) lastLoss(node, num, from int) int {
	sel, labels := s.policies[num].sel, s.nodes[node].labels
	i, j := len(s.lost)-1, len(s.former)-1
	for {
		for i >= 0 && (s.lost[i].policy != num || off("lost")) {
			i--
		}
		for j >= 0 && (s.former[j].node != node || off("former")) {
			j--
		}
		seq := 0
		switch {
		case i >= 0 && (j < 0 || s.lost[i].seq > s.former[j].seq):
			seq, sel = s.lost[i].seq, s.lost[i].sel
			i--
		case j >= 0:
			seq, labels = s.former[j].seq, s.former[j].labels
			j--
		}
		if seq == 0 || seq < from {
			return 0
		}
		if matches(sel, labels) {
			return seq
		}
	}
}
