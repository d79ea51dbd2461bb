package gen

import "net/netip"

// Rules draws n rules; some are equal to an earlier one, some differ from an
// earlier one in the action alone.
func (g *Gen) Rules(n int) []Rule {
	rules := make([]Rule, 0, n)
	for len(rules) < n {
		r := g.Rule()
		if len(rules) > 0 {
			switch g.r.IntN(12) {
			case 0:
				r = pick(g, rules)
			case 1:
				r = pick(g, rules)
				r.Action = pick(g, actions)
			}
		}
		rules = append(rules, r)
	}
	return rules
}

var (
	actions   = []string{"allow", "deny", "log"}
	protocols = []string{"tcp", "udp", "icmp", "any"}
	services  = []int{22, 53, 80, 123, 443, 5432, 6379, 8080, 9100, 65535}
)

// Rule draws one valid rule.
func (g *Gen) Rule() Rule {
	prefix := g.prefix4
	if g.r.IntN(3) == 0 {
		prefix = g.prefix6
	}
	r := Rule{
		Action:          pick(g, actions),
		Protocol:        pick(g, protocols),
		SourceCIDR:      prefix(),
		DestinationCIDR: prefix(),
	}
	if r.Protocol == "tcp" || r.Protocol == "udp" {
		r.Ports = g.ports()
	}
	return r
}

func (g *Gen) ports() *Ports {
	from := pick(g, services)
	switch g.r.IntN(4) {
	case 0:
		return &Ports{1, 65535}
	case 1:
		return &Ports{from, min(65535, from+g.r.IntN(1000))}
	default:
		return &Ports{from, from}
	}
}

// prefix4 favours few networks, so that rules overlap and sort close together;
// numeric and text order differ among them (9. and 10., 2. and 10.).
func (g *Gen) prefix4() string {
	if g.r.IntN(10) == 0 {
		return "0.0.0.0/0"
	}
	first := pick(g, []byte{2, 9, 10, 100, 172, 192})
	a := netip.AddrFrom4([4]byte{first, byte(g.r.IntN(20)), byte(g.r.IntN(4) * 64), byte(g.r.IntN(256))})
	return netip.PrefixFrom(a, pick(g, []int{8, 12, 16, 20, 24, 30, 32})).Masked().String()
}

func (g *Gen) prefix6() string {
	if g.r.IntN(10) == 0 {
		return "::/0"
	}
	var b [16]byte
	b[0], b[1], b[2], b[3] = 0x20, 0x01, 0x0d, 0xb8
	if g.r.IntN(3) == 0 {
		b[0], b[1], b[2], b[3] = 0xfd, byte(g.r.IntN(4)), 0, 0
	}
	b[5], b[7], b[15] = byte(g.r.IntN(4)), byte(g.r.IntN(256)), byte(g.r.IntN(4))
	return netip.PrefixFrom(netip.AddrFrom16(b), pick(g, []int{32, 48, 56, 64, 127, 128})).Masked().String()
}
