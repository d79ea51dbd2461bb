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

// faults are why a value is not of a schema: the leaves of what the validator found, of
// which there may be one for each part of the value.
type faults struct {
	leaves []*jsonschema.ValidationError
	other  error // that is about no part of the value
}

func faultsOf(err error) (f faults) {
	var top *jsonschema.ValidationError
	if !errors.As(err, &top) {
		f.other = err
		return f
	}
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) == 0 {
			f.leaves = append(f.leaves, e)
		}
	}
	walk(top)
	return f
}

func (f faults) none() bool { return f.other == nil && len(f.leaves) == 0 }

// faultPlace is what was asked, and of which part of the value.
type faultPlace struct{ at, schema, keyword string }

func placeOf(leaf *jsonschema.ValidationError) faultPlace {
	return faultPlace{path(leaf.InstanceLocation).pointer(), leaf.SchemaURL, strings.Join(leaf.ErrorKind.KeywordPath(), "/")}
}

// maxFaults is how many faults are compared with those of another value.
const maxFaults = 1000

// few says whether the faults can be compared with others.
func (f faults) few() bool { return f.other == nil && len(f.leaves) <= maxFaults }

// within says whether all faults of a value were faults of an older one: nothing has
// become worse by what was changed meanwhile. Of both there must be few.
func (f faults) within(value any, before faults, old any) bool {
	known, same := make(map[faultPlace]jsonschema.ErrorKind, len(before.leaves)), map[string]bool{}
	for _, leaf := range before.leaves {
		known[placeOf(leaf)] = leaf.ErrorKind
	}
	return !slices.ContainsFunc(f.leaves, func(leaf *jsonschema.ValidationError) bool {
		place := placeOf(leaf)
		was, had := known[place]
		if !had {
			return true
		}
		// A member that is missing, or too much, is the same fault whatever else becomes of
		// the object.
		switch now := leaf.ErrorKind.(type) {
		case *kind.Required:
			return !among(now.Missing, was.(*kind.Required).Missing)
		case *kind.DependentRequired:
			return !among(now.Missing, was.(*kind.DependentRequired).Missing)
		case *kind.AdditionalProperties:
			return !among(now.Properties, was.(*kind.AdditionalProperties).Properties)
		}
		if _, compared := same[place.at]; !compared {
			v, _ := path(leaf.InstanceLocation).in(value)
			w, _ := path(leaf.InstanceLocation).in(old)
			same[place.at] = equal(v, w)
		}
		return !same[place.at]
	})
}

func among(names, others []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(others, name) })
}

// maxReasons is how many faults are shown.
const maxReasons = 5

// reasons puts the faults into one line, in order of their text, because the validator's
// own order is that of a map.
func (f faults) reasons() string {
	if f.other != nil {
		return shortened(f.other.Error(), maxMessage)
	}
	english := message.NewPrinter(language.English)
	var lines []string
	for _, leaf := range f.shown() {
		text := leaf.ErrorKind.LocalizedString(english)
		if at := path(leaf.InstanceLocation); len(at) > 0 {
			text = at.pointer() + " " + text
		}
		lines = append(lines, text)
	}
	slices.Sort(lines)
	if lines = slices.Compact(lines); len(lines) > maxReasons {
		lines = append(lines[:maxReasons], "…")
	}
	return shortened(strings.Join(lines, "; "), maxMessage)
}

// shown are the faults of which some are shown: those of the whole value, and those of the
// first few of its parts. The text of one may quote all of a constant of the schema, so
// that the texts of all would take as much as the schema times the value.
func (f faults) shown() (shown []*jsonschema.ValidationError) {
	var first [][]string // places of parts, in order
	for _, leaf := range f.leaves {
		at := leaf.InstanceLocation
		if len(at) == 0 || len(first) > maxReasons && slices.Compare(at, first[maxReasons]) > 0 {
			continue
		}
		if i, known := slices.BinarySearchFunc(first, at, slices.Compare); !known {
			first = slices.Insert(first, i, at)
			first = first[:min(len(first), maxReasons+1)]
		}
	}
	for _, leaf := range f.leaves {
		if _, is := slices.BinarySearchFunc(first, leaf.InstanceLocation, slices.Compare); is || len(leaf.InstanceLocation) == 0 {
			shown = append(shown, leaf)
		}
	}
	return shown
}
