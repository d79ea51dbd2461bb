package policy

import "github.com/google/uuid"

// Draft is what an author sends to create a policy.
type Draft struct {
	Slug, DisplayName string
	Selector          Selector
	Rules             []Rule
}

// Patch is what an author sends to revise one: unset fields are nil and inherit
// from the head.
type Patch struct {
	DisplayName *string
	Selector    *Selector
	Rules       []Rule     // nil: inherit
	Expected    *uuid.UUID // expected_revision_id; nil: whatever the head is
}

// Facts are what a node is registered with.
type Facts struct {
	Labels    Labels
	Addresses Addresses
}

// Fields of an input, by bit: the inputs share one walk.
const (
	inputSlug = 1 << iota
	inputDisplayName
	inputSelector
	inputRules
	inputExpected
	inputID
	inputLabels
	inputAddresses
)

var inputFields = []string{
	"slug", "display_name", "selector", "rules", "expected_revision_id", "id", "labels", "addresses",
}

// input holds the fields of every input; seen tells which were present.
type input struct {
	seen        uint
	slug        string
	displayName string
	selector    Selector
	rules       []Rule
	expected    uuid.UUID
	id          NodeID
	facts       Facts
}

// DecodeDraft reads {"slug","display_name"?,"selector","rules"}. Like all
// inputs it is read strictly; the error is Violations, every fault at once.
func DecodeDraft(body []byte) (Draft, error) {
	in, err := decodeInput(body, "a policy", inputSlug|inputSelector|inputRules, inputDisplayName)
	if err != nil {
		return Draft{}, err
	}
	return Draft{in.slug, in.displayName, in.selector, in.rules}, nil
}

// DecodePatch reads any subset of {"display_name","selector","rules",
// "expected_revision_id"}. The error is Violations.
func DecodePatch(body []byte) (Patch, error) {
	in, err := decodeInput(body, "a policy patch", 0,
		inputDisplayName|inputSelector|inputRules|inputExpected)
	if err != nil {
		return Patch{}, err
	}
	p := Patch{Rules: in.rules}
	if in.seen&inputDisplayName != 0 {
		p.DisplayName = &in.displayName
	}
	if in.seen&inputSelector != 0 {
		p.Selector = &in.selector
	}
	if in.expected != uuid.Nil {
		p.Expected = &in.expected
	}
	return p, nil
}

// DecodeFacts reads {"labels"?,"addresses"?}. The error is Violations.
func DecodeFacts(body []byte) (Facts, error) {
	in, err := decodeInput(body, "a node", 0, inputLabels|inputAddresses)
	if err != nil {
		return Facts{}, err
	}
	return in.facts, nil
}

// DecodeNodeLine reads one line of a node import: {"id","labels"?,"addresses"?}.
// The error is Violations; the id is returned beside it when it could be read.
func DecodeNodeLine(line []byte) (NodeID, Facts, error) {
	in, err := decodeInput(line, "a node", inputID, inputLabels|inputAddresses)
	if err != nil {
		return in.id, Facts{}, err
	}
	return in.id, in.facts, nil
}

// DecodePreview reads the body of a dry run: {"selector","rules"}. The error is
// Violations.
func DecodePreview(body []byte) (Selector, []Rule, error) {
	in, err := decodeInput(body, "a dry run", inputSelector|inputRules, 0)
	if err != nil {
		return Selector{}, nil, err
	}
	return in.selector, in.rules, nil
}

func decodeInput(body []byte, what string, need, may uint) (*input, error) {
	in := new(input)
	faults := read(body, func(r *reader) {
		ok := r.object(what, func(name []byte) bool { return r.inputField(in, name, need|may) })
		if ok {
			r.require(need, in.seen, inputFields)
		}
	})
	return in, faults.orNil()
}

func (r *reader) inputField(in *input, name []byte, known uint) bool {
	bit := uint(0)
	for i, field := range inputFields {
		if string(name) == field {
			bit = 1 << i
			break
		}
	}
	if bit &= known; bit == 0 {
		return false
	}
	in.seen |= bit
	switch bit {
	case inputSlug:
		in.slug = r.slug()
	case inputDisplayName:
		in.displayName = r.displayName()
	case inputSelector:
		in.selector = r.selector()
	case inputRules:
		in.rules = r.rules()
	case inputExpected:
		in.expected = r.uuidOrNull()
	case inputID:
		in.id = r.nodeID()
	case inputLabels:
		in.facts.Labels = r.labels()
	case inputAddresses:
		in.facts.Addresses = r.addresses()
	}
	return true
}
