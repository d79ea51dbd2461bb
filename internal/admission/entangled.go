package admission

import "github.com/open-policy-agent/opa/v1/ast"

// The compiler cannot be interrupted, and takes time that grows with these, not with the
// length of the code: a second or so at these bounds.
const (
	// maxInner bounds the expressions in comprehensions and templates. The compiler
	// looks at each twice as often for each of these that it stands in.
	maxInner = 1 << 13
	// maxOrdered bounds the cubes of the lengths of bodies: the compiler orders the
	// expressions of each, and may look for the next one at all that are left.
	maxOrdered = 400 * 400 * 400
)

// entangled is the fault of code on which the compiler would be busy for long; nil: it is not.
func entangled(module *ast.Module) *CompileError {
	var t tangle
	for _, r := range module.Rules {
		t.walk(r, 0)
	}
	switch {
	case t.inner > maxInner:
		return oneFault(CodeTooLarge, t.at, "comprehensions and templates stand too deep in one another, or too many are in others: make the inner ones rules of their own")
	case t.ordered > maxOrdered:
		return oneFault(CodeTooLarge, t.at, "bodies have too many expressions, such as one of 400: divide them into rules")
	}
	return nil
}

// tangle counts what takes the compiler long. It ends where that is too much, which is at.
type tangle struct {
	inner, ordered int
	at             *ast.Location
}

func (t *tangle) tooMuch() bool { return t.inner > maxInner || t.ordered > maxOrdered }

// walk counts what is in x, which stands in so many comprehensions and templates.
func (t *tangle) walk(x any, depth int) {
	ast.NewGenericVisitor(func(y any) bool {
		if t.tooMuch() {
			return true
		}
		switch y := y.(type) {
		case ast.Body:
			t.ordered += len(y) * len(y) * len(y)
			t.at = y.Loc()
		case *ast.Expr:
			t.inner += 1<<min(depth, 20) - 1
			t.at = y.Location
		case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension, *ast.TemplateString:
			if y != x {
				t.walk(y, depth+1)
				return true
			}
		}
		return false
	}).Walk(x)
}
