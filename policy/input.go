package policy

import "github.com/google/uuid"

// Draft is what an author sends to create a policy.
type Draft struct {
	Slug, DisplayName string
	Content
}

// Content is what a revision says: whom it is about, where its rules stand, and
// the rules.
type Content struct {
	Selector Selector
	Order    Order
	Rules    []Rule
}

// Patch is what an author sends to revise one: unset fields are nil and inherit
// from the head.
type Patch struct {
	DisplayName *string
	Selector    *Selector
	Tier        *Tier     // empty: set no longer
	Priority    *Priority // not Set: set no longer
	DefaultDeny *bool
	Audit       *bool
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
	inputTier
	inputPriority
	inputDefaultDeny
	inputMode
)

// inputOrder are the optional fields of an Order.
const inputOrder = inputTier | inputPriority | inputDefaultDeny | inputMode

var inputFields = []string{
	"slug", "display_name", "selector", "rules", "expected_revision_id", "id", "labels", "addresses",
	"tier", "priority", "default_deny", "mode",
}

// input holds the fields of every input; seen tells which were present.
type input struct {
	seen        uint
	slug        string
	displayName string
	content     Content
	expected    uuid.UUID
	id          NodeID
	facts       Facts
}

// DecodeDraft reads {"slug","display_name"?,"selector","tier"?,"priority"?,
// "default_deny"?,"mode"?,"rules"}. Like all
// inputs it is read strictly; the error is Violations, every fault at once.
func DecodeDraft(body []byte) (Draft, error) {
	in, err := decodeInput(body, "a policy", inputSlug|inputSelector|inputRules, inputDisplayName|inputOrder)
	if err != nil {
		return Draft{}, err
	}
	return Draft{in.slug, in.displayName, in.content}, nil
}

// DecodePatch reads any subset of {"display_name","selector","tier","priority",
// "default_deny","mode","rules","expected_revision_id"}; null takes back what tier,
// priority, default_deny or mode set. The error is Violations.
func DecodePatch(body []byte) (Patch, error) {
	in, err := decodeInput(body, "a policy patch", 0,
		inputDisplayName|inputSelector|inputOrder|inputRules|inputExpected)
	if err != nil {
		return Patch{}, err
	}
	p := Patch{Rules: in.content.Rules}
	if in.seen&inputDisplayName != 0 {
		p.DisplayName = &in.displayName
	}
	if in.seen&inputSelector != 0 {
		p.Selector = &in.content.Selector
	}
	if in.seen&inputTier != 0 {
		p.Tier = &in.content.Order.Tier
	}
	if in.seen&inputPriority != 0 {
		p.Priority = &in.content.Order.Priority
	}
	if in.seen&inputDefaultDeny != 0 {
		deny := !in.content.Order.NoDefaultDeny
		p.DefaultDeny = &deny
	}
	if in.seen&inputMode != 0 {
		p.Audit = &in.content.Order.Audit
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

// DecodePreview reads the body of a dry run: {"selector","tier"?,"priority"?,
// "default_deny"?,"mode"?,"rules"}. The error is Violations.
func DecodePreview(body []byte) (Content, error) {
	in, err := decodeInput(body, "a dry run", inputSelector|inputRules, inputOrder)
	if err != nil {
		return Content{}, err
	}
	return in.content, nil
}

// DecodeNewPreview reads the body of a dry run of a policy that does not exist yet: DecodePreview's,
// and {"slug"?,"display_name"?}. The error is Violations.
func DecodeNewPreview(body []byte) (Draft, error) {
	in, err := decodeInput(body, "a dry run", inputSelector|inputRules, inputSlug|inputDisplayName|inputOrder)
	if err != nil {
		return Draft{}, err
	}
	return Draft{in.slug, in.displayName, in.content}, nil
}

func decodeInput(body []byte, what string, need, may uint) (*input, error) {
	in := new(input)
	faults := read(body, func(r *reader) {
		ok := r.object(what, func(name []byte) bool { return in.readField(r, name, need|may) }, fields{inputFields, need | may})
		if ok {
			r.require(need, in.seen, inputFields)
		}
	})
	return in, faults.orNil()
}

// readField reads the field of that name, if it is among the known ones.
func (in *input) readField(r *reader, name []byte, known uint) bool {
	bit := fieldBit(inputFields, name)
	if bit &= known; bit == 0 {
		return false
	}
	in.seen |= bit
	switch bit {
	case inputSlug:
		in.slug = readSlug(r)
	case inputDisplayName:
		in.displayName = readDisplayName(r)
	case inputSelector:
		in.content.Selector = readSelector(r)
	case inputTier:
		in.content.Order.Tier = readTier(r)
	case inputPriority:
		in.content.Order.Priority = readPriority(r)
	case inputDefaultDeny:
		in.content.Order.NoDefaultDeny = !readDefaultDeny(r)
	case inputMode:
		in.content.Order.Audit = readAudit(r)
	case inputRules:
		in.content.Rules = readRules(r)
	case inputExpected:
		in.expected = r.uuidOrNull()
	case inputID:
		in.id = readNodeID(r)
	case inputLabels:
		in.facts.Labels = readLabels(r)
	case inputAddresses:
		in.facts.Addresses = readAddresses(r)
	}
	return true
}
