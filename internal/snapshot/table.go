package snapshot

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/compiler/firstmatch"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Table is what nodes that enforce one list look up. It never changes.
type Table struct {
	*datapath.Table
	// Body is {"identities","entries"} without its braces (contracts, datapath);
	// shared: do not modify.
	Body        []byte
	Fingerprint compiler.Fingerprint // SHA-256 of "{" + Body + "}"
	ETag        string               // quoted, of the fingerprint
	// Unaddressed are the members without addresses, which are taken to lie in
	// every CIDR of the table; none when it has no CIDR.
	Unaddressed []policy.NodeID

	project uuid.UUID
	kinds   *datapath.Kinds
	list    listKey
	first   func() *firstmatch.List
}

// Document is what the fingerprint is of: the body between its braces.
func (t *Table) Document() []byte {
	doc := make([]byte, 0, len(t.Body)+2)
	return append(append(append(doc, '{'), t.Body...), '}')
}

// newTable writes the table that a list of a project comes to.
func newTable(project uuid.UUID, s *listState) *Table {
	t, population := &Table{Table: s.table, project: project, kinds: s.kinds, list: s.list}, s.population()
	t.first = sync.OnceValue(func() *firstmatch.List { return firstmatch.Of(s.table, membersOf(s.population())) })
	for _, id := range population.Identities {
		for _, n := range population.Members[id.Name] {
			if len(id.CIDRs) > 0 && len(n.Addresses) == 0 {
				t.Unaddressed = append(t.Unaddressed, n.ID)
			}
		}
	}
	doc := t.appendBody([]byte{'{'}, population)
	t.Body = doc[1:len(doc):len(doc)]
	t.Fingerprint = compiler.FingerprintOf(append(doc, '}'))
	t.ETag = `"` + hex.EncodeToString(t.Fingerprint[:]) + `"`
	return t
}

func (t *Table) appendBody(b []byte, population datapath.Population) []byte {
	b = append(b, `"identities":[`...)
	for i, id := range t.Identities() {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `{"id":`...), int64(i+1), 10)
		b = policy.AppendLabels(append(b, `,"labels":`...), id.Labels)
		b = append(b, `,"cidrs":[`...)
		if id.Block {
			b = append(append(append(b, '"'), id.Name...), '"')
		} else {
			for n, c := range id.CIDRs {
				if n > 0 {
					b = append(b, ',')
				}
				b = append(c.AppendTo(append(b, '"')), '"')
			}
		}
		b = append(b, `],"members":[`...)
		for n, m := range population.Members[id.Name] {
			if n > 0 {
				b = append(b, ',')
			}
			b = append(append(b, `{"node_id":"`...), m.ID...)
			b = append(policy.AppendAddresses(append(b, `","addresses":`...), m.Addresses), '}')
		}
		b = append(b, `]}`...)
	}
	b = append(b, `],"entries":[`...)
	for i, entry := range t.Entries() {
		if i > 0 {
			b = append(b, ',')
		}
		b = entry.AppendJSON(b)
	}
	return append(b, ']')
}

// Peer is whom a name or an address means in a table.
type Peer struct {
	ID   datapath.ID
	Node policy.NodeID // empty: an address that no node of the project owns
}

// has reports whether a node is one of the table's identities.
func (a Answer) has(x *projector.Placed) bool { return !a.changed(x.ID) && a.kinds.Know(x.Node) }

// changed reports whether the table is of a time before a node was as it is.
func (a Answer) changed(id policy.NodeID) bool { return a.then != nil && a.then.get(id) == nil }

// Find reads a peer: a node of the project, or an address. An address that a
// node owns is that node; where several have it, the first that the table has. ok is false for what is neither.
func (a Answer) Find(text string) (p Peer, ok bool) {
	var at *projector.Placed
	addr, err := netip.ParseAddr(text)
	if err == nil {
		addr = addr.Unmap().WithZone("")
		if at = a.roster.owner(addr, a.has); at == nil {
			return Peer{ID: a.Resolve(addr)}, true
		}
	} else if at = a.roster.get(policy.NodeID(text)); at == nil {
		return Peer{}, false
	}
	n := at.Node
	p.Node = n.ID
	if a.changed(n.ID) { // what changed since is an address like any other
		if !addr.IsValid() && len(n.Addresses) > 0 {
			addr = n.Addresses[0]
		}
		p.ID = a.Resolve(addr)
		return p, true
	}
	if id, known := a.kinds.Of(n); known {
		p.ID, _ = a.ID(id.Name)
	}
	return p, true
}
