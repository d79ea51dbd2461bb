package admission

import (
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// fault is one reason why a value is not of a schema.
type fault struct {
	text  string
	value any // that is wrong
	// named: the text names the member that is missing or too much, so that it is the
	// same fault whatever else becomes of the object.
	named bool
}

// faultsOf are what the validator found about a value: the leaves alone, in order of
// their text, because the validator's own order is that of a map.
func faultsOf(err error, of any) []fault {
	if err == nil {
		return nil
	}
	var top *jsonschema.ValidationError
	if !errors.As(err, &top) {
		return []fault{{text: err.Error(), value: of}}
	}
	english := message.NewPrinter(language.English)
	var leaves []fault
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		leaf := fault{text: e.ErrorKind.LocalizedString(english)}
		if at := path(e.InstanceLocation); len(at) > 0 {
			leaf.text = at.pointer() + " " + leaf.text
		}
		leaf.value, _ = path(e.InstanceLocation).in(of)
		switch e.ErrorKind.(type) {
		case *kind.Required, *kind.DependentRequired, *kind.AdditionalProperties:
			leaf.named = true
		}
		leaves = append(leaves, leaf)
	}
	walk(top)
	slices.SortFunc(leaves, func(a, b fault) int { return strings.Compare(a.text, b.text) })
	return leaves
}

// within says whether all faults are among those that there were before: nothing has
// become worse by what was changed meanwhile.
func within(faults, before []fault) bool {
	known := make(map[string]fault, len(before)) // there may be one for each part of a payload
	for _, b := range before {
		known[b.text] = b
	}
	return !slices.ContainsFunc(faults, func(f fault) bool {
		b, was := known[f.text]
		return !was || !f.named && !equal(f.value, b.value)
	})
}

// reasons puts faults into one line.
func reasons(faults []fault) string {
	lines := make([]string, len(faults))
	for i, f := range faults {
		lines[i] = f.text
	}
	const enough = 5
	if lines = slices.Compact(lines); len(lines) > enough {
		lines = append(lines[:enough], "…")
	}
	return shortened(strings.Join(lines, "; "), maxMessage)
}
