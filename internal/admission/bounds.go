package admission

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// bounds are those of single functions.
var bounds = map[string]guard{
	"concat":                           boundConcat,
	"sprintf":                          boundSprintf,
	"replace":                          boundReplace,
	"strings.replace_n":                boundReplaceN,
	"indexof":                          boundSearch,
	"indexof_n":                        boundSearchAll,
	"trim":                             boundSearch,
	"trim_left":                        boundSearch,
	"trim_right":                       boundSearch,
	"split":                            boundSplit,
	"strings.split_n":                  boundSplitN,
	"strings.any_prefix_match":         boundTexts,
	"strings.any_suffix_match":         boundTexts,
	"time.format":                      boundLayout,
	"regex.replace":                    boundRegexReplace,
	"regex.match":                      boundRegex(0, 1),
	"regex.is_valid":                   boundRegex(0, 0),
	"regex.split":                      boundRegex(0, 1),
	"regex.find_n":                     boundRegex(0, 1),
	"regex.find_all_string_submatch_n": boundRegex(0, 1),
	"regex.template_match":             boundTemplate,
	"glob.match":                       boundGlob,
	"numbers.range":                    boundRange,
	"numbers.range_step":               boundRange,
	"net.cidr_expand":                  boundNetwork,
	"net.cidr_contains_matches":        boundNetworks,
	"net.cidr_merge":                   boundMerge,
	"product":                          boundFactors,
	"sum":                              boundSum,
	"json.unmarshal":                   boundNumbers,
	"yaml.unmarshal":                   boundYAML,
	"yaml.is_valid":                    boundYAML,
	"to_number":                        boundNumbers,
	"units.parse":                      boundNumbers,
	"units.parse_bytes":                boundNumbers,
	"json.marshal":                     boundTexts,
	"json.marshal_with_options":        boundMarshal,
	"yaml.marshal":                     boundTexts,
	"json.patch":                       boundPairs,
	"json.filter":                      boundWalk,
	"json.remove":                      boundWalk,
	"object.union":                     boundWalk,
	"object.union_n":                   boundWalk,
	"object.subset":                    boundSubset,
	"object.filter":                    boundWalk,
	"object.remove":                    boundWalk,
	"urlquery.encode_object":           boundTexts,
	"walk":                             boundFirst,
	"sort":                             boundWalk,
	"equal":                            boundWalk,
	"neq":                              boundWalk,
	"lt":                               boundWalk,
	"lte":                              boundWalk,
	"gt":                               boundWalk,
	"gte":                              boundWalk,
	"internal.template_string":         boundTexts,
	"internal.print":                   boundTexts,
	"internal.member_2":                boundWalk,
	"internal.member_3":                boundWalk,
	"array.flatten":                    boundWalk,
	"array.concat":                     boundElements,
	"array.reverse":                    boundElements,
	"array.slice":                      boundElements,
	"minus":                            boundWalk, // of sets too
	"and":                              boundWalk,
	"or":                               boundWalk,
	"intersection":                     boundWalk,
	"union":                            boundWalk,
	"max":                              boundWalk,
	"min":                              boundWalk,
	"graph.reachable":                  boundWalk,
}

func text(t *ast.Term) string {
	s, _ := t.Value.(ast.String)
	return string(s)
}

// elements calls f for each element of an array or a set.
func elements(t *ast.Term, f func(*ast.Term)) {
	switch v := t.Value.(type) {
	case *ast.Array:
		v.Foreach(f)
	case ast.Set:
		v.Foreach(f)
	}
}

func atMost(n int) (work int, err error) {
	if n > maxText {
		return 0, errText
	}
	return n / textPerStep, nil
}

func boundConcat(operands []*ast.Term) (work int, err error) {
	n := 0
	elements(operands[1], func(t *ast.Term) { n += len(text(t)) + len(text(operands[0])) })
	return atMost(n)
}

// boundSprintf adds up what a format may print: each number in it may be a
// width, and each verb may print the longest argument again.
func boundSprintf(operands []*ast.Term) (work int, err error) {
	if work, err = boundWalk(operands); err != nil {
		return work, err
	}
	format := text(operands[0])
	longest := 0
	elements(operands[1], func(t *ast.Term) {
		n := len(text(t))
		if n == 0 {
			n = t.StringLength()
		}
		if i, ok := t.Value.(ast.Number); ok && strings.Contains(format, "*") {
			width, _ := strconv.Atoi(string(i))
			n = max(n, width, -width)
		}
		longest = max(longest, n)
	})
	n := len(format) + strings.Count(format, "%")*longest
	for i := 0; i < len(format); i++ {
		digits := 0
		for ; i < len(format) && '0' <= format[i] && format[i] <= '9'; i++ {
			digits = min(10*digits+int(format[i]-'0'), maxText+1)
		}
		n += digits
	}
	more, err := atMost(n)
	return work + more, err
}

func boundReplace(operands []*ast.Term) (work int, err error) {
	s, old, now := text(operands[0]), text(operands[1]), text(operands[2])
	if work, err = replacing(s, len(old)); err != nil {
		return work, err
	}
	more, err := atMost(len(s) + strings.Count(s, old)*max(len(now)-len(old), 0))
	return work + more, err
}

func boundReplaceN(operands []*ast.Term) (work int, err error) {
	patterns, ok := operands[0].Value.(ast.Object)
	if !ok {
		return 0, nil
	}
	s := text(operands[1])
	sought, longest := 0, 0
	patterns.Foreach(func(old, now *ast.Term) { sought, longest = max(sought, len(text(old))), max(longest, len(text(now))) })
	if work, err = replacing(s, max(sought, patterns.Len())); err != nil {
		return work, err
	}
	n := 0
	patterns.Foreach(func(old, _ *ast.Term) { n += strings.Count(s, text(old)) })
	more, err := atMost(len(s) + n*longest)
	return work + more, err
}

func boundRegexReplace(operands []*ast.Term) (work int, err error) {
	if work, err = boundRegex(1, 0)(operands); err != nil {
		return work, err
	}
	s, now := text(operands[0]), text(operands[2])
	more, err := atMost((len(s)+1)*len(now) + strings.Count(now, "$")*len(s))
	return work + more, err
}

// boundRegex bounds matching the pattern among the operands against the text
// among them.
func boundRegex(pattern, subject int) guard {
	return func(operands []*ast.Term) (work int, err error) {
		expr, work, err := expressionOf(text(operands[pattern]))
		var invalid *syntax.Error
		switch {
		case errors.As(err, &invalid):
			return 0, nil // the function says so itself
		case err != nil:
			return work, err
		}
		more, err := matchWork(expr.instructions, text(operands[subject]))
		return work + more, err
	}
}

// matchWork bounds holding so many instructions of a pattern against a text.
func matchWork(instructions int, subject string) (work int, err error) {
	if instructions*len(subject) > maxMatching {
		return 0, errors.New("matching this pattern against so long a text")
	}
	return instructions * len(subject) / matchingPerStep, nil
}

// boundTemplate is boundRegex of a text with regular expressions between delimiters. What
// stands around them counts as it is.
func boundTemplate(operands []*ast.Term) (work int, err error) {
	template, begin, end := text(operands[0]), text(operands[2]), text(operands[3])
	if len(template) > maxPattern {
		return 0, longPattern(template)
	}
	if len(begin) != 1 || len(end) != 1 {
		return 0, nil // the function says so itself
	}
	sum, level, from := len(template), 0, 0
	for i := range len(template) {
		switch template[i] {
		case begin[0]: // where both are the same, nothing ends
			if level++; level == 1 {
				from = i + 1
			}
		case end[0]:
			if level--; level != 0 {
				continue
			}
			n, err := patternCost("^" + template[from:i] + "$")
			var invalid *syntax.Error
			switch {
			case errors.As(err, &invalid):
				return 0, nil // the function says so itself
			case err != nil:
				return 0, err
			}
			sum += n
		}
	}
	if sum > maxInstructions {
		return 0, errInstructions
	}
	work, err = matchWork(sum, text(operands[1]))
	return work + compilings*sum, err
}

func boundRange(operands []*ast.Term) (work int, err error) {
	from, ok := operands[0].Value.(ast.Number)
	to, also := operands[1].Value.(ast.Number)
	if !ok || !also {
		return 0, nil
	}
	a, fits := from.Int64()
	b, fit := to.Int64()
	n := max(a-b, b-a) // negative when it is more than fits
	if !fits || !fit || n < 0 || n > maxElements {
		return 0, fmt.Errorf("a range of more than %d numbers", maxElements)
	}
	return int(n) / elementsPerStep, nil
}

func boundNetwork(operands []*ast.Term) (work int, err error) {
	_, bits, _ := strings.Cut(text(operands[0]), "/")
	n, err := strconv.Atoi(bits)
	whole := 32
	if strings.Contains(text(operands[0]), ":") {
		whole = 128
	}
	if err == nil && whole-n > 16 {
		return 0, errors.New("a network of more than 65,536 addresses")
	}
	return (1 << 16) / elementsPerStep, nil
}

// boundNumbers refuses a text that may hold an enormous number.
func boundNumbers(operands []*ast.Term) (work int, err error) {
	s := text(operands[0])
	for i := 0; i < len(s); i++ {
		if s[i] != 'e' && s[i] != 'E' {
			continue
		}
		digits := strings.TrimLeft(strings.TrimLeft(s[i+1:min(len(s), i+64)], "+-"), "0")
		if n := len(digits) - len(strings.TrimLeft(digits, "0123456789")); n > 3 && i > 0 && ('0' <= s[i-1] && s[i-1] <= '9' || s[i-1] == '.') {
			return 0, errNumber
		}
	}
	return 0, nil
}

var errParts = fmt.Errorf("a value of more than %d parts", maxParts)

// extent is what is left of the bounds on a value that is walked. One that is small holds
// the same text or part many times, perhaps.
type extent struct{ parts, text int }

// boundWalk bounds the operands of a function that walks them.
func boundWalk(operands []*ast.Term) (work int, err error) { return boundExtent(operands, maxCompared) }

func boundFirst(operands []*ast.Term) (work int, err error) { return boundWalk(operands[:1]) }

// boundTexts is boundWalk of a function that puts all texts of its operands into one, or
// copies each of them.
func boundTexts(operands []*ast.Term) (work int, err error) { return boundExtent(operands, maxText) }

func boundExtent(operands []*ast.Term, text int) (work int, err error) {
	left := extent{maxParts, text}
	for _, t := range operands {
		switch left.take(t); {
		case left.parts < 0:
			return 0, errParts
		case left.text < 0:
			return 0, fmt.Errorf("a value with texts of more than %d bytes", text)
		}
	}
	return (maxParts-left.parts)/partsPerStep + (text-left.text)/textPerStep, nil
}

// take takes what a value has from what is left, until nothing is.
func (x *extent) take(t *ast.Term) {
	if x.parts--; x.parts < 0 {
		return
	}
	deeper := func(t *ast.Term) {
		if x.parts >= 0 && x.text >= 0 {
			x.take(t)
		}
	}
	switch v := t.Value.(type) {
	case ast.String:
		x.text -= len(v)
	case ast.Object:
		v.Foreach(func(k, e *ast.Term) {
			deeper(k)
			deeper(e)
		})
	case *ast.Array, ast.Set:
		elements(t, deeper)
	}
}
