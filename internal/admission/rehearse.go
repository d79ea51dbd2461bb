package admission

import (
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// finders are the functions that find every match of a regular expression. Each match may
// take the whole text, as those of "a*b|a" in a text of many a: all take as many times
// longer. The function cannot be interrupted, so that its matches are found before, one
// after the other, and it runs only if there was time for that.
var finders = map[string]finder{
	"regex.find_n":                     {pattern: 0, subject: 1, limit: 2},
	"regex.find_all_string_submatch_n": {pattern: 0, subject: 1, limit: 2},
	"regex.split":                      {pattern: 0, subject: 1, limit: -1},
	"regex.replace":                    {pattern: 1, subject: 0, limit: -1},
}

// finder says which operands are which. One without a limit finds all.
type finder struct{ pattern, subject, limit int }

// halt is what a rehearsal panics with to stop finding matches.
type halt struct{ err error }

// stepTime is about what a step of the evaluator takes.
const stepTime = 300 * time.Nanosecond

// rehearse finds what the function would find. The error says why it must not run.
func (f finder) rehearse(cancel topdown.Cancel, operands []*ast.Term) (err error) {
	expr := text(operands[f.pattern])
	re, _, invalid := expressionOf(expr) // which its bound has compiled
	if invalid != nil {
		return nil // the function says so itself
	}
	most := f.most(operands)
	if most == 0 {
		return nil
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case halt:
			err = r.err
		default:
			panic(r)
		}
	}()
	found, last := 0, time.Now()
	re.ReplaceAllStringFunc(text(operands[f.subject]), func(string) string {
		now := time.Now()
		if w, ok := cancel.(worker); ok {
			w.worked(int(now.Sub(last) / stepTime))
		}
		last = now
		found++
		if cancel != nil && cancel.Cancelled() {
			panic(halt{&topdown.Error{Code: topdown.CancelErr, Message: "there was no time for all matches"}})
		}
		if err := listed(found); err != nil || found == most {
			panic(halt{err})
		}
		return ""
	})
	return nil
}

// most is how many matches are asked for; below 0: all.
func (f finder) most(operands []*ast.Term) int {
	if f.limit < 0 {
		return -1
	}
	n, ok := operands[f.limit].Value.(ast.Number)
	if !ok {
		return 0 // the function says so itself
	}
	most, ok := n.Int()
	if !ok {
		return 0
	}
	return most
}
