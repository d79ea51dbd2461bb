package admission

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	maxPattern      = 1024   // bytes of a regular expression
	maxInstructions = 10_000 // of one, with its counts written out: a{900} is 900

	instructionBytes = 120 // what a compiled one takes for each, roughly
	compilings       = 2   // of one that a function of the evaluator compiles, too; of each instruction a step
)

// expression is a regular expression, compiled.
type expression struct {
	*regexp.Regexp
	instructions int
}

// bytes is what keeping it takes.
func (e expression) bytes() int { return e.instructions * instructionBytes }

// expressions are those that functions of policies were given lately.
var expressions = newCache[expression](expressionBytes)

// expressionBytes bounds what a cache keeps of expressions, in each of its generations.
const expressionBytes = 16 << 20

// compileExpression compiles one that is not too large.
func compileExpression(expr string) (e expression, err error) {
	if e.instructions, err = patternCost(expr); err != nil {
		return e, err
	}
	e.Regexp, err = regexp.Compile(expr)
	return e, err
}

// expressionOf is compileExpression, which is the work, of one that is not known yet.
func expressionOf(expr string) (e expression, work int, err error) {
	e, err = expressions.get(expr, func() (expression, error) {
		e, err := compileExpression(expr)
		work = compilings * e.instructions
		return e, err
	})
	return e, work, err
}

// patternCost is the number of instructions of a regular expression (RE2).
func patternCost(expr string) (int, error) {
	if len(expr) > maxPattern {
		return 0, longPattern(expr)
	}
	n, err := instructions(expr, 2*maxInstructions)
	if err == nil && n > maxInstructions {
		err = errInstructions
	}
	return n, err
}

func longPattern(expr string) error {
	return fmt.Errorf("the pattern has %d bytes, more than %d", len(expr), maxPattern)
}

var errInstructions = fmt.Errorf("the pattern has more than %d instructions once its counts, such as {900}, are written out", maxInstructions)

// instructions counts those of a regular expression of any length. It is errInstructions
// for one that has roughly more than most, which is not written out.
func instructions(expr string, most int) (int, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, err
	}
	if estimate(re) > most {
		return 0, errInstructions
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0, err
	}
	return len(prog.Inst), nil
}

// estimate is roughly how many instructions an expression has, once written out.
func estimate(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += estimate(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}
