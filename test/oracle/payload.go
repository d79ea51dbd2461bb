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
	source, err := cidr(r.SourceCIDR)
	if err != nil {
		return "", "", err
	}
	destination, err := cidr(r.DestinationCIDR)
	if err != nil {
		return "", "", err
	}
	from, to, ports := 0, 0, ""
	if r.Ports != nil {
		from, to = r.Ports.From, r.Ports.To
		ports = fmt.Sprintf(`"ports":{"from":%d,"to":%d},`, from, to)
	}
	key = fmt.Sprintf("%s\x00%s\x00%s\x00%05d%05d%s", source, destination, r.Protocol, from, to, r.Action)
	object = fmt.Sprintf(`{"source_cidr":"%s","destination_cidr":"%s","protocol":"%s",%s"action":"%s"}`,
		source, destination, r.Protocol, ports, r.Action)
	return key, object, nil
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
