package admission

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// The compiler infers the type of each rule and each variable, and holds types against each
// other part by part. The type of x2 in "x1 := [x0, x0]; x2 := [x1, x1]" has four parts of
// x0, and that of x40 more than any machine counts: nothing interrupts the compiler then.
// So the parts of types are counted before it infers them.
const (
	maxTypeParts = 100_000 // of the type of a rule or a variable
	maxTypePath  = 20      // parts of a reference by which rules are distinguished
	maxTypeShown = 2_000   // parts of the types that the faults of a policy show, all together
)

// boundTypes refuses code whose types are too large, before the compiler infers them.
func boundTypes(c *ast.Compiler) *ast.Compiler {
	return c.WithStageAfterID(ast.StageCheckRecursion, ast.CompilerStageDefinition{
		Name: "BoundTypes", MetricName: "compile_stage_bound_types",
		Stage: func(c *ast.Compiler) *ast.Error {
			sorted, ok := c.Graph.Sort()
			if !ok {
				return nil // rules that need themselves are a fault already
			}
			s := typeSizes{
				own: map[string]int{}, below: map[string]int{}, functions: map[string]operandSizes{},
				shapes: newShapes(), written: map[string]*ast.Term{}, paths: map[string]int{},
			}
			for _, module := range c.Modules { // there is one
				s.home = module.Package.Path
			}
			for _, node := range sorted {
				rule := node.(*ast.Rule)
				if !s.rule(rule) {
					return ast.NewError(CodeTooLarge, rule.Location,
						"what %v refers to, written out, has more than %d parts: let no array, object or set name so large a rule or variable more than once", rule.Ref(), maxTypeParts)
				}
			}
			return nil
		},
	})
}

// typeSizes counts the parts that the types of rules and variables have at most.
type typeSizes struct {
	home      ast.Ref        // the package
	own       map[string]int // of the rules with that ground reference; of functions, of what they give
	below     map[string]int // of those, and of all rules below it
	functions map[string]operandSizes
	shapes    *shapes
	written   map[string]*ast.Term // the value of the rule with that reference, where it has no variables
	paths     map[string]int       // sizes of what references lead to in such values
	vars      map[ast.Var]int
	large     bool
}

// operandSizes are those of a function's operands, by place.
type operandSizes []int

// rule counts a rule after all that it refers to. It is false when a type is too large.
func (s *typeSizes) rule(r *ast.Rule) bool {
	s.vars = map[ast.Var]int{}
	s.body(r.Body)
	at := s.within(r.Ref())
	if len(r.Head.Args) > 0 {
		operands := make(operandSizes, len(r.Head.Args))
		copy(operands, s.functions[at.String()])
		for i, arg := range r.Head.Args {
			operands[i] = s.add(operands[i], s.of(arg)) // of each of the rules that make the function
		}
		s.functions[at.String()] = operands
	}
	n := 1
	for _, t := range []*ast.Term{r.Head.Key, r.Head.Value} {
		if t != nil {
			n += s.of(t)
		}
	}
	if v := r.Head.Value; v != nil && ast.IsConstant(v.Value) && len(r.Ref()) == len(s.home)+len(at) && r.Head.Key == nil && len(r.Head.Args) == 0 && s.own[at.String()] == 0 {
		s.written[at.String()] = v
	} else {
		delete(s.written, at.String()) // it may be either of several
	}
	s.own[at.String()] += n
	for i := range len(at) + 1 {
		key := at[:i].String()
		s.below[key] += n
		s.large = s.large || len(at) == i && s.below[key] > maxTypeParts
	}
	return !s.large
}

func (s *typeSizes) body(body ast.Body) {
	for _, e := range body {
		switch t := e.Terms.(type) {
		case *ast.Term:
			s.of(t)
		case *ast.Every:
			n := s.of(t.Domain)
			for _, v := range []*ast.Term{t.Key, t.Value} {
				if v != nil {
					s.set(v, n)
				}
			}
			s.body(t.Body)
		case []*ast.Term:
			s.call(t)
		}
		for _, w := range e.With {
			s.of(w.Value)
		}
	}
}

// call counts what a call gives the variables among its operands.
func (s *typeSizes) call(terms []*ast.Term) {
	name, operands := terms[0], terms[1:]
	sizes := make([]int, len(operands))
	for i, o := range operands {
		sizes[i] = s.of(o)
	}
	if ref, ok := name.Value.(ast.Ref); ok && len(operands) == 2 && (ref.Equal(ast.Equality.Ref()) || ref.Equal(ast.Assign.Ref())) {
		s.set(operands[0], sizes[1])
		s.set(operands[1], sizes[0])
		return
	}
	ref, ok := name.Value.(ast.Ref)
	if !ok {
		return
	}
	// A function tells what its operands are, and what it gives stands behind them. Those of
	// the language give types of few parts.
	known := s.functions[s.within(ref).String()]
	for i, o := range operands {
		if i < len(known) {
			s.set(o, known[i])
		} else {
			s.set(o, s.ref(ref))
		}
	}
}

// set gives the variables of a pattern at least that size.
func (s *typeSizes) set(pattern *ast.Term, size int) {
	switch v := pattern.Value.(type) {
	case ast.Var:
		s.vars[v] = max(s.vars[v], size)
	case *ast.Array, ast.Set:
		elements(pattern, func(t *ast.Term) { s.set(t, size) })
	case ast.Object:
		v.Foreach(func(_, t *ast.Term) { s.set(t, size) })
	}
}

// of is the size of the type of a term.
func (s *typeSizes) of(t *ast.Term) int {
	n := 1
	switch v := t.Value.(type) {
	case ast.Var:
		n = max(n, s.vars[v])
	case ast.Ref:
		n = max(n, s.ref(v))
	case *ast.Array:
		elements(t, func(e *ast.Term) { n = s.add(n, s.of(e)) })
	case ast.Set: // its type has one part for all elements that are alike
		var constants []*ast.Term
		v.Foreach(func(e *ast.Term) {
			if ast.IsConstant(e.Value) {
				constants = append(constants, e)
			} else {
				n = s.add(n, s.of(e))
			}
		})
		n = s.add(n, s.shapes.union(constants))
	case ast.Object:
		v.Foreach(func(k, e *ast.Term) { n = s.add(n, s.of(k)+s.of(e)) })
	case *ast.ArrayComprehension:
		s.body(v.Body)
		n = s.add(n, s.of(v.Term))
	case *ast.SetComprehension:
		s.body(v.Body)
		n = s.add(n, s.of(v.Term))
	case *ast.ObjectComprehension:
		s.body(v.Body)
		n = s.add(n, s.of(v.Key)+s.of(v.Value))
	case ast.Call:
		s.call(v)
		n = max(n, s.of(v[0]))
	}
	return n
}

func (s *typeSizes) add(n, more int) int {
	if n += more; n > maxTypeParts {
		s.large, n = true, maxTypeParts
	}
	return n
}

// ref is the size of what a reference leads to: of a part of a rule, or of all rules below it.
func (s *typeSizes) ref(r ast.Ref) int {
	if v, ok := r[0].Value.(ast.Var); ok && !r[0].Equal(ast.DefaultRootDocument) {
		return s.vars[v]
	}
	at := s.within(r)
	if n, ok := s.inWritten(r, len(at)); ok {
		return n
	}
	n := s.below[at.String()]
	for i := range len(at) {
		n = s.add(n, s.own[at[:i].String()])
	}
	return n
}

// inWritten is the size of what a reference leads to within a value that is written out.
func (s *typeSizes) inWritten(r ast.Ref, ground int) (n int, ok bool) {
	if ground == 0 {
		return 0, false
	}
	inside := r[len(s.home):]
	for i := 1; i <= ground && i < len(inside); i++ {
		rule := inside[:i].String()
		value, ok := s.written[rule]
		if !ok {
			continue
		}
		if s.below[rule] != s.own[rule] {
			return 0, false // other rules are below it
		}
		var path strings.Builder
		path.WriteString(rule)
		for _, step := range inside[i:] {
			path.WriteByte(' ')
			if step.IsGround() {
				path.WriteString(step.String())
			}
		}
		if n, ok = s.paths[path.String()]; !ok {
			n = s.add(0, s.shapes.union(selected([]*ast.Term{value}, inside[i:])))
			s.paths[path.String()] = n
		}
		return n, true
	}
	return 0, false
}

// within is the ground part of a reference within the policy's package, as far as rules are
// distinguished. What is elsewhere is as large as the whole of the package.
func (s *typeSizes) within(r ast.Ref) ast.Ref {
	at := r.GroundPrefix()
	if !at.HasPrefix(s.home) {
		return nil
	}
	return at[len(s.home):min(len(at), len(s.home)+maxTypePath)]
}

// detailsOf are the lines in which the compiler explains a fault, as far as the types in
// them are small enough to be shown.
func detailsOf(e *ast.Error, left *int) []string {
	if e.Details == nil {
		return nil
	}
	switch d := e.Details.(type) {
	case *ast.ParserErrorDetail: // the position, which is shown beside it
		return nil
	case *ast.UnificationErrDetail:
		countTypes(left, d.Left, d.Right)
	case *ast.ArgErrDetail:
		countTypes(left, d.Have...)
		countTypes(left, d.Want.Args...)
	case *ast.RefErrUnsupportedDetail:
		countTypes(left, d.Have)
	case *ast.RefErrInvalidDetail:
		countTypes(left, d.Have, d.Want)
	}
	if *left < 0 {
		return []string{"the types are too large to be shown"}
	}
	return e.Details.Lines()
}

// countTypes takes one from what is left for each part of the types.
func countTypes(left *int, of ...types.Type) {
	for _, t := range of {
		if *left--; *left < 0 {
			return
		}
		switch t := t.(type) {
		case *types.Array:
			for i := range t.Len() {
				countTypes(left, t.Select(i))
			}
			countTypes(left, t.Dynamic())
		case *types.Set:
			countTypes(left, t.Of())
		case *types.Object:
			for _, p := range t.StaticProperties() {
				countTypes(left, p.Value)
			}
			if d := t.DynamicProperties(); d != nil {
				countTypes(left, d.Key, d.Value)
			}
		case types.Any:
			countTypes(left, t...)
		case *types.Function:
			countTypes(left, t.FuncArgs().Args...)
			countTypes(left, t.Result())
		case *types.NamedType:
			countTypes(left, t.Type)
		}
	}
}
