package datapath

import (
	"net/netip"
	"sort"
	"strings"
)

// DefaultCapacity is how many entries a table may hold by default: the
// common size of a policy map.
const DefaultCapacity = 16384

// Options are the settings of Build and NewState.
type Options struct {
	Capacity int // entries a table may hold; 0: DefaultCapacity
	Levels   int // levels that a direction may have; 0: all that a precedence tells apart
	Steps    int // of work that a table may take; 0: see Budget
	// Closed has both directions deny what no rule decides, as a node of plain
	// policies alone does (docs/datapath.md).
	Closed bool
	// Work is what Build and State spend; nil: as much as it takes.
	Work *Work
}

// Budget is how many steps of work a table may take. It is never below that of
// the default capacity: few entries may take many rules.
func (o Options) Budget() int {
	if o.Steps == 0 {
		return StepsPerEntry * max(o.capacity(), DefaultCapacity)
	}
	return o.Steps
}

func (o Options) levels() int {
	if o.Levels == 0 {
		return levels
	}
	return min(o.Levels, levels)
}

func (o Options) capacity() int {
	if o.Capacity == 0 {
		return DefaultCapacity
	}
	return o.Capacity
}

// Key is what an entry answers for: flows of one direction with a peer of one
// identity, of a protocol, to (egress) or at (ingress) a port that begins with
// the first Bits bits of Port. AnyProtocol has Bits 0.
type Key struct {
	Direction Direction
	Identity  ID
	Protocol  Protocol
	Port      uint16
	Bits      uint8 // 0..16; 0: every port
}

// Value is what an entry answers.
type Value struct {
	Verdict Verdict // Allow, Deny or Redirect
	// Precedence of the entry: the inverted level << 8 | class of the rule, or of
	// the pass that led to it. Lookup compares it between a peer's identity and any.
	Precedence uint32
	ProxyPort  uint16 // of a redirect
	Auth       Auth   // AuthRequired or AuthUnset: what the rules come to
	Rule       Ref    // who decided; the zero Ref: the direction's default
}

// Default reports whether no rule decided, but the direction's default.
func (v Value) Default() bool { return v.Rule == Ref{} }

// Entry is a line of a table.
type Entry struct {
	Key
	Value
}

// Table answers for one node. It never changes and may be read from many
// goroutines.
type Table struct {
	*program
	ids   []*known // by name; number i+1
	size  int      // entries
	takes int      // steps
	made  int      // entries, those that identities share once
}

// Build makes the table of a node's rules and the identities its peers can have.
// The order of either does not matter. The error joins a *Fault for each thing
// wrong with the input, or is a *LevelsError, a *CapacityError, a *WorkError or
// what stopped the work.
func Build(rules []Rule, identities []Identity, o Options) (*Table, error) {
	s := NewState(o)
	if err := s.Advance(Batch{AddRules: rules, AddIdentities: identities}); err != nil {
		return nil, err
	}
	return s.Table(), nil
}

// Lookup is the table's answer for a flow, by at most two longest-prefix
// look-ups: among the entries of the peer's identity and among those of any. The
// higher precedence wins, then the longer prefix, then the identity's own.
// Without an entry it is false, and the flow is denied. The port of a protocol
// without ports does not matter. An identity that the table does not know is
// answered as AnyIdentity.
func (t *Table) Lookup(d Direction, id ID, p Protocol, port uint16) (Entry, bool) {
	if d != Egress && d != Ingress {
		return Entry{}, false
	}
	n := d - Egress
	anyone := t.anyone[n]
	var own lpm
	i := int32(-1)
	if id != AnyIdentity && int(id) <= len(t.ids) {
		own = t.ids[id-1].entries[n]
		i = own.at(p, port)
	}
	c := choose(own, i, anyone, anyone.at(p, port))
	if c == nil {
		return Entry{}, false
	}
	if i < 0 || c != &own[i] {
		id = AnyIdentity
	}
	return t.lists[n].entry(id, c), true
}

// entry is a cell for readers.
func (l *list) entry(id ID, c *cell) Entry {
	return Entry{
		Key{l.direction, id, c.key.protocol(), c.key.port(), c.key.bits()},
		l.value(c.answer),
	}
}

// value is an answer for readers.
func (l *list) value(a answer) Value {
	v := l.otherwise
	if a.line != none {
		r := l.lines[a.line].rule
		v = Value{Verdict: r.Verdict, ProxyPort: r.ProxyPort, Rule: r.Ref}
	}
	v.Precedence = a.prec
	if a.auth {
		v.Auth = AuthRequired
	}
	return v
}

// Len is the number of entries.
func (t *Table) Len() int { return t.size }

// Entries are all entries by direction, identity, protocol, port and bits.
func (t *Table) Entries() []Entry {
	all := make([]Entry, 0, t.size)
	for n, l := range t.lists {
		for i := range t.anyone[n] {
			all = append(all, l.entry(AnyIdentity, &t.anyone[n][i]))
		}
		for k, own := range t.ids {
			for i := range own.entries[n] {
				all = append(all, l.entry(ID(k+1), &own.entries[n][i]))
			}
		}
	}
	return all
}

// Kinds is the number of identities.
func (t *Table) Kinds() int { return len(t.ids) }

// Identities are the table's identities by number: the first is 1. They are
// shared: do not modify.
func (t *Table) Identities() []*Identity {
	ids := make([]*Identity, len(t.ids))
	for i, k := range t.ids {
		ids[i] = k.Identity
	}
	return ids
}

// Identity is the identity of a number, nil for AnyIdentity and for numbers that
// the table does not have.
func (t *Table) Identity(id ID) *Identity {
	if id == AnyIdentity || int(id) > len(t.ids) {
		return nil
	}
	return t.ids[id-1].Identity
}

// ID is the number of an identity; AnyIdentity and false for a name that the
// table does not have.
func (t *Table) ID(name string) (ID, bool) {
	i, ok := t.find(name)
	if !ok {
		return AnyIdentity, false
	}
	return ID(i + 1), true
}

func (t *Table) find(name string) (int, bool) {
	return sort.Find(len(t.ids), func(i int) int { return strings.Compare(name, t.ids[i].Name) })
}

// Resolve is the number of the longest block that holds an address which no node
// of the project owns; AnyIdentity when no rule names one that does.
func (t *Table) Resolve(a netip.Addr) ID {
	a = a.Unmap().WithZone("")
	for _, bits := range t.lengths(a) {
		p, err := a.Prefix(bits)
		if _, known := t.blocks[p]; err != nil || !known {
			continue
		}
		if id, ok := t.ID(p.String()); ok {
			return id
		}
	}
	return AnyIdentity
}
