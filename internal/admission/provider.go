package admission

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// providerField is the path under which violations name the provider.
const providerField = "service_provider"

// restriction is what one policy demands of the provider.
type restriction struct {
	by       *Compiled
	allow    []string
	patterns []*regexp.Regexp
}

// provider is the provider of a chain and everything that restricts it.
type provider struct {
	value string
	by    *Compiled // who chose
	list  []restriction
	// allow is what all allow lists have in common, nil without any.
	allow []string
}

// restrict adds what a policy demands, and says so when nothing is left to
// choose from.
func (p *provider) restrict(r restriction) []Violation {
	if r.allow != nil {
		left := r.allow
		if p.allow != nil {
			left = nil
			for _, name := range p.allow {
				if slices.Contains(r.allow, name) {
					left = append(left, name)
				}
			}
		}
		if len(left) == 0 {
			return []Violation{aboutProvider(p.narrowed(), fmt.Sprintf(
				"allow_list is %s, and nothing of it is in %s", brief(p.allow), brief(r.allow)))}
		}
		p.allow = left
	}
	if v := p.contradicted(r); v != nil {
		return v
	}
	if r.allow != nil || len(r.patterns) > 0 {
		p.list = append(p.list, r)
	}
	return nil
}

// contradicted says that no provider is left by the allow lists and all patterns,
// those of r among them.
func (p *provider) contradicted(r restriction) []Violation {
	patterns := slices.Clone(r.patterns)
	by := r.by
	for _, before := range p.list {
		patterns = append(patterns, before.patterns...)
		if by == r.by && unmetProvider(p.allow, append(slices.Clone(r.patterns), before.patterns...)) != "" {
			by = before.by
		}
	}
	if reason := unmetProvider(p.allow, patterns); reason != "" {
		if holder := p.narrowed(); holder != nil && r.allow == nil {
			by = holder
		}
		return []Violation{aboutProvider(by, reason)}
	}
	return nil
}

// narrowed is who had the last word on the allow list.
func (p *provider) narrowed() *Compiled {
	for _, r := range slices.Backward(p.list) {
		if r.allow != nil {
			return r.by
		}
	}
	return nil
}

// broken are the restrictions that a provider does not meet. No provider meets
// all.
func (p *provider) broken(value string) []Violation {
	if value == "" {
		return nil
	}
	var violations []Violation
	for _, r := range p.list {
		if r.allow != nil && !slices.Contains(r.allow, value) {
			violations = append(violations, aboutProvider(r.by, fmt.Sprintf("%q is not in the allow_list %s", value, brief(r.allow))))
		}
		for _, re := range r.patterns {
			if !re.MatchString(value) {
				violations = append(violations, aboutProvider(r.by, fmt.Sprintf("%q does not match the pattern %q", value, re)))
			}
		}
	}
	return violations
}

// state is the provider as policies and callers see it.
func (p *provider) state() ServiceProvider {
	s := ServiceProvider{Value: p.value}
	s.Constraints.AllowList = slices.Clone(p.allow)
	for _, r := range p.list {
		for _, re := range r.patterns {
			if !slices.Contains(s.Constraints.Patterns, re.String()) {
				s.Constraints.Patterns = append(s.Constraints.Patterns, re.String())
			}
		}
	}
	return s
}

// compilePatterns compiles what a decision asks for.
func (e *Engine) compilePatterns(exprs []string) ([]*regexp.Regexp, error) {
	var list []*regexp.Regexp
	for i, expr := range exprs {
		re, err := e.patterns.get(expr, func() (expression, error) { return compileExpression(expr) })
		if err != nil {
			return nil, fmt.Errorf("patterns[%d]: %s", i, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
		list = append(list, re.Regexp)
	}
	return list, nil
}

// aboutProvider is a violation that is at no place of the payload.
func aboutProvider(by *Compiled, reason string) Violation {
	v := violationOf(nil, by, reason)
	v.Path = providerField
	return v
}
