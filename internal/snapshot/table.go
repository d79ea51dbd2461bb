package snapshot

import (
	"encoding/hex"
	"net/netip"
	"strconv"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/compiler/datapath"
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

	kinds *datapath.Kinds
}

// roster is the nodes of a project, by id, and who has which address.
type roster struct {
	nodes  []policy.Node
	seqs   []uint64           // of the events that gave their facts
	owners map[netip.Addr]int // index of the first node that has it
	index  map[policy.NodeID]int
}

// newRoster reads the nodes. proceed is asked now and then whether to go on.
func newRoster(e *projector.Enforcement, proceed func() error) (*roster, error) {
	r := emptyRoster()
	for n, err := range e.Nodes() {
		if err != nil {
			return nil, err
		}
		if r.add(n.Node, n.Seq); len(r.nodes)%1024 == 0 {
			if err := proceed(); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

func emptyRoster() *roster {
	return &roster{owners: map[netip.Addr]int{}, index: map[policy.NodeID]int{}}
}

func (r *roster) add(n policy.Node, seq uint64) {
	at := len(r.nodes)
	r.nodes, r.seqs = append(r.nodes, n), append(r.seqs, seq)
	r.index[n.ID] = at
	for _, a := range n.Addresses {
		if _, taken := r.owners[a]; !taken {
			r.owners[a] = at
		}
	}
}

// at is the roster without the nodes whose facts changed since seq.
func (r *roster) at(seq uint64) *roster {
	if seq == present {
		return r
	}
	then := emptyRoster()
	for i, n := range r.nodes {
		if r.seqs[i] <= seq {
			then.add(n, r.seqs[i])
		}
	}
	return then
}

func newTable(kinds *datapath.Kinds, population datapath.Population, rules []datapath.Rule, opt datapath.Options) (*Table, error) {
	t := &Table{kinds: kinds}
	var err error
	if t.Table, err = datapath.Build(rules, population.Identities, opt); err != nil {
		return nil, err
	}
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
	return t, nil
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

// Find reads a peer: a node of the project, or an address. An address that a
// node owns is that node. ok is false for what is neither.
func (a Answer) Find(text string) (p Peer, ok bool) {
	at := 0
	addr, err := netip.ParseAddr(text)
	if err == nil {
		addr = addr.Unmap().WithZone("")
		if at, ok = a.roster.owners[addr]; !ok {
			return Peer{ID: a.Resolve(addr)}, true
		}
	} else if at, ok = a.roster.index[policy.NodeID(text)]; !ok {
		return Peer{}, false
	}
	n := a.roster.nodes[at]
	p.Node = n.ID
	if a.then != nil {
		if _, known := a.then.index[n.ID]; !known { // what changed since is an address like any other
			if !addr.IsValid() && len(n.Addresses) > 0 {
				addr = n.Addresses[0]
			}
			p.ID = a.Resolve(addr)
			return p, true
		}
	}
	if id, known := a.kinds.Of(n); known {
		p.ID, _ = a.ID(id.Name)
	}
	return p, true
}
