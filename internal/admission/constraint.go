package admission

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// constraint is one schema that one policy set on a path.
type constraint struct {
	by     *Compiled
	source map[string]any
	schema *schema
	// settled: the schema fixes what the request has, and asks for nothing else.
	settled bool
	// absent: it holds the path to nothing, since there was nothing when it was set.
	absent bool
}

// held is everything that holds a path: every schema counts, so that what is
// added can only tighten.
type held struct {
	path path
	list []constraint
	// view is one schema that says what the list says, for policies to read;
	// owners tells who set its keywords.
	view   map[string]any
	owners map[string]*Compiled
}

// constraints are the constraints of a chain by pointer, in order of pointer.
type constraints struct {
	keys []string
	of   map[string]*held
}

// all yields what is held, by path.
func (cs *constraints) all(yield func(*held) bool) {
	for _, k := range cs.keys {
		if !yield(cs.of[k]) {
			return
		}
	}
}

// add holds the path to one more schema and says where that contradicts what is
// held already. Nothing is added then.
func (cs *constraints) add(p path, c constraint, by *search) []Violation {
	key := p.pointer()
	h := cs.of[key]
	if h == nil {
		h = &held{path: p, view: map[string]any{}, owners: map[string]*Compiled{}}
	}
	view, clashes := tighten(h.view, c.source)
	clashes = slices.DeleteFunc(clashes, func(clash clash) bool {
		// A policy that is asked late, because a later one made it match, loosens
		// nothing: the later one was stricter, and both hold.
		return isBound(clash.keyword) && inChain(c.by, h.owners[clash.keyword]) < 0
	})
	if len(clashes) > 0 {
		violations := make([]Violation, len(clashes))
		for i, clash := range clashes {
			violations[i] = violationOf(p, h.owners[clash.keyword], clash.reason)
		}
		return violations
	}
	if v, broken := h.contradicted(p, c, by); broken {
		return []Violation{v}
	}
	for k, v := range view {
		if old, had := h.view[k]; !had || !equal(old, v) {
			h.owners[k] = c.by
		}
	}
	h.view = view
	h.list = append(h.list, c)
	if cs.of[key] == nil {
		if cs.of == nil {
			cs.of = map[string]*held{}
		}
		cs.of[key] = h
		at, _ := slices.BinarySearch(cs.keys, key)
		cs.keys = slices.Insert(cs.keys, at, key)
	}
	return nil
}

// contradicted says whether nothing can meet the constraint and those that hold
// the path already, and names the first of those with which it is so.
func (h *held) contradicted(p path, c constraint, by *search) (Violation, bool) {
	if c.settled {
		return Violation{}, false
	}
	together := []*schema{c.schema}
	for _, other := range h.list {
		if other.settled {
			continue
		}
		if reason := by.unmet(other.schema, c.schema); reason != "" {
			return violationOf(p, other.by, "nothing meets this constraint and the new one: "+reason), true
		}
		together = append(together, other.schema)
	}
	if len(together) > 2 {
		if reason := by.unmet(together...); reason != "" {
			return violationOf(p, h.list[0].by, "nothing meets all constraints: "+reason), true
		}
	}
	return Violation{}, false
}

// clone is a copy to try something on.
func (cs *constraints) clone() constraints {
	of := make(map[string]*held, len(cs.of))
	for k, h := range cs.of {
		of[k] = &held{path: h.path, list: slices.Clip(h.list), view: h.view, owners: maps.Clone(h.owners)}
	}
	return constraints{slices.Clone(cs.keys), of}
}

// views is what policies are shown: a schema for each path.
func (cs *constraints) views() map[string]any {
	views := make(map[string]any, len(cs.of))
	for h := range cs.all {
		views[h.path.String()] = h.view
	}
	return views
}

func violationOf(p path, by *Compiled, reason string) Violation {
	v := Violation{Path: p.String(), Pointer: p.pointer(), Reason: reason}
	if v.Path == "" {
		v.Path = "/"
	}
	if by != nil {
		v.PolicyID, v.PolicyName = by.policy.ID, by.policy.Name
	}
	return v
}

// broken are the constraints on the path that the value breaks, but for those that
// another value broke in the same way, if one is given: what was wrong with it still is.
func (h *held) broken(v any, size int, was ...any) ([]Violation, error) {
	var violations []Violation
	for _, c := range h.list {
		found, err := c.schema.broken(v, size)
		for i := 0; i < len(was) && err == nil && !found.none() && found.few(); i++ {
			var before faults
			if before, err = c.schema.broken(was[i], size); before.few() && found.within(v, before, was[i]) {
				found = faults{}
			}
		}
		if err != nil {
			return nil, &PolicyError{
				PolicyID: c.by.policy.ID, PolicyName: c.by.policy.Name,
				Code: CodeInvalidConstraint, Field: "constraints", Message: h.path.String() + ": " + err.Error(),
			}
		}
		if !found.none() {
			violations = append(violations, violationOf(h.path, c.by, found.reasons()))
		}
	}
	return violations, nil
}

// afterPatch are the constraints that a patch broke: it set the value at a
// constrained path, above it or below it, to what is not allowed, or took it
// away. What was not allowed before and was left as it was, is not the patch's
// doing: a later one may mend it, and at the end everything is checked again.
func (cs *constraints) afterPatch(before, after, patch map[string]any, size int) ([]Violation, error) {
	var violations []Violation
	for h := range cs.all {
		now, has := h.path.in(after)
		old, had := h.path.in(before)
		if !has {
			// What a patch takes away need not be named by it: an object in place of a list
			// leaves none of its elements.
			if had {
				violations = append(violations, h.takenAway()...)
			}
			continue
		}
		if !h.path.touchedBy(patch) {
			continue
		}
		var was []any
		if had {
			was = []any{old}
		}
		broken, err := h.broken(now, size, was...)
		if err != nil {
			return nil, err
		}
		violations = append(violations, broken...)
	}
	return violations, nil
}

// takenAway says whose constraint a patch breaks that takes the value away: that of any
// policy but the one that takes it away for good.
func (h *held) takenAway() []Violation {
	for _, c := range h.list {
		if !c.absent {
			return []Violation{violationOf(h.path, c.by, "the patch takes the value away")}
		}
	}
	return nil
}

// clash is a keyword that a newer schema loosens or contradicts.
type clash struct{ keyword, reason string }

// tighten merges a schema into the view of those before it, keyword by keyword
// where a keyword stands for itself, and as one more of allOf otherwise.
func tighten(view, added map[string]any) (map[string]any, []clash) {
	merged := maps.Clone(view)
	rest := map[string]any{}
	var clashes []clash
	for _, keyword := range sortedKeys(added) {
		old, had := view[keyword]
		rule := rules[keyword]
		switch {
		case had && rule != nil:
			v, err := rule(old, added[keyword])
			switch {
			case errors.Is(err, errBoth):
				rest[keyword] = added[keyword]
			case err != nil:
				clashes = append(clashes, clash{keyword, fmt.Sprintf("%s %v", keyword, err)})
			default:
				merged[keyword] = v
			}
		case had && equal(old, added[keyword]):
		case !had && rule != nil, len(view) == 0:
			merged[keyword] = added[keyword]
		default:
			rest[keyword] = added[keyword]
		}
	}
	if view["unevaluatedProperties"] != nil || view["unevaluatedItems"] != nil {
		// They look into every schema beside them: keep the two apart.
		return map[string]any{"allOf": []any{view, added}}, clashes
	}
	if len(rest) > 0 {
		// What belongs together (if and then, properties and
		// additionalProperties) must stay together.
		if !standAlone(rest) {
			rest = added
		}
		all, _ := merged["allOf"].([]any)
		merged["allOf"] = append(slices.Clip(all), rest)
	}
	return merged, clashes
}

// standAlone says whether every keyword means the same in any company.
func standAlone(s map[string]any) bool {
	for k := range s {
		if rules[k] == nil && k != "type" && k != "format" {
			return false
		}
	}
	return true
}

// errBoth means that two values of a keyword hold side by side.
var errBoth = errors.New("both hold")

// rules merge two values of a keyword, the one in force and a newer one, or say
// why the newer one may not be.
var rules = map[string]func(old, now any) (any, error){
	"const": func(old, now any) (any, error) {
		if !equal(old, now) {
			return nil, fmt.Errorf("is fixed to %s and cannot become %s", brief(old), brief(now))
		}
		return old, nil
	},
	"enum":       intersect,
	"multipleOf": divide,
	"pattern": func(old, now any) (any, error) {
		if old == now {
			return old, nil
		}
		return nil, errBoth
	},
	"minimum": raise, "exclusiveMinimum": raise, "minLength": raise, "minItems": raise, "minProperties": raise,
	"maximum": lower, "exclusiveMaximum": lower, "maxLength": lower, "maxItems": lower, "maxProperties": lower,
}

// isBound says whether two values of a keyword can hold side by side.
func isBound(keyword string) bool {
	switch keyword {
	case "const", "enum":
		return false
	}
	return rules[keyword] != nil
}

func intersect(old, now any) (any, error) {
	have, _ := old.([]any)
	want, _ := now.([]any)
	var both []any
	for _, v := range have {
		if slices.ContainsFunc(want, func(w any) bool { return equal(v, w) }) {
			both = append(both, v)
		}
	}
	if len(both) == 0 {
		return nil, fmt.Errorf("allows %s, and none of that is in %s", brief(old), brief(now))
	}
	return both, nil
}

func raise(old, now any) (any, error) { return bound(old, now, 1) }
func lower(old, now any) (any, error) { return bound(old, now, -1) }

// bound lets a limit move in one direction.
func bound(old, now any, direction int) (any, error) {
	a, ok := rational(old)
	b, also := rational(now)
	if !ok || !also || b.Cmp(a)*direction < 0 {
		return nil, fmt.Errorf("is %s and cannot be loosened to %s", brief(old), brief(now))
	}
	return now, nil
}

func divide(old, now any) (any, error) {
	a, ok := rational(old)
	b, also := rational(now)
	if !ok || !also || a.Sign() == 0 || !b.Quo(b, a).IsInt() {
		return nil, fmt.Errorf("is %s, and %s is no multiple of it", brief(old), brief(now))
	}
	return now, nil
}

// brief is a value as JSON, cut where it gets long.
func brief(v any) string {
	text, _ := canonical(v)
	return shortened(text, 80)
}
