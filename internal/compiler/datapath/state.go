package datapath

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Batch is a set of changes that take effect together. What is removed goes
// before what is added comes, so a batch can replace an identity or a rule.
type Batch struct {
	RemoveIdentities []string // names
	AddIdentities    []Identity
	RemoveRules      []RuleName
	AddRules         []Rule
}

// RuleName names all rules of one Ref and direction.
type RuleName struct {
	Ref       Ref
	Direction Direction
}

// State keeps a node's table current. The table after some batches is, byte for
// byte, the one that Build makes of the rules and identities that are there then.
// The plane makes every table by Build. Batches and their ChangeSet are for a
// data plane that keeps a table beside it, as ordered policy is specified (001),
// and how a table made in steps is held against one made at once.
type State struct {
	capacity int
	levels   int
	table    atomic.Pointer[Table]

	mu      sync.Mutex // held by Apply
	work    *Work
	classes map[class]part
	sweeps  [directions]resolver
	holding []int32
	key     []byte
	made    int // entries computed for the batch at hand
}

// class is the digest of the peers that an identity is one of.
type class [sha256.Size]byte

// patience is how often over the capacity what a batch computes may grow before
// it is given up: a few rules of ranges and many identities make more entries
// than there is memory.
const patience = 4

// NewState is a state without rules and identities: everything is allowed.
func NewState(o Options) *State {
	s := &State{capacity: o.capacity(), levels: o.levels(), work: o.Work}
	p, err := compile(nil, levels, nil)
	if err != nil {
		panic(err) // no rules have no faults
	}
	s.restart(p)
	t := &Table{program: p}
	t.size, _ = t.count()
	s.table.Store(t)
	return s
}

// Table is the present table. One that was taken stays as it was.
func (s *State) Table() *Table { return s.table.Load() }

// Apply makes all changes of a batch visible at once and says what they did to
// the table, or returns an error as Build does and changes nothing. An identity
// is computed from all rules. Where rules change, every identity is.
func (s *State) Apply(b Batch) (ChangeSet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.table.Load()
	if err := s.advance(&b); err != nil {
		return ChangeSet{}, err
	}
	return difference(old, s.table.Load()), nil
}

// advance makes the table after a batch the present one, or returns an error and
// leaves all as it was.
func (s *State) advance(b *Batch) error {
	old := s.table.Load()
	next, err := s.next(old, b)
	if err == nil {
		err = s.admit(next)
	}
	if err != nil {
		s.settle(old)
		return err
	}
	s.settle(next)
	s.table.Store(next)
	return nil
}

// next is the table after a batch, which is not yet visible.
func (s *State) next(old *Table, b *Batch) (*Table, error) {
	s.made = 0
	rules, err1 := b.rules(old.rules)
	gone, err2 := b.gone(old)
	come, err3 := b.come(old, gone)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if len(b.RemoveRules)+len(b.AddRules) == 0 {
		return s.merged(old, gone, come)
	}
	p, err := compile(rules, s.levels, s.work)
	if err != nil {
		return nil, err
	}
	s.restart(p)
	return s.rebuilt(old, p, gone, come)
}

// restart forgets what was computed from other rules.
func (s *State) restart(p *program) {
	s.classes = map[class]part{}
	for n := range s.sweeps {
		s.sweeps[n].list, s.sweeps[n].work = p.lists[n], s.work
	}
}

// rebuilt is the table of new rules.
func (s *State) rebuilt(old *Table, p *program, gone map[string]bool, come []*Identity) (*Table, error) {
	t := &Table{program: p, ids: come}
	for _, id := range old.ids {
		if !id.Block && !gone[id.Name] {
			t.ids = append(t.ids, id)
		}
	}
	t.ids = append(t.ids, p.identities()...)
	slices.SortFunc(t.ids, byName)
	t.parts = make([]part, len(t.ids))
	if s.made = len(p.anyone[0]) + len(p.anyone[1]); s.made > patience*s.capacity {
		return nil, s.tooMany(t, true)
	}
	for i, id := range t.ids {
		var err error
		if t.parts[i], err = s.part(p, id); err != nil {
			return nil, err
		}
		if s.made > patience*s.capacity {
			return nil, s.tooMany(t, true)
		}
	}
	return t, nil
}

// merged is old with some identities less and some, by name, more.
func (s *State) merged(old *Table, gone map[string]bool, come []*Identity) (*Table, error) {
	n := len(old.ids) - len(gone) + len(come)
	t := &Table{program: old.program, ids: make([]*Identity, 0, n), parts: make([]part, 0, n)}
	take := func(id *Identity, p part) {
		t.ids, t.parts = append(t.ids, id), append(t.parts, p)
	}
	from := 0
	for _, id := range come {
		at, _ := old.find(id.Name)
		from = old.copyTo(t, from, at, gone)
		made, err := s.part(old.program, id)
		if err != nil {
			return nil, err
		}
		take(id, made)
		if s.made > patience*s.capacity {
			return nil, s.tooMany(t, true)
		}
	}
	old.copyTo(t, from, len(old.ids), gone)
	return t, nil
}

// copyTo appends the identities from..to, but those that are gone.
func (t *Table) copyTo(into *Table, from, to int, gone map[string]bool) int {
	if len(gone) == 0 {
		into.ids = append(into.ids, t.ids[from:to]...)
		into.parts = append(into.parts, t.parts[from:to]...)
		return to
	}
	for i := from; i < to; i++ {
		if !gone[t.ids[i].Name] {
			into.ids, into.parts = append(into.ids, t.ids[i]), append(into.parts, t.parts[i])
		}
	}
	return to
}

// part computes the entries of an identity from all rules, or finds those of
// another that the same peers hold.
func (s *State) part(p *program, id *Identity) (made part, err error) {
	if s.holding, err = p.holding(id, s.holding[:0], s.work); err != nil {
		return made, err
	}
	if len(s.holding) == 0 {
		return made, nil
	}
	s.key = s.key[:0]
	for _, i := range s.holding {
		s.key = binary.BigEndian.AppendUint32(s.key, uint32(i))
	}
	at := class(sha256.Sum256(s.key))
	if known, ok := s.classes[at]; ok {
		return known, nil
	}
	for n := range s.sweeps {
		entries, err := s.sweeps[n].of(s.holding, p.anyone[n])
		if err != nil {
			return made, err
		}
		made[n] = slices.Clone(entries)
		s.made += len(entries)
	}
	s.classes[at] = made
	return made, nil
}

// admit refuses a table that is too large.
func (s *State) admit(t *Table) error {
	if t.size, _ = t.count(); t.size > s.capacity {
		return s.tooMany(t, false)
	}
	return nil
}

func (s *State) tooMany(t *Table, more bool) error {
	all, per := t.count()
	return &CapacityError{Entries: all, Capacity: s.capacity, Egress: per[0], Ingress: per[1], More: more}
}

func (t *Table) count() (all int, per [directions]int) {
	for n := range per {
		per[n] = len(t.anyone[n])
		for i := range t.parts {
			per[n] += len(t.parts[i][n])
		}
		all += per[n]
	}
	return all, per
}

// settle leaves the state as it has to be for the table that stays.
func (s *State) settle(t *Table) {
	if s.sweeps[0].list != t.lists[0] {
		s.restart(t.program) // another's rules were tried and refused
	}
	if spare := 1024; len(s.classes) > 2*len(t.ids)+spare {
		s.classes = map[class]part{} // most are of identities that went
	}
}

// rules is what a batch makes of the rules.
func (b *Batch) rules(old []Rule) ([]Rule, error) {
	if len(b.RemoveRules)+len(b.AddRules) == 0 {
		return old, nil
	}
	var faults []error
	gone := make(map[RuleName]bool, len(b.RemoveRules))
	for _, n := range b.RemoveRules {
		gone[n] = false
	}
	kept := make([]Rule, 0, len(old)+len(b.AddRules))
	for _, r := range old {
		if n := (RuleName{r.Ref, r.Direction}); len(gone) > 0 {
			if _, named := gone[n]; named {
				gone[n] = true
				continue
			}
		}
		kept = append(kept, r)
	}
	for _, n := range b.RemoveRules {
		if !gone[n] {
			faults = append(faults, &Fault{Rule: n.Ref, Direction: n.Direction, Field: "remove", Detail: "no such rule is there"})
		}
	}
	for i := range b.AddRules {
		faults = append(faults, b.AddRules[i].check())
	}
	return append(kept, b.AddRules...), errors.Join(faults...)
}

// gone is which identities a batch removes.
func (b *Batch) gone(old *Table) (map[string]bool, error) {
	if len(b.RemoveIdentities) == 0 {
		return nil, nil
	}
	var faults []error
	gone := make(map[string]bool, len(b.RemoveIdentities))
	for _, name := range b.RemoveIdentities {
		if i, ok := old.find(name); !ok || old.ids[i].Block || gone[name] {
			faults = append(faults, &Fault{Identity: name, Field: "remove", Detail: "no such identity is there; blocks go with their rules"})
		}
		gone[name] = true
	}
	return gone, errors.Join(faults...)
}

// come is the identities a batch adds, by name.
func (b *Batch) come(old *Table, gone map[string]bool) ([]*Identity, error) {
	var faults []error
	come := make([]*Identity, 0, len(b.AddIdentities))
	for _, id := range b.AddIdentities {
		come = append(come, &id)
	}
	slices.SortStableFunc(come, byName)
	for i, id := range come {
		fault := func(field, detail string) {
			faults = append(faults, &Fault{Identity: id.Name, Field: field, Detail: detail})
		}
		if id.Name == "" {
			fault("name", "is empty")
		}
		if strings.Contains(id.Name, "/") && isBlock(id.Name) {
			fault("name", "is a CIDR: blocks are named so, and follow from the rules")
		}
		if id.Block {
			fault("block", "blocks follow from the rules; do not add them")
		}
		if i > 0 && come[i-1].Name == id.Name {
			fault("name", "is added twice")
		}
		if j, ok := old.find(id.Name); ok && !gone[id.Name] {
			detail := "is there already"
			if !old.ids[j].Block {
				detail = fmt.Sprintf("%s; remove it in the same batch to replace it", detail)
			}
			fault("name", detail)
		}
	}
	return come, errors.Join(faults...)
}
