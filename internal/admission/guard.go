package admission

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// The evaluator looks at the clock between the steps of a policy, not within a
// built-in function, and it has no bound on memory. So what one call of a
// function may take is bounded here, before it runs.
const (
	maxText     = 1 << 20    // bytes of a string that goes in or comes out
	maxElements = 100_000    // of a range or of a network taken apart
	maxParts    = 1_000_000  // of a value that is walked: [x, x] of [x, x] of ... is small only until then
	maxMatching = 20_000_000 // instructions of a regular expression times bytes of the text
)

// init puts the bounds before every function that policies may call. The
// evaluator knows its functions by a table of the process; this is the only
// package of the binary that evaluates Rego.
func init() {
	for _, b := range capabilities().Builtins {
		run := topdown.GetBuiltin(b.Name)
		if own := replaced[b.Name]; own != nil {
			run = own
		}
		if run != nil {
			topdown.RegisterBuiltinFunc(b.Name, guarded(b.Name, run))
			if known := ast.BuiltinMap[b.Name]; known != nil && b.Infix == "" && bounds[b.Name] != nil {
				known.CanSkipBctx = false // its work is counted there
			}
		}
	}
}

// A guard says why a function must not run on its operands, and else roughly how much
// work it is, in steps of the evaluator.
type guard func(operands []*ast.Term) (work int, err error)

// worker counts the work of an evaluation.
type worker interface{ worked(steps int) }

// What is as much work as a step, which takes some 0.3 µs.
const (
	textPerStep     = 1024
	elementsPerStep = 5
	partsPerStep    = 20
	matchingPerStep = 100
)

// guarded is the function of that name with its bounds before it.
func guarded(name string, run topdown.BuiltinFunc) topdown.BuiltinFunc {
	before := bounds[name]
	finds, isFinder := finders[name]
	return func(b topdown.BuiltinContext, operands []*ast.Term, emit func(*ast.Term) error) error {
		work, err := checkOperands(operands)
		if err == nil && before != nil {
			var more int
			more, err = before(operands)
			work += more
		}
		if w, ok := b.Cancel.(worker); ok && work > 0 {
			w.worked(work)
		}
		if err == nil && isFinder {
			err = finds.rehearse(b.Cancel, operands)
		}
		switch {
		case err == nil:
			return run(b, operands, emit)
		case topdown.IsCancel(err):
			return topdown.Halt{Err: err}
		}
		return topdown.Halt{Err: &topdown.Error{Code: topdown.BuiltinErr, Message: err.Error(), Location: b.Location}}
	}
}

var errText = fmt.Errorf("a string of more than %d bytes", maxText)

func checkOperands(operands []*ast.Term) (work int, err error) {
	for _, t := range operands {
		switch v := t.Value.(type) {
		case ast.String:
			if len(v) > maxText {
				return work, errText
			}
			work += len(v) / textPerStep
		case ast.Number:
			if len(v) > 20 && !isSane(string(v)) || len(v) <= 20 && strings.ContainsAny(string(v), "eE") && !isSane(string(v)) {
				return work, fmt.Errorf("the number %.30s %w", v, errNumber)
			}
		}
	}
	return work, nil
}
