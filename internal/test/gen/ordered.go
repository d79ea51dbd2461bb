package gen

// Tiers of ordered policies, and the priorities that they are drawn from: few,
// so that policies meet at one.
var (
	tiers      = []string{"", "admin", "normal", "baseline"}
	priorities = []int{0, 10, 1000, 16777215}
)

// Order is where a policy's rules stand among those of others. What is empty or
// nil is not set.
type Order struct {
	Tier        string `json:"tier,omitempty"`
	Priority    *int   `json:"priority,omitempty"`
	DefaultDeny *bool  `json:"default_deny,omitempty"`
	Mode        string `json:"mode,omitempty"`
}

// Order draws a place that is set.
func (g *Gen) Order() Order {
	o := Order{Tier: pick(g, tiers)}
	if o.Tier == "" || g.r.IntN(2) == 0 {
		n := pick(g, priorities)
		o.Priority = &n
	}
	if g.r.IntN(4) == 0 {
		open := false
		o.DefaultDeny = &open
	}
	if g.modes.IntN(6) == 0 {
		o.Mode = "audit"
	}
	return o
}

// OrderedRules draws n rules of an ordered policy: about half of them have
// something that plain rules have not.
func (g *Gen) OrderedRules(n int) []Rule {
	rules := g.Rules(n)
	for i := range rules {
		if g.r.IntN(2) == 0 {
			rules[i] = g.extended(rules[i])
		}
	}
	return rules
}

// extended gives a rule some of what ordered policies may say.
func (g *Gen) extended(r Rule) Rule {
	if g.r.IntN(2) == 0 {
		r.SourceCIDR, r.SourceSelector = "", g.positive()
	}
	if r.SourceSelector == "" || g.r.IntN(2) == 0 {
		r.DestinationCIDR, r.DestinationSelector = "", g.Clause()
	}
	switch g.r.IntN(4) {
	case 0:
		r.Protocol, r.Ports = "sctp", g.ports()
	case 1:
		r.Action = "pass"
	case 2:
		r.Action, r.ProxyPort = "redirect", 10000+g.r.IntN(100)
		r.Protocol, r.Ports = "tcp", g.ports()
		if g.r.IntN(2) == 0 {
			r.ListenerPriority = 1 + g.r.IntN(126)
		}
	}
	if (r.Action == "allow" || r.Action == "redirect") && g.r.IntN(2) == 0 {
		r.Auth = pick(g, []string{"required", "disabled"})
	}
	if n := g.directions.IntN(8); n < 2 {
		r.Direction = []string{"ingress", "egress"}[n]
	}
	return r
}

// rulesOf draws rules that fit where a policy stands.
func (g *Gen) rulesOf(p Policy, n int) []Rule {
	if p.Order == (Order{}) {
		return g.Rules(n)
	}
	return g.OrderedRules(n)
}
