package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// clause is one test, kept as the words it was written in.
type clause struct {
	op, key string
	values  []string
}

// parse cuts one side of a selector at the commas outside parentheses and reads
// each piece by looking for the sign that gives it away.
func parse(text string) ([]clause, error) {
	var clauses []clause
	for _, piece := range pieces(text) {
		c, err := parseClause(strings.TrimSpace(piece))
		if err != nil {
			return nil, fmt.Errorf("oracle: selector %q: %w", text, err)
		}
		clauses = append(clauses, c)
	}
	return clauses, nil
}

// tidy is a selector side in its one canonical spelling: clauses sorted and each
// once, a list of one value as an equality. Nothing stays nothing.
func tidy(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	clauses, err := parse(text)
	if err != nil {
		return "", err
	}
	words := []string{}
	for _, c := range clauses {
		values := slices.Compact(slices.Sorted(slices.Values(c.values)))
		switch {
		case c.op == "in" && len(values) > 1:
			words = append(words, c.key+" in ("+strings.Join(values, ",")+")")
		case c.op == "in":
			words = append(words, c.key+"="+values[0])
		case c.op == "=" || c.op == "!=":
			words = append(words, c.key+c.op+values[0])
		case c.op == "absent":
			words = append(words, "!"+c.key)
		default:
			words = append(words, c.key)
		}
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ","), nil
}

func pieces(text string) []string {
	list, depth := []string{""}, 0
	for _, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		if r == ',' && depth == 0 {
			list = append(list, "")
			continue
		}
		list[len(list)-1] += string(r)
	}
	return list
}

func parseClause(s string) (clause, error) {
	if key, value, ok := strings.Cut(s, "!="); ok {
		return known("!=", key, value)
	}
	if key, value, ok := strings.Cut(s, "="); ok {
		return known("=", key, value)
	}
	if key, list, ok := strings.Cut(s, "("); ok {
		list, closed := strings.CutSuffix(strings.TrimSpace(list), ")")
		words := strings.Fields(key)
		if !closed || len(words) != 2 || words[1] != "in" {
			return clause{}, fmt.Errorf("cannot read %q", s)
		}
		return known("in", words[0], strings.Split(list, ",")...)
	}
	if key, ok := strings.CutPrefix(s, "!"); ok {
		return known("absent", key)
	}
	return known("exists", s)
}

func known(op, key string, values ...string) (clause, error) {
	c := clause{op: op, key: strings.TrimSpace(key)}
	for _, v := range values {
		c.values = append(c.values, strings.TrimSpace(v))
	}
	for _, word := range append([]string{c.key}, c.values...) {
		if word == "" || strings.ContainsAny(word, " \t=!()") {
			return clause{}, fmt.Errorf("cannot read %q", word)
		}
	}
	return c, nil
}

// holds reports whether every clause is true of labels. A node without the key
// satisfies != as it does in Kubernetes.
func holds(clauses []clause, labels map[string]string) bool {
	for _, c := range clauses {
		value, present := labels[c.key]
		var yes bool
		switch c.op {
		case "=":
			yes = present && value == c.values[0]
		case "!=":
			yes = !present || value != c.values[0]
		case "in":
			yes = present && slices.Contains(c.values, value)
		case "exists":
			yes = present
		case "absent":
			yes = !present
		}
		if !yes {
			return false
		}
	}
	return true
}
