package admission

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// search is what may be spent on finding constraints that exclude each other, in steps
// as maxSteps counts them. All of one request share one, and so do all of one policy
// that is written, because nothing interrupts them. What it does not pay for any more
// counts as met: the value that comes is held against every constraint all the same.
type search struct{ left int }

func newSearch() *search { return &search{500_000} } // some 10 ms

func (s *search) pays(steps int) bool {
	s.left -= steps
	return s.left >= 0
}

// unmetAlone says why nothing is of the schema; empty when something may be.
func (s *schema) unmetAlone(by *search) string {
	if known := s.unmet.Load(); known != nil {
		return *known
	}
	reason := by.unmet(s)
	if by.left >= 0 {
		s.unmet.Store(&reason)
	}
	return reason
}

// unmet says why no value meets all the schemas, as far as that can be seen from
// constants, lists, types and bounds; empty when one may. A schema without a type
// that bounds numbers is taken to want a number.
func (b *search) unmet(list ...*schema) string {
	cost := 0
	for _, s := range list {
		cost += s.cost
	}
	if !b.pays(cost) {
		return ""
	}
	var all []map[string]any
	for _, s := range list {
		all = flatten(all, s.asked)
	}
	if reason, decided := b.unmetByList(all, list, cost); decided {
		return reason
	}
	kinds, typed := kindsOf(all)
	if len(kinds) == 0 {
		return "their types have nothing in common"
	}
	var why string
	without := func(reason string, gone ...string) {
		if reason != "" && slices.Contains(kinds, gone[0]) {
			why = cmp.Or(why, reason)
			kinds = slices.DeleteFunc(kinds, func(k string) bool { return slices.Contains(gone, k) })
		}
	}
	without(unmetNumber(all, slices.Contains(kinds, "fraction")), "integer", "fraction")
	without(unmetLength(all, "minLength", "maxLength"), "string")
	without(unmetLength(all, "minItems", "maxItems"), "array")
	without(unmetLength(all, "minProperties", "maxProperties"), "object")
	if !typed {
		return why
	}
	if len(kinds) == 0 {
		return why
	}
	return ""
}

// flatten adds a schema and those of its allOf, which hold as well.
func flatten(all []map[string]any, s map[string]any) []map[string]any {
	all = append(all, s)
	inner, _ := s["allOf"].([]any)
	for _, v := range inner {
		if m, ok := v.(map[string]any); ok {
			all = flatten(all, m)
		}
	}
	return all
}

// unmetByList tries the values that a constant or a list leaves; decided is false
// when there is neither.
func (b *search) unmetByList(all []map[string]any, list []*schema, cost int) (reason string, decided bool) {
	var left []any
	for _, s := range all {
		if v, ok := s["const"]; ok {
			left, decided = []any{v}, true
			break
		}
		if v, ok := s["enum"].([]any); ok && !decided {
			left, decided = v, true
		}
	}
	for _, v := range left {
		text, _ := canonical(v)
		if !b.pays(cost * max(1, len(text))) {
			return "", true
		}
		if !slices.ContainsFunc(list, func(s *schema) bool { return s.Validate(v) != nil }) {
			return "", true
		}
	}
	return "none of " + brief(left) + " meets all", decided
}

var allKinds = []string{"null", "boolean", "string", "array", "object", "integer", "fraction"}

// kindsOf are the kinds of values that all types leave, and whether there are types.
func kindsOf(all []map[string]any) (kinds []string, typed bool) {
	kinds = slices.Clone(allKinds)
	for _, s := range all {
		names, many := s["type"].([]any)
		if name, ok := s["type"].(string); ok {
			names, many = []any{name}, true
		}
		if typed = typed || many; !many {
			continue
		}
		kinds = slices.DeleteFunc(kinds, func(kind string) bool {
			return !slices.Contains(names, any(kind)) && (kind != "integer" && kind != "fraction" || !slices.Contains(names, any("number")))
		})
	}
	return kinds, typed
}

// limit is a bound of numbers; nil: there is none.
type limit struct {
	at       *big.Rat
	excluded bool
}

// tighten takes a bound over when it lies further in the direction.
func (l *limit) tighten(v any, excluded bool, direction int) {
	n, ok := rational(v)
	if !ok {
		return
	}
	if l.at == nil || n.Cmp(l.at)*direction > 0 || n.Cmp(l.at) == 0 && excluded {
		l.at, l.excluded = n, excluded
	}
}

// unmetLength says why no length is between two keywords.
func unmetLength(all []map[string]any, low, high string) string {
	var from, to limit
	for _, s := range all {
		from.tighten(s[low], false, 1)
		to.tighten(s[high], false, -1)
	}
	if from.at != nil && to.at != nil && from.at.Cmp(to.at) > 0 {
		return fmt.Sprintf("%s %s is above %s %s", low, from.at.RatString(), high, to.at.RatString())
	}
	return ""
}

// unmetNumber says why no number, or no whole one, is between the bounds.
func unmetNumber(all []map[string]any, fractions bool) string {
	var from, to limit
	var steps []*big.Rat
	for _, s := range all {
		from.tighten(s["minimum"], false, 1)
		from.tighten(s["exclusiveMinimum"], true, 1)
		to.tighten(s["maximum"], false, -1)
		to.tighten(s["exclusiveMaximum"], true, -1)
		if step, ok := rational(s["multipleOf"]); ok && step.Sign() > 0 {
			steps = append(steps, step)
		}
	}
	if from.at == nil || to.at == nil {
		return ""
	}
	if c := from.at.Cmp(to.at); c > 0 || c == 0 && (from.excluded || to.excluded) {
		return fmt.Sprintf("no number is above %s and below %s", from.at.RatString(), to.at.RatString())
	}
	if !fractions {
		steps = append(steps, big.NewRat(1, 1))
	}
	for _, step := range steps {
		if !from.reaches(to, step) {
			return fmt.Sprintf("no multiple of %s is between %s and %s", step.RatString(), from.at.RatString(), to.at.RatString())
		}
	}
	return ""
}

// reaches says whether a multiple of step is between the bounds.
func (l limit) reaches(to limit, step *big.Rat) bool {
	q := new(big.Rat).Quo(l.at, step)
	k := new(big.Int).Div(q.Num(), q.Denom()) // rounded down
	if !q.IsInt() || l.excluded {
		k.Add(k, big.NewInt(1))
	}
	first := new(big.Rat).Mul(new(big.Rat).SetInt(k), step)
	c := first.Cmp(to.at)
	return c < 0 || c == 0 && !to.excluded
}

// unmetProvider says why no provider of an allow list is left by the patterns.
func unmetProvider(allow []string, patterns []*regexp.Regexp) string {
	if allow == nil || slices.ContainsFunc(allow, func(name string) bool {
		return !slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return !re.MatchString(name) })
	}) {
		return ""
	}
	return fmt.Sprintf("no provider of the allow_list %s matches all patterns", brief(allow))
}

// Unmeetable are the constraints in the code that nothing can meet, as far as they
// are written out and not computed; nil: there are none. Whoever registers the
// policy is to know; one that is in force fails when it sets them.
func (c *Compiled) Unmeetable() *CompileError {
	j := c.code.judged.Load()
	if j == nil || len(j.unmeetable) == 0 {
		return nil
	}
	return &CompileError{j.unmeetable}
}

// unmeetable looks through the decisions that a module writes out.
func unmeetable(module *ast.Module, d *dialect) (faults []Fault) {
	by := newSearch()
	for _, rule := range module.Rules {
		for r := rule; r != nil; r = r.Else {
			ref := r.Head.Ref()
			if name, ok := ref[0].Value.(ast.Var); !ok || string(name) != d.entry || r.Head.Value == nil || len(ref) != 1 {
				continue
			}
			decision, ok := r.Head.Value.Value.(ast.Object)
			if !ok {
				continue
			}
			for _, reason := range d.unmeetable(decision, by) {
				faults = append(faults, faultAt(CodeInvalidConstraint, r.Location, "%s", reason))
			}
		}
	}
	return faults
}

func (d *dialect) unmeetable(decision ast.Object, by *search) (reasons []string) {
	if constraints, ok := member[ast.Object](decision, "constraints"); ok {
		constraints.Foreach(func(at, source *ast.Term) {
			schema, _ := ast.JSON(source.Value)
			object, ok := schema.(map[string]any)
			if !ok || object["mode"] != nil {
				return
			}
			s, err := compileSchema(object, 64)
			if err != nil {
				return
			}
			if reason := s.unmetAlone(by); reason != "" {
				reasons = append(reasons, fmt.Sprintf("%s: nothing meets the constraint: %s", text(at), reason))
			}
		})
	}
	restricted, ok := member[ast.Object](decision, d.restriction)
	if d.nested {
		provider, _ := member[ast.Object](decision, d.provider)
		restricted, ok = member[ast.Object](provider, "constraints")
	}
	if !ok {
		return reasons
	}
	allow, patterns := written(restricted, "allow_list"), []*regexp.Regexp{}
	for _, expr := range written(restricted, "patterns") {
		if re, err := regexp.Compile(expr); err == nil {
			patterns = append(patterns, re)
		}
	}
	if reason := unmetProvider(allow, patterns); reason != "" && len(allow) > 0 {
		reasons = append(reasons, reason)
	}
	return reasons
}

// member is a member of an object, if it is there and of the type.
func member[T ast.Value](o ast.Object, name string) (v T, ok bool) {
	if o == nil {
		return v, false
	}
	if t := o.Get(ast.StringTerm(name)); t != nil {
		v, ok = t.Value.(T)
	}
	return v, ok
}

// written is a list of texts that is written out.
func written(o ast.Object, name string) (list []string) {
	if array, ok := member[*ast.Array](o, name); ok {
		array.Foreach(func(t *ast.Term) {
			if s, ok := t.Value.(ast.String); ok {
				list = append(list, string(s))
			} else {
				list = nil
			}
		})
	}
	return list
}
