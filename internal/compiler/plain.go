package compiler

import (
	"bytes"

	"github.com/edictdev/edict/policy"
)

// PlainRules is the part of a rule payload that the node contract
// (docs/design.md#http) can express: the rules for which policy.Rule.Plain holds, in
// the same order.
type PlainRules struct {
	Payload     []byte // a compact JSON array; shared, do not modify
	Fingerprint Fingerprint
	Omitted     int // rules that Payload leaves out
}

// Plain makes the plain part of a payload that has this fingerprint. It works on
// the payload's bytes; of a payload that has only plain rules it is the payload
// itself.
func Plain(payload []byte, fp Fingerprint) PlainRules {
	if !extended(payload) {
		return PlainRules{payload, fp, 0}
	}
	plain, omitted := append(make([]byte, 0, len(payload)), '['), 0
	for rule := range elements(payload) {
		if extended(rule) {
			omitted++
			continue
		}
		if len(plain) > 1 {
			plain = append(plain, ',')
		}
		plain = append(plain, rule...)
	}
	plain = append(plain, ']')
	return PlainRules{plain, FingerprintOf(plain), omitted}
}

// extended reports whether a payload has something of ordered policy, in one
// pass. No string in a payload contains a quote, so the first four letters after a
// quote show which name or value begins there; only source_cidr and
// source_selector, and the two of the destination, need one letter more.
func extended(b []byte) bool {
	for i := 0; i+5 < len(b); i++ {
		if b[i] != '"' {
			continue
		}
		switch string(b[i+1 : i+5]) {
		case "auth", "dire", string(policy.SCTP), string(policy.Pass), string(policy.Redirect[:4]):
			return true
		case "sour":
			if bytes.HasPrefix(b[i:], []byte(`"source_s`)) {
				return true
			}
		case "dest":
			if bytes.HasPrefix(b[i:], []byte(`"destination_s`)) {
				return true
			}
		}
	}
	return false
}

// elements yields the rules of a payload. It counts open braces: the only object
// inside a rule is its ports, and no string in a payload contains a brace.
func elements(payload []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		depth, from := 0, 0
		for i, c := range payload {
			switch c {
			case '{':
				if depth++; depth == 1 {
					from = i
				}
			case '}':
				if depth--; depth == 0 && !yield(payload[from:i+1]) {
					return
				}
			}
		}
	}
}
