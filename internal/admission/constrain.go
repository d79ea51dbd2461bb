package admission

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// constrain adds the constraints of a decision.
func (c *chain) constrain(p *Compiled, d *decision, after map[string]any, step *Step) error {
	if n := len(d.constraints); n > c.e.limits.ConstraintKeys {
		return p.failed(CodeTooLarge, "constraints", "are %d, more than %d", n, c.e.limits.ConstraintKeys)
	}
	var violations []Violation
	for _, at := range sortedKeys(d.constraints) {
		where, err := parsePath(at)
		if err != nil {
			return p.failed(CodeInvalidConstraint, "constraints", "%v", err)
		}
		source, ok := d.constraints[at].(map[string]any)
		if !ok {
			return p.failed(CodeInvalidConstraint, "constraints", "%s: is %s, not a schema", at, kindOf(d.constraints[at]))
		}
		_, settled := source["mode"]
		_, there := where.in(after)
		if source, err = settle(source, where, after); err != nil {
			return p.failed(CodeInvalidConstraint, "constraints", "%s: %v", at, err)
		}
		s, err := c.e.schemaOf(source)
		if err != nil {
			return p.failed(CodeInvalidConstraint, "constraints", "%s%s", at, pointed(err))
		}
		if !settled {
			if reason := s.unmetAlone(c.search); reason != "" {
				return p.failed(CodeInvalidConstraint, "constraints", "%s: nothing meets it: %s", at, reason)
			}
		}
		violations = append(violations, c.constraints.add(where, constraint{p, source, s, settled, settled && !there}, c.search)...)
		if step != nil {
			if step.Constraints == nil {
				step.Constraints = map[string]any{}
			}
			step.Constraints[where.String()] = source
		}
	}
	if len(violations) > 0 {
		return p.conflict(violations)
	}
	if len(d.constraints) > 0 {
		c.input.constraints = nil
	}
	return nil
}

// pointed writes an error with the place in the schema where it was found.
func pointed(err error) string {
	var l *located
	if errors.As(err, &l) {
		return " at " + l.path.pointer() + ": " + err.Error()
	}
	return ": " + err.Error()
}

// settle reads {"mode": "immutable"}, the specification's word: what the path
// holds after the patch is what it holds for good, be it nothing. What the schema
// says beside it holds, too.
func settle(source map[string]any, where path, after map[string]any) (map[string]any, error) {
	mode, ok := source["mode"]
	if !ok {
		return source, nil
	}
	if mode != "immutable" {
		return nil, fmt.Errorf("mode is %s; the only mode is \"immutable\"", brief(mode))
	}
	settled := maps.Clone(source)
	delete(settled, "mode")
	keyword, value := "not", any(map[string]any{})
	if v, has := where.in(after); has {
		keyword, value = "const", v
	}
	if _, said := settled[keyword]; !said {
		settled[keyword] = value
		return settled, nil
	}
	all, listed := settled["allOf"].([]any)
	if _, said := settled["allOf"]; listed || !said { // what else it may be is no schema
		settled["allOf"] = append(slices.Clip(all), map[string]any{keyword: value})
	}
	return settled, nil
}

// schemaOf compiles a schema, or finds it compiled.
func (e *Engine) schemaOf(source map[string]any) (*schema, error) {
	text, err := canonical(source)
	if err != nil {
		return nil, err
	}
	return e.schemas.get(text, func() (*schema, error) { return compileSchema(source, e.limits.Depth) })
}
