package admission

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"
)

const (
	maxGlob           = 16 << 10  // bytes of a pattern of glob.match
	maxGlobExpression = 256 << 10 // bytes of the regular expression it is
	globStepsPerByte  = 8         // to compile it
)

// globs are the patterns of glob.match that were asked for lately, as regular expressions.
// OPA's own matcher goes back to each star again and again, for hours where a pattern has a
// few of them, and nothing interrupts it. And it keeps patterns for the whole process by a
// text that is not theirs alone, "a-" without delimiters and "a" with the delimiter "-"
// having the same: one policy could change the answer of another.
var globs = newCache[expression](expressionBytes)

// replaced are functions that are not OPA's.
var replaced = map[string]topdown.BuiltinFunc{ast.GlobMatch.Name: globMatch}

func globMatch(_ topdown.BuiltinContext, operands []*ast.Term, emit func(*ast.Term) error) error {
	delimiters, err := delimitersOf(operands[1])
	if err != nil {
		return err
	}
	g, _, err := globOf(text(operands[0]), delimiters)
	if err != nil {
		return err
	}
	return emit(ast.InternedTerm(g.MatchString(text(operands[2]))))
}

// delimitersOf are the characters that a single star does not pass: a dot, if the list is
// empty; none for null.
func delimitersOf(t *ast.Term) ([]rune, error) {
	if _, none := t.Value.(ast.Null); none {
		return nil, nil
	}
	delimiters, err := builtins.RuneSliceOperand(t.Value, 2)
	if len(delimiters) == 0 {
		delimiters = []rune{'.'}
	}
	return delimiters, err
}

func boundGlob(operands []*ast.Term) (work int, err error) {
	delimiters, err := delimitersOf(operands[1])
	if err != nil {
		return 0, nil //nolint:nilerr // the function says so itself
	}
	g, work, err := globOf(text(operands[0]), delimiters)
	if err != nil {
		return work, err
	}
	more, err := matchWork(g.instructions, text(operands[2]))
	return work + more, err
}

// globOf compiles a pattern, which is the work, or finds it compiled.
func globOf(pattern string, delimiters []rune) (g expression, work int, err error) {
	if len(pattern) > maxGlob {
		return g, 0, fmt.Errorf("the glob has %d bytes, more than %d", len(pattern), maxGlob)
	}
	key := fmt.Sprintf("%d %s%s", len(pattern), pattern, string(delimiters))
	g, err = globs.get(key, func() (expression, error) {
		work = globStepsPerByte * len(key)
		expr, err := globExpression(pattern, delimiters)
		if err != nil {
			return expression{}, fmt.Errorf("the glob %s: %w", brief(pattern), err)
		}
		n, err := instructions(expr, 4*maxGlob)
		if err != nil {
			return expression{}, fmt.Errorf("the glob %s: %w", brief(pattern), err)
		}
		re, err := regexp.Compile(expr)
		return expression{re, n}, err
	})
	return g, work, err
}

// globExpression is the regular expression that matches what a glob matches.
func globExpression(pattern string, delimiters []rune) (string, error) {
	if !utf8.ValidString(pattern) {
		return "", errors.New("it is not UTF-8 text")
	}
	w := globWriter{rest: []rune(pattern), one: `(?s:.)`}
	if len(delimiters) > 0 {
		w.one = class("^", delimiters)
	}
	w.WriteString(`^(?:`)
	for len(w.rest) > 0 {
		if err := w.term(); err != nil {
			return "", err
		}
		if w.Len() > maxGlobExpression {
			return "", errors.New("it has too many wildcards for so many delimiters")
		}
	}
	if w.open > 0 {
		return "", errors.New("a { is not closed")
	}
	w.WriteString(`)$`)
	return w.String(), nil
}

// class is the expression of one of some characters; not is ^ for any but those.
func class(not string, of []rune) string {
	var b strings.Builder
	b.WriteString("[" + not)
	for _, r := range of {
		fmt.Fprintf(&b, `\x{%x}`, r)
	}
	b.WriteByte(']')
	return b.String()
}

// globWriter writes the expression, term by term.
type globWriter struct {
	strings.Builder
	rest []rune // of the pattern
	one  string // the expression of one character that is no delimiter
	open int    // braces
}

// ahead says whether that character is i places ahead.
func (w *globWriter) ahead(i int, r rune) bool { return i < len(w.rest) && w.rest[i] == r }

func (w *globWriter) literal(r rune) { w.WriteString(regexp.QuoteMeta(string(r))) }

func (w *globWriter) term() error {
	r := w.rest[0]
	w.rest = w.rest[1:]
	switch {
	case r == '\\' && len(w.rest) == 0:
		return errors.New("it ends with a backslash")
	case r == '\\':
		w.literal(w.rest[0])
		w.rest = w.rest[1:]
	case r == '*' && w.ahead(0, '*'):
		w.rest = w.rest[1:]
		w.WriteString(`(?s:.*)`)
	case r == '*':
		w.WriteString(w.one + `*`)
	case r == '?':
		w.WriteString(w.one)
	case r == '{':
		w.open++
		w.WriteString(`(?:`)
	case r == '}' && w.open > 0:
		w.open--
		w.WriteByte(')')
	case r == ',' && w.open > 0:
		w.WriteByte('|')
	case r == '[':
		return w.class()
	default:
		w.literal(r)
	}
	return nil
}

// class writes [a-z] or [abc], each also with ! for any but those.
func (w *globWriter) class() error {
	not := ""
	if w.ahead(0, '!') {
		not, w.rest = "^", w.rest[1:]
	}
	if w.ahead(1, '-') {
		switch {
		case !w.ahead(3, ']'):
			return errors.New("a range is not closed: want [a-z]")
		case w.rest[2] < w.rest[0]:
			return errors.New("a range ends before it begins")
		}
		fmt.Fprintf(w, `[%s\x{%x}-\x{%x}]`, not, w.rest[0], w.rest[2])
		w.rest = w.rest[4:]
		return nil
	}
	var of []rune
	for ; len(w.rest) > 0 && !w.ahead(0, ']'); w.rest = w.rest[1:] {
		if w.rest[0] == '\\' {
			if w.rest = w.rest[1:]; len(w.rest) == 0 {
				break
			}
		}
		of = append(of, w.rest[0])
	}
	switch {
	case len(w.rest) == 0:
		return errors.New("a [ is not closed")
	case len(of) == 0:
		return errors.New("a [] has no characters")
	}
	w.WriteString(class(not, of))
	w.rest = w.rest[1:]
	return nil
}
