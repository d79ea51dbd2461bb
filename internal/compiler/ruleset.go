package compiler

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/edictdev/edict/policy"
)

// Ruleset is the compiled rule list of a revision. It is the same on every node
// the revision matches, so it is built once and shared.
type Ruleset struct {
	Payload     []byte // compact JSON array in canonical order; shared, do not modify
	Fingerprint Fingerprint
	Rules       int // rules in Payload
}

// Empty is the projection of a policy onto a node it does not match: payload
// "[]". Do not modify.
var Empty = Ruleset{Payload: []byte("[]"), Fingerprint: FingerprintOf([]byte("[]"))}

// Compile runs stages 1, 3 and 4 of the projection: canonical sort with equal
// rules once, JSON, SHA-256 (docs/design.md#compile).
func Compile(rules []policy.Rule) Ruleset {
	if len(rules) == 0 {
		return Empty
	}
	lines := canonical(rules)
	payload := appendLines(make([]byte, 0, payloadSize(lines)), lines)
	return Ruleset{payload, FingerprintOf(payload), len(lines)}
}

func appendLines(b []byte, lines []line) []byte {
	b = append(b, '[')
	for i := range lines {
		if i > 0 {
			b = append(b, ',')
		}
		b = lines[i].append(b)
	}
	return append(b, ']')
}

// AppendRules appends rules as stage 3 writes them, in the order in which they stand.
func AppendRules(b []byte, rules []policy.Rule) []byte {
	lines := printedAll(rules)
	return appendLines(slices.Grow(b, payloadSize(lines)), lines)
}

// Canonical is stage 1: a sorted copy of rules in which equal rules stand once.
func Canonical(rules []policy.Rule) []policy.Rule {
	lines := canonical(rules)
	sorted := make([]policy.Rule, len(lines))
	for i := range lines {
		sorted[i] = lines[i].Rule
	}
	return sorted
}

// line is a rule with the canonical text of its CIDRs, printed once instead of
// in every comparison.
type line struct {
	policy.Rule
	source, destination []byte
}

// printedAll is the lines of rules, in their order.
func printedAll(rules []policy.Rule) []line {
	const cidr = 24 // bytes a CIDR takes more often than not; append grows it
	text := make([]byte, 0, 2*cidr*len(rules))
	lines := make([]line, len(rules))
	for i, r := range rules {
		lines[i].Rule = r
		lines[i].source, text = printed(text, r, false)
		lines[i].destination, text = printed(text, r, true)
	}
	return lines
}

func canonical(rules []policy.Rule) []line {
	lines := printedAll(rules)
	slices.SortFunc(lines, compareLines)
	// Masked prefixes are equal exactly if their texts are, so == on rules is
	// equality in the canonical order.
	return slices.CompactFunc(lines, func(a, b line) bool { return a.Rule == b.Rule })
}

// printed appends one CIDR of r to text and returns where it stands. A slice of
// an outgrown text stays valid.
func printed(text []byte, r policy.Rule, destination bool) (cidr, grown []byte) {
	p := r.Source
	if destination {
		p = r.Destination
	}
	at := len(text)
	text = policy.AppendCIDR(text, p)
	return text[at:len(text):len(text)], text
}

// compareLines is policy.Rule.Compare on printed CIDRs.
func compareLines(a, b line) int {
	if c := bytes.Compare(a.source, b.source); c != 0 {
		return c
	}
	if c := bytes.Compare(a.destination, b.destination); c != 0 {
		return c
	}
	return cmp.Or(
		strings.Compare(string(a.Protocol), string(b.Protocol)),
		cmp.Compare(a.Ports.From, b.Ports.From),
		cmp.Compare(a.Ports.To, b.Ports.To),
		strings.Compare(string(a.Action), string(b.Action)),
		a.CompareOrdered(b.Rule),
	)
}

func payloadSize(lines []line) int {
	const fixed = len(`{"source_cidr":"","destination_cidr":"","protocol":"icmp","ports":{"from":65535,"to":65535},"action":"allow"},`)
	n := len("[]")
	for i := range lines {
		n += fixed + len(lines[i].source) + len(lines[i].destination) + len(lines[i].SourceSelector) + len(lines[i].DestinationSelector)
	}
	return n
}

// append is stage 3 for one rule: fields in the order of
// docs/design.md#compile, each only where the rule has it. No field's alphabet needs escaping.
func (l *line) append(b []byte) []byte {
	b = append(b, '{')
	if l.Source.IsValid() {
		b = append(append(append(b, `"source_cidr":"`...), l.source...), `",`...)
	}
	if l.Destination.IsValid() {
		b = append(append(append(b, `"destination_cidr":"`...), l.destination...), `",`...)
	}
	b = append(append(append(b, `"protocol":"`...), l.Protocol...), `",`...)
	if l.Ports != (policy.Ports{}) {
		b = append(l.Ports.AppendTo(append(b, `"ports":`...)), ',')
	}
	b = append(append(append(b, `"action":"`...), l.Action...), '"')
	return append(l.AppendOrdered(b), '}')
}
