package projector

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/policy"
)

// ErrUnknownNode: there is no such node now.
var ErrUnknownNode = errors.New("unknown node")

// ErrBehind: the fold has not come as far as the id that is resumed from.
var ErrBehind = errors.New("the fold is behind the event id")

// Past is what a node that has heard everything up to an id has missed, as the
// read model tells it at one moment.
type Past struct {
	Node NodeRef
	Seq  uint64    // the moment
	Time time.Time // log timestamp of Seq
	// Items ascend by ID, all above the id. One that is gone has Gone set.
	Items []PastItem
	// Whole: the kept past reaches back to the id. If not, the items are what the
	// node has now; what it lost is not known.
	Whole bool
	// Changed is the sequence of the last event that changed a node or a policy of
	// the node's project.
	Changed uint64
	// Plain: no policy of the node ever had anything of ordered policy. It may be
	// false where none had.
	Plain bool
}

// PastItem is an Item, or that the node has it no more.
type PastItem struct {
	Item
	Gone bool

	head HeadRef // of a row of which the store knows whether it is extended, while the past is read
}

// Past reads what a node missed above an id. join, if not nil, is called at the
// moment that is read, under the fold's lock: every Batch with a Seq above it is
// yet to come. Others may join at the same time. An id of an earlier log counts
// as 0, which nothing stands below. The error is ErrUnknownNode or ErrBehind, and
// join was not called; or the store could not be read, and join was.
func (m *model) Past(id policy.NodeID, after policy.EventID, join func(seq uint64, node NodeRef)) (Past, error) {
	if err := m.wholePast(); err != nil {
		return Past{}, err
	}
	past, missing, snap, err := m.past(id, after, join)
	if err != nil || snap == nil {
		return past, err
	}
	defer snap.Close()
	read := map[compiler.Fingerprint][]byte{}
	for _, i := range missing {
		item := &past.Items[i]
		b := read[item.Fingerprint]
		if b == nil {
			if b, err = payload(snap, item.Fingerprint); err != nil {
				return Past{}, err
			}
			read[item.Fingerprint] = b
			m.payloads.put(item.Fingerprint, b)
		}
		item.Payload = b
	}
	return past, nil
}

// past is what memory knows of it: payloads that are missing are to be read
// from the snapshot, which is to be closed.
func (m *model) past(id policy.NodeID, after policy.EventID, join func(uint64, NodeRef)) (past Past, missing []int, snap *sharedSnapshot, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n := m.state.nodes[id]
	if n == nil || n.identity == nil {
		return past, nil, nil, ErrUnknownNode
	}
	seq, ours := after.Seq(m.cursor.base)
	switch {
	case !ours:
		after, seq = 0, 0
	case seq > m.cursor.seq:
		return past, nil, nil, ErrBehind
	}
	r := resume{state: m.state, base: m.cursor.base, node: n, after: after, seq: seq}
	by := n.identity.selectors()
	past = Past{Node: NodeRef(n.ordinal), Seq: m.cursor.seq, Time: logTime(m.cursor.time), Changed: n.project.changed, Plain: plain(by)}
	past.Whole = m.state.kept.from == 0 || seq > m.state.kept.from || fault.Always(fault.WindowEdge) && seq == m.state.kept.from
	r.rows(by)
	r.artifacts()
	if past.Whole {
		r.lostRows()
		r.lostArtifacts()
	}
	slices.SortFunc(r.items, func(a, b PastItem) int { return cmp.Compare(a.ID, b.ID) })
	past.Items = r.items
	for i := range past.Items {
		item := &past.Items[i]
		if item.Gone {
			continue
		}
		if item.head.Policy != uuid.Nil {
			var failed error
			item.Extended, failed = m.extended.read(m.db, item.head)
			item.head = HeadRef{}
			err = errors.Join(err, failed)
		}
		if item.Payload = m.payloads.get(item.Fingerprint); item.Payload == nil {
			missing = append(missing, i)
		}
	}
	if len(missing) > 0 {
		snap = m.resumes.at(m.cursor.seq, m.db)
	}
	if join != nil {
		join(past.Seq, past.Node)
	}
	if err != nil && snap != nil {
		err = errors.Join(err, snap.Close())
	}
	return past, missing, snap, err
}

// Base is what the log's sequences are counted from in event ids.
func (m *model) Base() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.cursor.base
}

// PastStatus says how far back the kept past reaches.
type PastStatus struct {
	From    uint64 // resumes from this sequence or below it are before the window; 0: all of the log is in it
	Records int
	Bytes   int
	Dropped uint64 // records dropped for want of space since the start; those that grew old are not counted
}

// PastStatus is how the kept past stands now.
func (m *model) PastStatus() PastStatus {
	m.mu.RLock()
	defer m.mu.RUnlock()
	k := &m.state.kept
	return PastStatus{From: k.from, Records: k.len(), Bytes: k.bytes, Dropped: k.dropped}
}

// resume gathers what one node missed above an id.
type resume struct {
	*state
	base  uint64
	node  *node
	after policy.EventID
	seq   uint64 // of after
	items []PastItem
}

// add adds an item, unless the node has heard of it.
func (r *resume) add(at moment, number uint32, i PastItem) {
	i.ID = policy.NewEventID(r.base, at.seq, number)
	if i.ID <= r.after {
		return
	}
	i.Seq, i.Time = at.seq, logTime(at.time)
	r.items = append(r.items, i)
}

// rows are those that the node has, which these selectors match. A row is as old as the
// later of what its policy says and the node's labels.
func (r *resume) rows(by []*selector) {
	n := r.node
	for _, s := range by {
		if max(s.generation, n.since.seq) < r.seq {
			continue // nor is any of its policies younger
		}
		for _, p := range s.policies {
			at := p.since
			if n.since.seq > at.seq {
				at = n.since
			}
			head := p.revisions.at(at.seq)
			if fault.Always(fault.WrongRevision) {
				head = p.revisions.at(forever - 1)
			}
			item := PastItem{Item: Item{Policy: p.id, Revision: head.id, Fingerprint: p.fp}}
			if p.of != nil || p.ever.get() != notExtending {
				item.head = HeadRef{Policy: p.id, Revision: head.id, seq: head.seq}
			}
			r.add(at, p.number, item)
		}
	}
}

// artifacts are those that the node has.
func (r *resume) artifacts() {
	for _, s := range r.node.sets() {
		for _, p := range s.parts {
			r.add(p.since, numberOf(p.place, true), PastItem{Item: Item{Kind: p.kind, Name: s.said(p.name), Fingerprint: p.fingerprint}})
		}
	}
}

// lostArtifacts are those that the node had and does not have, each as it went
// last.
func (r *resume) lostArtifacts() {
	seen := map[artifactPart]bool{}
	for _, s := range r.node.sets() {
		for _, p := range s.parts {
			seen[artifactPart{kind: p.kind, name: s.said(p.name)}] = true
		}
	}
	list := r.kept.withdrawn[r.node.ordinal]
	for i := len(list) - 1; i >= 0 && list[i].until.seq >= r.seq; i-- {
		w := list[i]
		part := artifactPart{kind: w.kind, name: w.name}
		if !seen[part] {
			seen[part] = true
			r.add(w.until, numberOf(w.place, false), PastItem{Gone: true, Item: Item{Kind: w.kind, Name: w.name}})
		}
	}
}

// lostRows are those that the node had and does not have, each as it went last.
//
// A row is there while a selector of the policy that matches labels of the node
// is its selector, and they are the node's labels. It went with the earlier end
// of the two, for the last pair of which that holds.
func (r *resume) lostRows() {
	ends := map[*policyState]moment{}
	end := func(p *policyState, at moment) {
		if p = p.itself(); at.seq >= r.seq && at.seq > ends[p].seq {
			ends[p] = at
		}
	}
	for _, w := range r.wardrobe() {
		r.missed(w.labels, func(l *lost) {
			if until, both := w.last(l.since, l.until); both {
				end(l.policy, until)
			}
		})
		if w.now {
			continue // what matches now is there
		}
		r.matched(w.labels, func(p *policyState) {
			if until, both := w.last(p.selected, moment{seq: forever}); both {
				end(p, until)
			}
		})
	}
	for p, at := range ends {
		if p.armOf(r.node.identity) == nil {
			r.add(at, p.number, PastItem{Gone: true, Item: Item{Policy: p.id, Revision: p.revisions.head(at.seq)}})
		}
	}
}

// forever is an end that has not come.
const forever = 1<<64 - 1

// worn is one label set and when the node had it, oldest first.
type worn struct {
	labels policy.Labels
	times  []wornFor
	now    bool
}

type wornFor struct {
	since uint64
	until moment
}

// last is the end of the last time that the labels were there together with
// something that was there from since until another event.
func (w *worn) last(since uint64, until moment) (end moment, both bool) {
	i, _ := slices.BinarySearchFunc(w.times, until.seq, func(t wornFor, seq uint64) int { return cmp.Compare(t.since, seq) })
	if i == 0 || w.times[i-1].until.seq <= since {
		return end, false
	}
	if end = w.times[i-1].until; until.seq < end.seq {
		end = until
	}
	return end, true
}

// wardrobe is every label set that the node had since the id.
func (r *resume) wardrobe() []*worn {
	all := []*worn{{labels: r.node.identity.labels, now: true}}
	var list []*former
	r.kept.formers.of(r.node, func(f *former) bool {
		if f.until.seq >= r.seq {
			list = append(list, f)
			return true
		}
		return false
	})
	slices.Reverse(list)
	byKey := map[string]*worn{}
	if len(list) > 0 {
		byKey[r.node.identity.key] = all[0]
	}
	for _, f := range list {
		key := f.labels.Key()
		w := byKey[key]
		if w == nil {
			w = &worn{labels: f.labels}
			byKey[key] = w
			all = append(all, w)
		}
		w.times = append(w.times, wornFor{f.since, f.until})
	}
	all[0].times = append(all[0].times, wornFor{r.node.since.seq, moment{seq: forever}})
	return all
}

// missed calls f with what policies lost since the id of those that matched
// labels, some of it twice.
func (r *resume) missed(labels policy.Labels, f func(*lost)) {
	proj := r.node.project
	if len(proj.lost) == 0 {
		return
	}
	try := func(t term) {
		list := proj.lost[t]
		from, _ := slices.BinarySearchFunc(list, r.seq, func(l *lost, seq uint64) int { return cmp.Compare(l.until.seq, seq) })
		for _, l := range list[from:] {
			if l.sel.Matches(labels) && l.scope.holds(labels) {
				f(l)
			}
		}
	}
	try(term{})
	for _, l := range labels {
		try(term{Label: policy.Label{Key: l.Key}})
		try(term{l, true})
	}
}

// matched calls f with the policies that match labels which the node had.
func (r *resume) matched(labels policy.Labels, f func(*policyState)) {
	for _, s := range r.node.project.index.matching(labels) {
		for _, p := range s.policies {
			f(p)
		}
	}
}

// Latest is the highest id, at or below one, of what a node has or is known to
// have lost; 0: there is none.
func (m *model) Latest(id policy.NodeID, upTo policy.EventID) (latest policy.EventID) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n := m.state.nodes[id]
	if n == nil || n.identity == nil {
		return 0
	}
	r := resume{state: m.state, base: m.cursor.base, node: n}
	note := func() {
		for i := range r.items {
			if at := r.items[i].ID; at <= upTo {
				latest = max(latest, at)
			}
		}
		r.items = r.items[:0]
	}
	r.rows(n.identity.selectors())
	r.artifacts()
	note()
	r.after = latest
	r.seq, _ = latest.Seq(m.cursor.base)
	r.lostRows()
	r.lostArtifacts()
	note()
	return latest
}

// Roster is the sequence of the last event that registered or removed a node
// since the store was opened: while it stays, NodesIn does.
func (m *model) Roster() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.roster
}

// NodesIn are the nodes of a partition, in no particular order.
func (m *model) NodesIn(partition int) []policy.NodeID {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if partition >= len(m.state.byOrdinal) {
		return nil
	}
	ids := make([]policy.NodeID, 0, len(m.state.byOrdinal[partition]))
	for _, n := range m.state.byOrdinal[partition] {
		if n != nil && n.identity != nil && m.state.nodes[n.id] == n {
			ids = append(ids, n.id)
		}
	}
	return ids
}
