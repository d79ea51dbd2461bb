package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of one side of a selector.
const (
	MaxSelectorText   = 8 << 10 // bytes
	MaxClauses        = 64
	MaxSelectorValues = 256 // values of one "in" set
)

// SyntaxError is one fault of a selector's text; Position is a byte offset.
type SyntaxError struct {
	Position int
	Message  string
}

// Error says where and what.
func (e SyntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.Position, e.Message) }

// ParseExpr reads one side of a selector: clauses joined by commas, all of
// which must hold.
//
//	key=value  key!=value  key in (a,b)  key  !key
//
// Spaces may stand around every token. On failure e is nil and errs holds every
// fault found, one a clause. The expression shares memory with s.
func ParseExpr(s string) (e Expr, errs []SyntaxError) {
	if len(s) > MaxSelectorText {
		return nil, []SyntaxError{{MaxSelectorText, fmt.Sprintf("%d bytes; at most %d", len(s), MaxSelectorText)}}
	}
	p := parser{text: s}
	most := min(1+strings.Count(s, ","), MaxClauses)
	e, p.singles = make(Expr, 0, most), make([]string, 0, most)
	if p.space(); p.at == len(s) {
		return nil, []SyntaxError{{0, "empty; write at least one clause, such as role=web"}}
	}
	for {
		start := p.at
		c, fault := p.clause()
		if fault != nil {
			errs = append(errs, *fault)
			p.recover()
		}
		if len(e) == MaxClauses {
			errs = append(errs, SyntaxError{start, fmt.Sprintf("more than %d clauses", MaxClauses)})
			break
		}
		e = append(e, c)
		if p.at == len(s) {
			break
		}
		p.at++ // the comma
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return e, nil
}

type parser struct {
	text    string
	at      int
	singles []string // values of = and !=, one after the other
}

func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) fault(at int, format string, args ...any) *SyntaxError {
	return &SyntaxError{at, fmt.Sprintf(format, args...)}
}

// recover moves to the comma that ends a broken clause: the next one outside
// parentheses.
func (p *parser) recover() {
	for depth := 0; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1)
		case ',':
			if depth == 0 {
				return
			}
		}
	}
}

// word takes the bytes up to a separator.
func (p *parser) word() (s string, at int) {
	at = p.at
	for p.at < len(p.text) && strings.IndexByte("=!,() \t\r\n", p.text[p.at]) < 0 {
		p.at++
	}
	return p.text[at:p.at], at
}

// take consumes token if it comes next.
func (p *parser) take(token string) bool {
	if !strings.HasPrefix(p.text[p.at:], token) {
		return false
	}
	p.at += len(token)
	return true
}

// clause reads one clause and stops at its comma or at the end of the text. On
// a fault it stops at the start of the clause, for recover.
func (p *parser) clause() (c Clause, fault *SyntaxError) {
	p.space()
	start := p.at
	defer func() {
		if fault != nil {
			p.at = start
		}
	}()
	if p.take("!") {
		c.Op = Absent
		p.space()
		if c.Key, fault = p.key(); fault != nil {
			return c, fault
		}
		return c, p.done()
	}
	if c.Key, fault = p.key(); fault != nil {
		return c, fault
	}
	p.space()
	if p.at == len(p.text) || p.text[p.at] == ',' {
		c.Op = Exists
		return c, nil
	}
	if c.Op, fault = p.operator(); fault != nil {
		return c, fault
	}
	if c.Op == In {
		c.Values, fault = p.set()
	} else {
		c.Values, fault = p.single()
	}
	if fault != nil {
		return c, fault
	}
	return c, p.done()
}

func (p *parser) key() (string, *SyntaxError) {
	key, at := p.word()
	if key == "" {
		if p.at == len(p.text) || p.text[p.at] == ',' {
			return "", p.fault(at, "a clause is missing; write a label key, or remove the comma")
		}
		return "", p.fault(at, "want a label key, found %q", p.text[at])
	}
	if i, why := labelKeyFault(key); why != "" {
		return "", p.fault(at+i, "%s", why)
	}
	return key, nil
}

func (p *parser) operator() (Op, *SyntaxError) {
	at := p.at
	switch {
	case p.take("!="):
		return NotEqual, nil
	case p.take("=="):
		return 0, p.fault(at, "there is no '=='; write key=value")
	case p.take("="):
		return Equal, nil
	}
	switch word, _ := p.word(); word {
	case "in":
		return In, nil
	case "notin":
		return 0, p.fault(at, "there is no 'notin'; write key!=a,key!=b")
	case "":
		return 0, p.fault(at, "want '=', '!=', 'in' or ',', found %q", p.text[at])
	default:
		return 0, p.fault(at, "want '=', '!=', 'in' or ',', found %q", word)
	}
}

// single reads the value of = and !=, which may be empty.
func (p *parser) single() ([]string, *SyntaxError) {
	p.space()
	value, at := p.word()
	if i, why := labelValueFault(value); why != "" {
		return nil, p.fault(at+i, "%s", why)
	}
	p.singles = append(p.singles, value)
	n := len(p.singles)
	return p.singles[n-1 : n : n], nil
}

// set reads "(a, b)": one value or more.
func (p *parser) set() ([]string, *SyntaxError) {
	p.space()
	open := p.at
	if !p.take("(") {
		return nil, p.fault(open, "want '(' and a list of values after 'in'")
	}
	var values []string
	for {
		p.space()
		value, at := p.word()
		if value == "" {
			return nil, p.fault(at, "want a value of the set")
		}
		if i, why := labelValueFault(value); why != "" {
			return nil, p.fault(at+i, "%s", why)
		}
		if values = append(values, value); len(values) > MaxSelectorValues {
			return nil, p.fault(at, "more than %d values in one set", MaxSelectorValues)
		}
		p.space()
		if p.take(")") {
			slices.Sort(values)
			return slices.Compact(values), nil
		}
		if !p.take(",") {
			return nil, p.fault(p.at, "want ',' or ')' in the set that opens at byte %d", open)
		}
	}
}

// done checks that nothing but the clause's comma follows.
func (p *parser) done() *SyntaxError {
	p.space()
	if p.at == len(p.text) || p.text[p.at] == ',' {
		return nil
	}
	return p.fault(p.at, "want ',' between clauses, found %q", p.text[p.at])
}
