package compiler

import "github.com/edictdev/edict/policy"

// Plain is the part of a rule payload that the node contract
// (docs/design.md#http) can express, in the same order, and how many rules it leaves out: it
// keeps those for which policy.Rule.Plain holds. It works on the payload's bytes; a
// payload of plain rules alone is returned itself.
func Plain(payload []byte) (plain []byte, omitted int) {
	if !extended(payload) {
		return payload, 0
	}
	plain = append(make([]byte, 0, len(payload)), '[')
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
	return append(plain, ']'), omitted
}

// extended reports whether a payload has something of ordered policy, in one
// pass: no text of a payload holds a quote, and the first letters after one tell
// names and words apart, but for a CIDR's and a selector's.
func extended(b []byte) bool {
	for i := 0; i+5 < len(b); i++ {
		if b[i] != '"' {
			continue
		}
		switch string(b[i+1 : i+5]) {
		case "auth", string(policy.SCTP), string(policy.Pass), string(policy.Redirect[:4]):
			return true
		case "sour":
			if b[i+len(`"source_`)] == 's' {
				return true
			}
		case "dest":
			if b[i+len(`"destination_`)] == 's' {
				return true
			}
		}
	}
	return false
}

// elements yields the rules of a payload. A brace closes a rule when no other is
// open: a rule's only inner object is its ports, and no text holds a brace.
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
