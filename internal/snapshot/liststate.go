package snapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// contents is equal for tables of equal bytes, and for no others. It is private
// to a process.
type contents [sha256.Size]byte

// listState is what a list comes to with the nodes of a roster. It never changes.
type listState struct {
	list    listKey
	rules   int
	kinds   *datapath.Kinds
	roster  *roster
	members []*memberPage // by page of the roster; nil: without
	sum     contents
	table   *datapath.Table
	err     error // it is refused: there is no table
	// sorting and building are the steps that the two take from the start.
	sorting, building int
}

// member is a node that some rule's peer holds.
type member struct {
	*projector.Placed
	kind *datapath.Kind
}

// memberPage is the members of one page of the roster.
type memberPage struct {
	members []member
	sum     contents
}

// follower keeps what a list comes to current.
type follower struct {
	mu     sync.Mutex // held for little: nobody who has it waits for a turn
	census *datapath.Census
	state  *datapath.State // nil: the list is refused
	base   contents        // of what follows from the rules alone
	now    *listState
	times  int // that it was brought up to date
}

// These bound what is brought up to date in one go: nodes, looks at a peer, and
// steps of entries, of about a slice in all. What is more is made anew, and lets
// others have their turn.
const (
	movesAtOnce = 256
	looksAtOnce = 1 << 17
	stepsAtOnce = 1 << 20
)

// to brings what the list comes to up to a roster. ok is false where that takes
// making it anew: everything is as it was then.
func (f *follower) to(r *roster, w *datapath.Work) (s *listState, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.now.roster == r:
		return f.now, true
	case f.state == nil || r.seq < f.now.roster.seq:
		return nil, false
	}
	list, ok := r.since(f.now.roster, movesAtOnce)
	if !ok || len(list)*f.now.kinds.Looks() > looksAtOnce {
		return nil, false
	}
	next := &listState{}
	*next = *f.now
	next.roster = r
	kinds := f.turn(list)
	b := f.batch(list, kinds)
	b.Work = w
	if err := f.state.Advance(b); err != nil {
		f.turnBack(list, kinds)
		return nil, false
	}
	next.table, next.sorting, next.building = f.state.Table(), f.census.Steps(), f.state.Steps()
	next.move(list, kinds, f.base)
	f.now = next
	f.times++
	return next, true
}

// kindsOf are those of a node before and after it moved; nil: nobody's peer.
type kindsOf struct{ before, after *datapath.Kind }

// turn lets nodes come and go.
func (f *follower) turn(list []moved) []kindsOf {
	kinds := make([]kindsOf, len(list))
	for i, m := range list {
		if m.before != nil {
			kinds[i].before = f.now.kindOf(m.before.ID)
			f.census.Go(m.before.Node, kinds[i].before)
		}
		if m.after != nil {
			kinds[i].after, _ = f.census.Come(m.after.Node, nil) // no bound, no error
		}
	}
	return kinds
}

// turnBack is turn undone.
func (f *follower) turnBack(list []moved, kinds []kindsOf) {
	for i, m := range slices.Backward(list) {
		if m.after != nil {
			f.census.Go(m.after.Node, kinds[i].after)
		}
		if m.before != nil {
			_, _ = f.census.Come(m.before.Node, nil)
		}
	}
}

// batch is what nodes that moved change about the identities.
func (f *follower) batch(list []moved, kinds []kindsOf) (b datapath.Batch) {
	names := map[string]bool{}
	for _, k := range kinds {
		for _, k := range []*datapath.Kind{k.before, k.after} {
			if k != nil {
				names[k.Name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		_, was := f.state.Table().ID(name)
		switch now := f.census.Kind(name); {
		case was && now == nil:
			b.RemoveIdentities = append(b.RemoveIdentities, name)
		case !was && now != nil:
			b.AddIdentities = append(b.AddIdentities, now.Identity)
		}
	}
	return b
}

// move takes up where nodes went.
func (s *listState) move(list []moved, kinds []kindsOf, base contents) {
	own := map[int]bool{}
	s.members = slices.Clone(s.members)
	sums := summer{table: s.table, of: map[string]contents{}}
	for i, m := range list {
		x := cmp.Or(m.after, m.before)
		at := pageOf(x.ID, len(s.members))
		if !own[at] {
			s.members[at], own[at] = &memberPage{members: slices.Clone(s.members[at].all())}, true
		}
		p := s.members[at]
		n, there := findMember(p.members, x.ID)
		switch is := kinds[i].after; {
		case there && is != nil:
			p.members[n] = member{m.after, is}
		case there:
			p.members = slices.Delete(p.members, n, n+1)
		case is != nil:
			p.members = slices.Insert(p.members, n, member{m.after, is})
		}
	}
	for at := range own {
		s.members[at].sum = sums.page(s.members[at].members)
	}
	s.sum = s.summed(base)
}

func (p *memberPage) all() []member {
	if p == nil {
		return nil
	}
	return p.members
}

func findMember(page []member, id policy.NodeID) (int, bool) {
	return slices.BinarySearchFunc(page, id, func(m member, id policy.NodeID) int { return cmp.Compare(m.ID, id) })
}

// kindOf is the kind of a node, nil where no peer holds it.
func (s *listState) kindOf(id policy.NodeID) *datapath.Kind {
	page := s.members[pageOf(id, len(s.members))].all()
	if i, ok := findMember(page, id); ok {
		return page[i].kind
	}
	return nil
}

// summer sums members with the entries of their kinds.
type summer struct {
	table *datapath.Table
	of    map[string]contents // kinds, by name
	line  []byte
}

func (s *summer) kind(name string) contents {
	sum, known := s.of[name]
	if !known {
		id, _ := s.table.ID(name)
		entries := s.table.Sum(id)
		sum = sha256.Sum256(append(entries[:], name...))
		s.of[name] = sum
	}
	return sum
}

func (s *summer) page(members []member) contents {
	if len(members) == 0 {
		return contents{}
	}
	s.line = s.line[:0]
	for _, m := range members {
		kind := s.kind(m.kind.Name)
		s.line = append(s.line, kind[:]...)
		s.line = append(binary.AppendUvarint(s.line, uint64(len(m.ID))), m.ID...)
		s.line = binary.AppendUvarint(s.line, uint64(len(m.Addresses)))
		for _, a := range m.Addresses {
			b := a.As16()
			s.line = append(s.line, b[:]...)
		}
	}
	return sha256.Sum256(s.line)
}

// baseOf sums the entries for any peer and the blocks, which follow from the
// rules alone.
func baseOf(t *datapath.Table) contents {
	anyone := t.Sum(datapath.AnyIdentity)
	line := anyone[:]
	for i, id := range t.Identities() {
		if id.Block {
			entries := t.Sum(datapath.ID(i + 1))
			line = append(append(line, entries[:]...), id.Name...)
		}
	}
	return sha256.Sum256(line)
}

func (s *listState) summed(base contents) contents {
	h := sha256.New()
	h.Write(base[:])
	for _, p := range s.members {
		sum := contents{}
		if p != nil {
			sum = p.sum
		}
		h.Write(sum[:])
	}
	return contents(h.Sum(nil))
}

// tableKey names a table: its list, which Walk speaks of, and its contents.
func (s *listState) key(project uuid.UUID) tableKey {
	return sha256.Sum256(slices.Concat(project[:], s.list[:], s.sum[:]))
}

// bytes is about what it takes in memory, beside the roster.
func (s *listState) bytes() int {
	n := 8*len(s.members) + bytesPerRule*s.rules
	if s.table != nil {
		n += bytesPerEntry*s.table.Len() + bytesPerIdentity*s.table.Kinds()
	}
	for _, p := range s.members {
		n += 64 + bytesPerMember*len(p.all())
	}
	return n
}

// bytesPerMember is what a member takes, and bytesPerIdentity about what an
// identity does, in a table and in a census.
const (
	bytesPerMember   = 16
	bytesPerIdentity = 320
)

// population is the members by identity, each in the order of ids.
func (s *listState) population() datapath.Population {
	p := datapath.Population{Members: map[string][]policy.Node{}}
	for _, page := range s.members {
		for _, m := range page.all() {
			p.Members[m.kind.Name] = append(p.Members[m.kind.Name], m.Node)
		}
	}
	for _, id := range s.table.Identities() {
		if members := p.Members[id.Name]; len(members) > 0 {
			p.Identities = append(p.Identities, *id)
			slices.SortFunc(members, func(a, b policy.Node) int { return cmp.Compare(a.ID, b.ID) })
		}
	}
	return p
}
