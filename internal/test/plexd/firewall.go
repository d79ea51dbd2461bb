package plexd

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// ErrInvalidRuleset is a set of rules of which one cannot be translated. None
// of them is applied.
var ErrInvalidRuleset = errors.New("invalid ruleset")

// Rule is a rule of a state's policy.
type Rule struct {
	Action          string `json:"action"`
	Protocol        string `json:"protocol"`
	SourceCIDR      string `json:"source_cidr"`
	DestinationCIDR string `json:"destination_cidr"`
	Ports           *struct {
		From int `json:"from"`
		To   int `json:"to"`
	} `json:"ports"`
}

// FirewallRule is one rule of the firewall. The first that matches decides.
type FirewallRule struct {
	Action              string // allow or deny
	Protocol            string // empty: any
	Source, Destination netip.Prefix
	Port, PortTo        uint16 // zero: any; PortTo is zero for a single port
}

// String gives the rule in words.
func (r FirewallRule) String() string {
	protocol, ports := r.Protocol, ""
	if protocol == "" {
		protocol = "any"
	}
	if r.Port > 0 {
		ports = fmt.Sprintf(" %d", r.Port)
	}
	if r.PortTo > 0 {
		ports += fmt.Sprintf("-%d", r.PortTo)
	}
	return fmt.Sprintf("%s %s %s %s%s", r.Action, protocol, r.Source, r.Destination, ports)
}

var (
	everywhere = netip.MustParsePrefix("0.0.0.0/0")
	denyAll    = FirewallRule{Action: "deny", Source: everywhere, Destination: everywhere}
)

// buildFirewallRules translates a policy, which may be nil, in its order. What
// nobody allowed is denied at the end.
func buildFirewallRules(b *block) ([]FirewallRule, error) {
	if b == nil {
		return []FirewallRule{denyAll}, nil
	}
	rules := make([]FirewallRule, 0, len(b.Rules)+1)
	for i, r := range b.Rules {
		if r.Action == "log" {
			continue // a firewall does not log
		}
		f, err := translate(r)
		if err != nil {
			return nil, fmt.Errorf("%w: rule %d: %w", ErrInvalidRuleset, i, err)
		}
		rules = append(rules, f)
	}
	return append(rules, denyAll), nil
}

func translate(r Rule) (f FirewallRule, err error) {
	if !slices.Contains([]string{"allow", "deny"}, r.Action) {
		return f, fmt.Errorf("unknown action %q", r.Action)
	}
	f.Action, f.Protocol = r.Action, r.Protocol
	switch r.Protocol {
	case "tcp", "udp":
	case "icmp", "any":
		if r.Ports != nil {
			return f, fmt.Errorf("ports of %s", r.Protocol)
		}
		if r.Protocol == "any" {
			f.Protocol = ""
		}
	default:
		return f, fmt.Errorf("unknown protocol %q", r.Protocol)
	}
	if f.Source, err = ipv4(r.SourceCIDR); err != nil {
		return f, err
	}
	if f.Destination, err = ipv4(r.DestinationCIDR); err != nil {
		return f, err
	}
	if r.Ports == nil {
		return f, nil
	}
	if r.Ports.From < 1 || r.Ports.To > 65535 || r.Ports.From > r.Ports.To {
		return f, fmt.Errorf("ports %d to %d", r.Ports.From, r.Ports.To)
	}
	f.Port = uint16(r.Ports.From)
	if r.Ports.To > r.Ports.From {
		f.PortTo = uint16(r.Ports.To)
	}
	return f, nil
}

func ipv4(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err == nil && !p.Addr().Is4() {
		err = fmt.Errorf("%s is not of IPv4", text)
	}
	return p, err
}
