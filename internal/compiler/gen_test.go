package compiler_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/edictdev/edict/policy"
	"pgregory.net/rapid"
)

// rule reads a short hand: "allow tcp 10.0.0.0/8 10.1.0.0/16 443-443".
func rule(text string) policy.Rule {
	var action, protocol, source, destination string
	var ports policy.Ports
	n, err := fmt.Sscanf(text, "%s %s %s %s %d-%d", &action, &protocol, &source, &destination, &ports.From, &ports.To)
	if err != nil && n != 4 {
		panic(text)
	}
	return policy.Rule{
		Action: policy.Action(action), Protocol: policy.Protocol(protocol),
		Source: netip.MustParsePrefix(source), Destination: netip.MustParsePrefix(destination), Ports: ports,
	}
}

func rules(texts ...string) []policy.Rule {
	out := make([]policy.Rule, len(texts))
	for i, t := range texts {
		out[i] = rule(t)
	}
	return out
}

// anyRule draws from a small world, so that rules collide in every field.
func anyRule(t *rapid.T) policy.Rule {
	v4 := []string{"0.0.0.0/0", "10.0.0.0/8", "9.0.0.0/8", "10.1.0.0/16", "100.64.0.0/10", "10.0.0.0/16"}
	v6 := []string{"::/0", "fd00::/8", "2001:db8::/32", "2001:db8::1/128"}
	prefixes := rapid.SampledFrom([][]string{v4, v4, v6}).Draw(t, "family")
	r := policy.Rule{
		Action:      rapid.SampledFrom([]policy.Action{policy.Allow, policy.Deny, policy.Log}).Draw(t, "action"),
		Protocol:    rapid.SampledFrom([]policy.Protocol{policy.TCP, policy.UDP, policy.ICMP, policy.Any}).Draw(t, "protocol"),
		Source:      netip.MustParsePrefix(rapid.SampledFrom(prefixes).Draw(t, "source")),
		Destination: netip.MustParsePrefix(rapid.SampledFrom(prefixes).Draw(t, "destination")),
	}
	if rapid.IntRange(0, 2).Draw(t, "extended") == 0 {
		extend(t, &r)
	}
	if r.Protocol.HasPorts() {
		r.Ports.From = rapid.SampledFrom([]uint16{1, 9, 80, 443, 65535}).Draw(t, "from")
		r.Ports.To = max(r.Ports.From, rapid.SampledFrom([]uint16{1, 443, 65535}).Draw(t, "to"))
	}
	return r
}

// extend gives a rule some of the fields of ordered policy.
func extend(t *rapid.T, r *policy.Rule) {
	r.Action = rapid.SampledFrom([]policy.Action{policy.Allow, policy.Pass, policy.Redirect}).Draw(t, "extended action")
	r.Protocol = rapid.SampledFrom([]policy.Protocol{policy.TCP, policy.SCTP, policy.Any}).Draw(t, "extended protocol")
	selectors := rapid.SampledFrom([]string{"", "", "role=web", "auth", "!a"})
	if s := selectors.Draw(t, "source_selector"); s != "" {
		r.Source, r.SourceSelector = netip.Prefix{}, s
	}
	if s := selectors.Draw(t, "destination_selector"); s != "" {
		r.Destination, r.DestinationSelector = netip.Prefix{}, s
	}
	if r.Action == policy.Redirect {
		r.ProxyPort = rapid.SampledFrom([]uint16{9, 80, 10080}).Draw(t, "proxy_port")
		r.ListenerPriority = rapid.SampledFrom([]uint8{0, 9, 10, 126}).Draw(t, "listener_priority")
	}
	if r.Action != policy.Pass {
		r.Auth = rapid.SampledFrom([]policy.Auth{"", policy.AuthDisabled, policy.AuthRequired}).Draw(t, "auth")
	}
	r.Direction = rapid.SampledFrom([]policy.Direction{"", policy.Ingress, policy.Egress}).Draw(t, "direction")
}

func anyRules(t *rapid.T) []policy.Rule {
	return rapid.SliceOfN(rapid.Custom(anyRule), 0, 20).Draw(t, "rules")
}

// counter derives an unlimited series of numbers from a seed, the same on every
// machine and in every run (splitmix64).
type counter uint64

func (c *counter) next(n int) int {
	*c += 0x9e3779b97f4a7c15
	x := uint64(*c)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(n))
}

func (c *counter) rule() policy.Rule {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], uint32(c.next(1<<32)))
	source, _ := netip.AddrFrom4(a).Prefix(c.next(33))
	binary.BigEndian.PutUint32(a[:], uint32(c.next(1<<32)))
	destination, _ := netip.AddrFrom4(a).Prefix(c.next(33))
	r := policy.Rule{
		Action:   []policy.Action{policy.Allow, policy.Deny, policy.Log}[c.next(3)],
		Protocol: []policy.Protocol{policy.TCP, policy.UDP, policy.ICMP, policy.Any}[c.next(4)],
		Source:   source, Destination: destination,
	}
	if r.Protocol.HasPorts() {
		r.Ports.From = uint16(1 + c.next(65535))
		r.Ports.To = r.Ports.From + uint16(c.next(65536-int(r.Ports.From)))
	}
	return r
}

func (c *counter) shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, c.next(i+1))
	}
}
