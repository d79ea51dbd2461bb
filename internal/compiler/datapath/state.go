package datapath

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
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
	// Work is what the batch spends; nil: what the state spends.
	Work *Work
}

// RuleName names all rules of one Ref and direction.
type RuleName struct {
	Ref       Ref
	Direction Direction
}

// State keeps a node's table current. The table after some batches is, byte for
// byte, the one that Build makes of the rules and identities that are there then,
// and so are the steps that it takes.
type State struct {
	opt      Options
	capacity int
	budget   int // of the steps that a table takes
	table    atomic.Pointer[Table]

	mu      sync.Mutex // held by Apply
	work    *Work
	classes map[class]*part // of the table's identities
	sweeps  [directions]resolver
	holding []int32
	key     []byte
}

// class is the digest of the peers that an identity is one of.
type class [sha256.Size]byte

// patience is how often over the capacity what a batch computes may grow before
// it is given up: a few rules of ranges and many identities make more entries
// than there is memory.
const patience = 4

// NewState is a state without rules and identities: everything is allowed, or
// denied where the options say that the table is closed.
func NewState(o Options) *State {
	s := &State{opt: o, capacity: o.capacity(), budget: math.MaxInt, work: o.Work, classes: map[class]*part{}}
	if o.Work != nil {
		s.budget = o.Budget()
	}
	p, err := compile(nil, Options{Closed: o.Closed}, nil)
	if err != nil {
		panic(err) // no rules have no faults
	}
	t := &Table{program: p}
	t.size, _ = t.count()
	s.table.Store(t)
	return s
}

// Table is the present table. One that was taken stays as it was.
func (s *State) Table() *Table { return s.table.Load() }

// Steps are those that Build takes for the present table.
func (s *State) Steps() int { return s.Table().takes }

// Apply makes all changes of a batch visible at once and says what they did to
// the table, or returns an error as Build does and changes nothing. An identity
// is computed from all rules. Where rules change, every identity is.
func (s *State) Apply(b Batch) (ChangeSet, error) {
	old, next, err := s.advance(&b)
	if err != nil {
		return ChangeSet{}, err
	}
	return difference(old, next), nil
}

// Advance is Apply for who does not ask what became of entries, which takes a
// look at each identity.
func (s *State) Advance(b Batch) error {
	_, _, err := s.advance(&b)
	return err
}

// advance makes the table after a batch the present one, or returns an error and
// leaves all as it was.
func (s *State) advance(b *Batch) (old, next *Table, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old = s.table.Load()
	g, err := s.stage(old, b)
	if err != nil {
		return nil, nil, err
	}
	if g.next.size, _ = g.next.count(); g.next.size > s.capacity {
		return nil, nil, g.tooMany(false)
	}
	g.commit()
	s.table.Store(g.next)
	return old, g.next, nil
}

// stage computes the table after a batch, which is not yet visible.
func (s *State) stage(old *Table, b *Batch) (*stage, error) {
	rules, err1 := b.rules(old.rules)
	gone, err2 := b.gone(old)
	come, err3 := b.come(old, gone)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	w := s.work
	if b.Work != nil {
		w = b.Work
	}
	if w == nil {
		w = NewWork(math.MaxInt, nil)
	}
	g := &stage{State: s, work: w, refs: map[*part]int{}}
	if len(b.RemoveRules)+len(b.AddRules) == 0 {
		return g, g.merge(old, gone, come)
	}
	p, err := compile(rules, s.opt, w)
	if err != nil {
		return nil, err
	}
	return g, g.rebuild(old, p, gone, come)
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
		if err := b.AddRules[i].check(); err != nil {
			faults = append(faults, err)
		}
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
