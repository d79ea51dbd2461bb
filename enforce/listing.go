package enforce

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"sigs.k8s.io/knftables"
)

// Listing is what a kernel holds of the table, in words that compare.
type Listing struct {
	Chains   map[string]string // by name: its hook, and how many rules it has
	Maps     map[string]string // by name: the type of its keys
	Elements map[string]string // by map and interval: the verdict
	// Rules are those of each chain as the kernel writes them, which is not how they
	// were written: they compare with an earlier listing.
	Rules map[string]string
}

func newListing() *Listing {
	return &Listing{map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}}
}

// listing is what a kernel shows that holds the ruleset, but for its Rules.
func (r *Ruleset) listing() *Listing {
	l := newListing()
	for _, c := range r.chains {
		l.Chains[c.name] = chainWords(c.hook, len(c.rules))
	}
	for _, m := range r.maps {
		l.Maps[m.name] = m.typ
		for _, e := range m.elements {
			l.Elements[m.name+" "+e.key] = e.verdict
		}
	}
	return l
}

func (h *hook) priorityText() string { return strconv.Itoa(h.priority) }

func chainWords(h *hook, rules int) string {
	if h == nil {
		return fmt.Sprintf("%d rules", rules)
	}
	return fmt.Sprintf("%s %s %d %s, %d rules", h.kind, h.hook, h.priority, h.policy, rules)
}

// nftObject is an object of nft's JSON, as far as we look at it.
type nftObject struct {
	Chain *struct {
		Name   string                    `json:"name"`
		Type   knftables.BaseChainType   `json:"type"`
		Hook   knftables.BaseChainHook   `json:"hook"`
		Prio   int                       `json:"prio"`
		Policy knftables.BaseChainPolicy `json:"policy"`
	} `json:"chain"`
	Rule *struct {
		Chain string          `json:"chain"`
		Expr  json.RawMessage `json:"expr"`
	} `json:"rule"`
	Map *nftMap `json:"map"`
	Set *nftMap `json:"set"`
}

type nftMap struct {
	Name string            `json:"name"`
	Type json.RawMessage   `json:"type"`
	Elem []json.RawMessage `json:"elem"`
}

// parseListing reads what nft -j list table says.
func parseListing(text []byte) (*Listing, error) {
	var doc struct {
		Objects []nftObject `json:"nftables"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read what nft lists: %w", err)
	}
	l := newListing()
	rules := map[string]int{}
	for _, o := range doc.Objects {
		if o.Rule != nil {
			rules[o.Rule.Chain]++
			l.Rules[o.Rule.Chain] += string(o.Rule.Expr) + "\n"
		}
	}
	for _, o := range doc.Objects {
		switch {
		case o.Chain != nil:
			c := o.Chain
			var h *hook
			if c.Hook != "" {
				h = &hook{c.Type, c.Hook, c.Prio, c.Policy}
			}
			l.Chains[c.Name] = chainWords(h, rules[c.Name])
		case o.Map != nil:
			if err := l.takeMap(o.Map); err != nil {
				return nil, err
			}
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
	l.Maps[m.Name] = strings.Join(parts, " . ")
	for _, e := range m.Elem {
		var pair [2]json.RawMessage
		if err := json.Unmarshal(e, &pair); err != nil {
			return fmt.Errorf("read an element of map %s as nft lists it: %w", m.Name, err)
		}
		key, err := keyText(pair[0])
		if err != nil {
			return fmt.Errorf("read an element of map %s as nft lists it: %w", m.Name, err)
		}
		l.Elements[m.Name+" "+key] = verdictText(pair[1])
	}
	return nil
}

// keyText is a key as elements write it: nft shows an interval that is a prefix
// as one.
func keyText(text json.RawMessage) (string, error) {
	var word string
	if json.Unmarshal(text, &word) == nil {
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
		return joined(o.Concat, " . ")
	}
	return "", fmt.Errorf("%.100s is no key that was written", text)
}

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
