package enforce

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// Table is what a node looks flows up in, as the plane serves it.
type Table struct {
	Node        policy.NodeID
	Version     uint64 // the log sequence at which it was right
	Fingerprint string // SHA-256 of identities and entries, in base64
	Identities  []Identity
	Entries     []datapath.Entry
}

// Identity is a kind of peer. It has the number of its place, from 1.
type Identity struct {
	Block     netip.Prefix // of addresses that no node owns; not valid for nodes
	Addresses []Owned      // of its members
}

// Owned is an address and the node that has it.
type Owned struct {
	Node    policy.NodeID
	Address netip.Addr
}

// document is the table's JSON. What is not enforced is not in it.
type document struct {
	NodeID      string          `json:"node_id"`
	Version     uint64          `json:"version"`
	Fingerprint string          `json:"fingerprint"`
	Identities  json.RawMessage `json:"identities"`
	Entries     json.RawMessage `json:"entries"`
}

type identityDocument struct {
	ID      uint32   `json:"id"`
	CIDRs   []string `json:"cidrs"`
	Members []struct {
		NodeID    policy.NodeID `json:"node_id"`
		Addresses []netip.Addr  `json:"addresses"`
	} `json:"members"`
}

type entryDocument struct {
	Direction  string `json:"direction"`
	Identity   uint32 `json:"identity"`
	Protocol   string `json:"protocol"`
	Port       uint16 `json:"port"`
	Prefix     uint8  `json:"prefix"`
	Verdict    string `json:"verdict"`
	Precedence uint32 `json:"precedence"`
	ProxyPort  uint16 `json:"proxy_port"`
	Auth       string `json:"auth"`
	Rule       *struct {
		Policy   string `json:"policy"`
		Revision string `json:"revision"`
		Index    int    `json:"index"`
	} `json:"rule"`
}

// Parse reads the document of GET /v1/nodes/{id}/datapath. It must be the node's,
// and its identities and entries those of its fingerprint: what was cut short or
// changed on the way is refused.
func Parse(node policy.NodeID, text []byte) (*Table, error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	if d.NodeID != string(node) {
		return nil, fmt.Errorf("the table is that of node %.80q, not of %s", d.NodeID, node)
	}
	if want := fingerprint(d.Identities, d.Entries); d.Fingerprint != want {
		return nil, fmt.Errorf("the table's fingerprint is %.60q, but its identities and entries have %s: it was changed", d.Fingerprint, want)
	}
	t := &Table{Node: node, Version: d.Version, Fingerprint: d.Fingerprint}
	if err := t.readIdentities(d.Identities); err != nil {
		return nil, err
	}
	return t, t.readEntries(d.Entries)
}

// Contents is the part of a table's document that its fingerprint is of:
// {"identities":…,"entries":…} as they stand.
func Contents(text []byte) ([]byte, error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("read the table: %w", err)
	}
	return contents(d.Identities, d.Entries), nil
}

func contents(identities, entries []byte) []byte {
	return slices.Concat([]byte(`{"identities":`), identities, []byte(`,"entries":`), entries, []byte{'}'})
}

func fingerprint(identities, entries []byte) string {
	sum := sha256.Sum256(contents(identities, entries))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (t *Table) readIdentities(text []byte) error {
	var all []identityDocument
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("read the table's identities: %w", err)
	}
	t.Identities = make([]Identity, len(all))
	for i, d := range all {
		if int(d.ID) != i+1 {
			return fmt.Errorf("identity %d of the table has number %d; numbers are 1, 2, 3 and so on", i+1, d.ID)
		}
		id := &t.Identities[i]
		for _, m := range d.Members {
			for _, a := range m.Addresses {
				id.Addresses = append(id.Addresses, Owned{m.NodeID, a.Unmap().WithZone("")})
			}
		}
		if len(d.Members) > 0 {
			continue
		}
		if len(d.CIDRs) != 1 {
			return fmt.Errorf("identity %d of the table has neither members nor one CIDR", d.ID)
		}
		block, err := netip.ParsePrefix(d.CIDRs[0])
		if err != nil || block != block.Masked() || block.Addr().Is4In6() {
			return fmt.Errorf("identity %d of the table: %.60q is not a masked CIDR", d.ID, d.CIDRs[0])
		}
		id.Block = block
	}
	return nil
}

func (t *Table) readEntries(text []byte) error {
	var all []entryDocument
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("read the table's entries: %w", err)
	}
	t.Entries = make([]datapath.Entry, len(all))
	for i, d := range all {
		e, err := d.entry()
		if err == nil && int(e.Identity) > len(t.Identities) {
			err = fmt.Errorf("there is no identity %d", e.Identity)
		}
		if err != nil {
			return fmt.Errorf("entry %d of the table: %w", i, err)
		}
		t.Entries[i] = e
	}
	return nil
}

func (d *entryDocument) entry() (e datapath.Entry, err error) {
	e.Identity, e.Port, e.Bits = datapath.ID(d.Identity), d.Port, d.Prefix
	e.Precedence, e.ProxyPort = d.Precedence, d.ProxyPort
	if e.Direction, err = datapath.ParseDirection(d.Direction); err != nil {
		return e, err
	}
	if e.Protocol, err = datapath.ParseProtocol(d.Protocol); err != nil {
		return e, err
	}
	if e.Verdict, err = datapath.ParseVerdict(d.Verdict); err != nil {
		return e, err
	}
	if e.Auth, err = datapath.ParseAuth(d.Auth); err != nil {
		return e, err
	}
	if d.Rule != nil {
		// Counters are named after it, so what is more than an id would be read by nft.
		if id, err := uuid.Parse(d.Rule.Policy); d.Rule.Policy != "" && (err != nil || id.String() != d.Rule.Policy) {
			return e, fmt.Errorf("%.60q is not the id of a policy", d.Rule.Policy)
		}
		e.Rule = datapath.Ref{Policy: d.Rule.Policy, Revision: d.Rule.Revision, Index: d.Rule.Index}
	}
	const portBits = 16
	ported := e.Protocol != datapath.AnyProtocol && e.Protocol != datapath.ICMP
	switch {
	case e.Verdict != datapath.Allow && e.Verdict != datapath.Deny && e.Verdict != datapath.Redirect:
		err = fmt.Errorf("%s is not the verdict of an entry", e.Verdict)
	case e.Bits > portBits, e.Bits > 0 && !ported, e.Port<<e.Bits != 0:
		err = fmt.Errorf("%d/%d is no prefix of a port of %s", e.Port, e.Bits, e.Protocol)
	case (e.Verdict == datapath.Redirect) != (e.ProxyPort != 0):
		err = fmt.Errorf("%s with proxy port %d", e.Verdict, e.ProxyPort)
	}
	return e, err
}
