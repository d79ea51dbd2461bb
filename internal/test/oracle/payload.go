package oracle

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// Payload is the Rule Payload of a rule list: compact JSON, canonical order,
// equal rules once.
func Payload(rules []Rule) (string, error) {
	byKey := map[string]string{}
	for _, r := range rules {
		key, object, err := canonical(r)
		if err != nil {
			return "", fmt.Errorf("oracle: %w", err)
		}
		byKey[key] = object
	}
	keys := []string{}
	for k := range byKey {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	objects := []string{}
	for _, k := range keys {
		objects = append(objects, byKey[k])
	}
	return "[" + strings.Join(objects, ",") + "]", nil
}

// canonical gives a rule's JSON and a text that sorts where the rule belongs:
// fields end in NUL, which no field contains and which is below every byte
// that one may; ports have five digits, so that text order is number order.
func canonical(r Rule) (key, object string, err error) {
	f := fields{}
	for _, side := range []struct{ name, cidr, selector string }{
		{"source_cidr", r.SourceCIDR, r.SourceSelector}, {"destination_cidr", r.DestinationCIDR, r.DestinationSelector},
	} {
		if side.selector != "" {
			f.key += "\x00"
			continue
		}
		prefix, err := cidr(side.cidr)
		if err != nil {
			return "", "", err
		}
		f.text(side.name, prefix)
	}
	f.text("protocol", r.Protocol)
	if r.Ports == nil {
		f.key += "0000000000"
	} else {
		f.key += fmt.Sprintf("%05d%05d", r.Ports.From, r.Ports.To)
		f.object += fmt.Sprintf(`"ports":{"from":%d,"to":%d},`, r.Ports.From, r.Ports.To)
	}
	f.text("action", r.Action)
	for _, peer := range []struct{ name, selector string }{
		{"source_selector", r.SourceSelector}, {"destination_selector", r.DestinationSelector},
	} {
		text, err := tidy(peer.selector)
		if err != nil {
			return "", "", err
		}
		f.text(peer.name, text)
	}
	f.number("proxy_port", r.ProxyPort)
	f.number("listener_priority", r.ListenerPriority)
	f.text("auth", r.Auth)
	f.text("direction", r.Direction)
	return f.key, "{" + strings.TrimSuffix(f.object, ",") + "}", nil
}

// split parts a rule list into what a node's policy block can say and the rest:
// it can say allow, deny and log of tcp, udp, icmp and any between two prefixes.
func split(rules []Rule) (sayable, rest []Rule) {
	for _, r := range rules {
		old := slices.Contains([]string{"allow", "deny", "log"}, r.Action) &&
			slices.Contains([]string{"tcp", "udp", "icmp", "any"}, r.Protocol)
		if old && r.SourceCIDR != "" && r.DestinationCIDR != "" && r.Auth == "" && r.Direction == "" {
			sayable = append(sayable, r)
		} else {
			rest = append(rest, r)
		}
	}
	return sayable, rest
}

// fields gathers a rule's key and object, field by field. What is empty stands
// in the key alone.
type fields struct{ key, object string }

func (f *fields) text(name, value string) {
	f.key += value + "\x00"
	if value != "" {
		f.object += fmt.Sprintf(`"%s":"%s",`, name, value)
	}
}

func (f *fields) number(name string, n int) {
	f.key += fmt.Sprintf("%05d", n)
	if n != 0 {
		f.object += fmt.Sprintf(`"%s":%d,`, name, n)
	}
}

// cidr is the canonical text of a prefix.
func cidr(s string) (string, error) {
	ip, network, err := net.ParseCIDR(s)
	if err != nil {
		return "", err
	}
	if !ip.Equal(network.IP) {
		return "", fmt.Errorf("%s has host bits set", s)
	}
	if strings.Contains(s, ":") && network.IP.To4() != nil {
		return "", fmt.Errorf("%s is an IPv4 prefix in IPv6 clothes, which no accepted rule holds", s)
	}
	return network.String(), nil
}
