package admission

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// What some functions cost is a product: of a text and of what they look for in it, or of
// two lists. None of them can be interrupted.
const (
	maxCompared = 100_000_000 // bytes, at worst: a tenth of a second
	maxPaired   = 20_000_000  // elements of two lists, or of a document and its patch
	maxNetworks = 250_000     // of two lists, each read for each of the other
	maxFactors  = 10_000      // of a product, whose digits grow
	maxKeys     = 10_000      // of YAML, each compared with each

	comparedPerStep = 300
	pairedPerStep   = 60
	keysPerStep     = 120
	digitsPerStep   = 32
	layoutPerStep   = 32
	stepsPerNetwork = 7
)

var (
	errCompared = errors.New("looking for so long a text in so long a text")
	errPaired   = errors.New("comparing so many elements with so many")
	errListed   = fmt.Errorf("more than %d matches in a text", maxElements)
)

// compared bounds looking for a text in another.
func compared(in, sought int) (work int, err error) {
	if in*sought > maxCompared {
		return 0, errCompared
	}
	return in * sought / comparedPerStep, nil
}

// boundSearch is of functions that look for their second operand in the first.
func boundSearch(operands []*ast.Term) (work int, err error) {
	return compared(len(text(operands[0])), len(text(operands[1])))
}

// boundSearchAll is boundSearch of a function that lists all that it finds.
func boundSearchAll(operands []*ast.Term) (work int, err error) {
	s, sought := text(operands[0]), text(operands[1])
	if work, err = compared(len(s), len(sought)); err != nil {
		return work, err
	}
	found := 0
	for at := 0; sought != "" && found <= maxElements; found++ {
		i := strings.Index(s[at:], sought)
		if i < 0 {
			break
		}
		at += i + 1
	}
	return work + found/elementsPerStep, listed(found)
}

// boundSplit bounds the parts of a text.
func boundSplit(operands []*ast.Term) (work int, err error) {
	n := strings.Count(text(operands[0]), text(operands[1]))
	return n / elementsPerStep, listed(n)
}

// boundSplitN is boundSplit of a function that is given how many parts there may be.
func boundSplitN(operands []*ast.Term) (work int, err error) {
	n := strings.Count(text(operands[0]), text(operands[1]))
	if most, ok := operands[2].Value.(ast.Number); ok {
		if i, ok := most.Int(); ok && i >= 0 {
			n = min(n, i)
		}
	}
	return n / elementsPerStep, listed(n)
}

// listed bounds what a function finds in a text.
func listed(n int) error {
	if n > maxElements {
		return errListed
	}
	return nil
}

// replacing bounds a text in which some others, the longest of that length, are replaced:
// they are compared with each other first.
func replacing(s string, longest int) (work int, err error) {
	return compared(len(s)+longest, longest)
}

// paired bounds holding each part of an operand against each of the other.
func paired(operands []*ast.Term, most, perStep int) (work int, err error) {
	a, b := countParts(operands[0]), countParts(operands[1])
	switch {
	case a+b > maxParts:
		return 0, errParts
	case a*b > most:
		return 0, errPaired
	}
	return (a+b)/partsPerStep + a*b/perStep, nil
}

func boundPairs(operands []*ast.Term) (work int, err error) {
	return paired(operands, maxPaired, pairedPerStep)
}

// boundNetworks is of the function that says which networks of two lists overlap. A pair
// takes a step.
func boundNetworks(operands []*ast.Term) (work int, err error) {
	return paired(operands, maxNetworks, 1)
}

// boundSubset is boundWalk, and boundPairs of two arrays: what is in order is looked for in
// order.
func boundSubset(operands []*ast.Term) (work int, err error) {
	_, super := operands[0].Value.(*ast.Array)
	if _, sub := operands[1].Value.(*ast.Array); super && sub {
		return boundPairs(operands)
	}
	return boundWalk(operands)
}

// boundYAML bounds the places where a key may be in a text of YAML: the reader holds each
// of an object against each, to find those that are said twice.
func boundYAML(operands []*ast.Term) (work int, err error) {
	if work, err = boundNumbers(operands); err != nil {
		return work, err
	}
	n := 0
	for _, mark := range []string{":", ",", "?"} {
		n += strings.Count(text(operands[0]), mark)
	}
	if n > maxKeys {
		return work, fmt.Errorf("YAML of more than %d keys and elements", maxKeys)
	}
	return work + n*n/keysPerStep, nil
}

// boundElements bounds lists that are copied: "[x, x]" of long lists doubles them.
func boundElements(operands []*ast.Term) (work int, err error) {
	n := 0
	for _, t := range operands {
		if list, ok := t.Value.(*ast.Array); ok {
			n += list.Len()
		}
	}
	if n > maxParts {
		return 0, errParts
	}
	return n / elementsPerStep, nil
}

// boundMerge is of networks that are sorted and put together.
func boundMerge(operands []*ast.Term) (work int, err error) {
	n := 0
	elements(operands[0], func(*ast.Term) { n++ })
	if n > maxElements {
		return 0, fmt.Errorf("more than %d networks", maxElements)
	}
	return n * stepsPerNetwork, nil
}

// boundSum counts the digits: adding long numbers takes longer.
func boundSum(operands []*ast.Term) (work int, err error) {
	digits := 0
	elements(operands[0], func(t *ast.Term) {
		if v, ok := t.Value.(ast.Number); ok {
			digits += len(v)
		}
	})
	if work, err = boundWalk(operands); err != nil {
		return work, err
	}
	return work + digits/digitsPerStep, nil
}

// boundLayout is of a time that is written by a layout, which stands in a list.
func boundLayout(operands []*ast.Term) (work int, err error) {
	if _, err = boundTexts(operands); err != nil {
		return 0, err
	}
	bytes := 0
	elements(operands[0], func(t *ast.Term) { bytes += len(text(t)) })
	return bytes / layoutPerStep, nil
}

func boundFactors(operands []*ast.Term) (work int, err error) {
	n := countParts(operands[0])
	if n > maxFactors {
		return 0, errors.New("a product of so many numbers")
	}
	return n, nil
}

// boundMarshal bounds JSON of which each line may begin with a text, and with another for
// each level above it.
func boundMarshal(operands []*ast.Term) (work int, err error) {
	if work, err = boundTexts(operands); err != nil {
		return work, err
	}
	options, _ := operands[1].Value.(ast.Object)
	length := func(name string) int {
		if options == nil {
			return 0
		}
		if t := options.Get(ast.StringTerm(name)); t != nil {
			return len(text(t))
		}
		return 0
	}
	more, err := atMost(countParts(operands[0]) * (length("prefix") + levels(operands[0])*length("indent")))
	return work + more, err
}

// countParts counts those of a value, up to more than any function may walk.
func countParts(t *ast.Term) int {
	left := extent{maxParts, math.MaxInt}
	left.take(t)
	return maxParts - left.parts
}

// levels is how deep a value is nested; one that is not has one. It is for values whose
// parts are bounded.
func levels(t *ast.Term) int {
	deepest := 0
	deeper := func(t *ast.Term) { deepest = max(deepest, levels(t)) }
	switch v := t.Value.(type) {
	case ast.Object:
		v.Foreach(func(_, e *ast.Term) { deeper(e) })
	case *ast.Array, ast.Set:
		elements(t, deeper)
	}
	return deepest + 1
}
