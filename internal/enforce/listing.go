//go:build linux

package enforce

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"sigs.k8s.io/knftables"
)

// Listing is what a kernel holds of the table, in words that compare.
type Listing struct {
	Flagged  bool              // the table has flags, as one that is dormant: all of it is there, and none in force
	Chains   map[string]string // by name: its hook, and how many rules it has
	Maps     map[string]string // by name: the type of its keys
	Elements map[string]string // by map and interval: the verdict
	// Rules are those of each chain as the kernel writes them, which is not how they
	// were written: they compare with an earlier listing.
	Rules map[string]string
	// Counters are how many packets each has counted.
	Counters map[string]uint64
}

// NewListing is that of a table with nothing in it.
func NewListing() *Listing {
	return &Listing{Chains: map[string]string{}, Maps: map[string]string{}, Elements: map[string]string{}, Rules: map[string]string{}, Counters: map[string]uint64{}}
}

// AddChain adds a chain and its rules.
func (l *Listing) AddChain(c *knftables.Chain, rules []string) {
	words := fmt.Sprintf("%d rules", len(rules))
	if c.Hook != nil {
		policy := knftables.AcceptPolicy
		if c.Policy != nil {
			policy = *c.Policy
		}
		words += fmt.Sprintf(" of %s %s at %s, %s", *c.Type, *c.Hook, *c.Priority, policy)
	}
	l.Chains[c.Name] = words
	l.Rules[c.Name] = strings.Join(rules, "\n")
}

// AddMap adds a verdict map.
func (l *Listing) AddMap(m *knftables.Map) {
	l.Maps[m.Name] = strings.TrimSuffix(m.Type, verdictType)
}

// AddElement adds an element of a map.
func (l *Listing) AddElement(e *knftables.Element) {
	l.Elements[e.Map+" "+strings.Join(e.Key, concatenation)] = strings.Join(e.Value, concatenation)
}

const (
	concatenation = " . "
	verdictType   = " : verdict"
)

// listing is what a kernel shows that holds the ruleset, but for its Rules.
func (r *Ruleset) listing() *Listing {
	l := NewListing()
	for _, c := range r.chains {
		l.AddChain(c.object(), c.rules)
	}
	for _, m := range r.maps {
		l.AddMap(m.object())
		for _, e := range m.elements {
			l.AddElement(m.elementObject(e))
		}
	}
	return l
}

// nftObject is an object of nft's JSON, as far as we look at it.
type nftObject struct {
	Table *struct {
		// Which ones older versions of nft do not say, but write whatever is in their
		// memory.
		Flags json.RawMessage `json:"flags"`
	} `json:"table"`
	Chain *nftChain `json:"chain"`
	Rule  *struct {
		Chain string          `json:"chain"`
		Expr  json.RawMessage `json:"expr"`
	} `json:"rule"`
	Map     *nftMap `json:"map"`
	Set     *nftMap `json:"set"`
	Counter *struct {
		Name    string `json:"name"`
		Packets uint64 `json:"packets"`
	} `json:"counter"`
}

type nftChain struct {
	Name   string                    `json:"name"`
	Type   knftables.BaseChainType   `json:"type"`
	Hook   knftables.BaseChainHook   `json:"hook"`
	Prio   int                       `json:"prio"`
	Policy knftables.BaseChainPolicy `json:"policy"`
}

func (c *nftChain) object() *knftables.Chain {
	out := &knftables.Chain{Name: c.Name}
	if c.Hook != "" {
		priority := knftables.BaseChainPriority(strconv.Itoa(c.Prio))
		out.Type, out.Hook, out.Priority, out.Policy = &c.Type, &c.Hook, &priority, &c.Policy
	}
	return out
}

type nftMap struct {
	Name string            `json:"name"`
	Type json.RawMessage   `json:"type"`
	Elem []json.RawMessage `json:"elem"`
}

// parseListing reads what nft -j list table says. The error is a *MismatchError: nft
// writes no JSON of a table that somebody else flagged, and of elements that somebody
// else made it writes more than of ours, such as a comment.
func parseListing(text []byte) (*Listing, error) {
	var doc struct {
		Objects []nftObject `json:"nftables"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, &MismatchError{[]string{"nft lists it in no JSON: " + err.Error()}}
	}
	l := NewListing()
	rules := map[string][]string{}
	for _, o := range doc.Objects {
		if o.Rule != nil {
			rules[o.Rule.Chain] = append(rules[o.Rule.Chain], string(o.Rule.Expr))
		}
	}
	for _, o := range doc.Objects {
		switch {
		case o.Table != nil:
			l.Flagged = len(o.Table.Flags) > 0
		case o.Chain != nil:
			l.AddChain(o.Chain.object(), rules[o.Chain.Name])
		case o.Map != nil:
			if err := l.takeMap(o.Map); err != nil {
				return nil, &MismatchError{[]string{err.Error()}}
			}
		case o.Counter != nil:
			l.Counters[o.Counter.Name] = o.Counter.Packets
		case o.Set != nil:
			l.Maps[o.Set.Name] = "a set"
		}
	}
	return l, nil
}

func (l *Listing) takeMap(m *nftMap) error {
	var parts []string
	if json.Unmarshal(m.Type, &parts) != nil {
		var one string
		if err := json.Unmarshal(m.Type, &one); err != nil {
			return fmt.Errorf("read map %s as nft lists it: %w", m.Name, err)
		}
		parts = []string{one}
	}
	l.AddMap(&knftables.Map{Name: m.Name, Type: strings.Join(parts, concatenation)})
	for _, e := range m.Elem {
		var pair [2]json.RawMessage
		if err := json.Unmarshal(e, &pair); err != nil {
			return fmt.Errorf("read an element of map %s as nft lists it: %w", m.Name, err)
		}
		key, err := keyText(pair[0])
		if err != nil {
			return fmt.Errorf("read an element of map %s as nft lists it: %w", m.Name, err)
		}
		l.AddElement(&knftables.Element{Map: m.Name, Key: []string{key}, Value: []string{verdictText(pair[1])}})
	}
	return nil
}

// keyText is a key as elements write it: nft shows an interval that is a prefix
// as one, and the end of some IPv6 addresses as IPv4 is written.
func keyText(text json.RawMessage) (string, error) {
	var word string
	if json.Unmarshal(text, &word) == nil {
		if a, err := netip.ParseAddr(word); err == nil {
			return a.String(), nil
		}
		return word, nil
	}
	var number int
	if json.Unmarshal(text, &number) == nil {
		return strconv.Itoa(number), nil
	}
	var o struct {
		Concat []json.RawMessage `json:"concat"`
		Range  []json.RawMessage `json:"range"`
		Prefix *struct {
			Addr json.RawMessage `json:"addr"`
			Len  int             `json:"len"`
		} `json:"prefix"`
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return "", err
	}
	switch {
	case o.Prefix != nil:
		addr, err := keyText(o.Prefix.Addr)
		if err != nil {
			return "", err
		}
		return prefixText(addr, o.Prefix.Len)
	case len(o.Range) == 2:
		return joined(o.Range, "-")
	case len(o.Concat) > 0:
		text, err := joined(o.Concat, concatenation)
		protocol, rest, _ := strings.Cut(text, concatenation)
		return cmp.Or(protocolNames[protocol], protocol) + concatenation + rest, err
	}
	return "", fmt.Errorf("%.100s is no key that was written", text)
}

// protocolNames are the names of protocols by number, which nft writes on a machine without
// /etc/protocols.
var protocolNames = map[string]string{"6": "tcp", "17": "udp", "132": "sctp"}

func joined(parts []json.RawMessage, by string) (string, error) {
	out := make([]string, len(parts))
	for i, p := range parts {
		var err error
		if out[i], err = keyText(p); err != nil {
			return "", err
		}
	}
	return strings.Join(out, by), nil
}

// prefixText is the interval of a prefix: of an address, or of a port.
func prefixText(first string, bits int) (string, error) {
	if n, err := strconv.ParseUint(first, 10, 16); err == nil {
		return interval(port(n), port(n)+1<<(16-min(bits, 16))-1, portText), nil
	}
	a, err := netip.ParseAddr(first)
	if err != nil {
		return "", err
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return "", err
	}
	return interval(p.Addr(), lastOf(p), netip.Addr.String), nil
}

// verdictText is a verdict as elements write it.
func verdictText(text json.RawMessage) string {
	var o map[string]*struct {
		Target string `json:"target"`
	}
	if json.Unmarshal(text, &o) != nil {
		return string(text)
	}
	for name, to := range o {
		if to != nil {
			return name + " " + to.Target
		}
		return name
	}
	return ""
}
