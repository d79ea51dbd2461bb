package test

import (
	"regexp"
	"strings"
)

// shape is a line of output without what differs from run to run.
type shape string

var differing = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "<id>"},
	{regexp.MustCompile(`[A-Za-z0-9+/]{43}=|[0-9a-f]{64}`), "<hash>"},
	{regexp.MustCompile(`\d\d\d\d-\d\d-\d\dT[0-9:.]+Z|\d\d:\d\d:\d\d`), "<time>"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|µs)?\b`), "<n>"},
	{regexp.MustCompile(`\s+`), " "},
}

// shapeOf is the shape of a line. What ends in ... goes on in some way.
func shapeOf(line string) shape {
	for _, d := range differing {
		line = d.is.ReplaceAllString(line, d.as)
	}
	return shape(strings.TrimSpace(line))
}

// in reports whether a line of the text has the shape.
func (s shape) in(text string) bool {
	start, open := strings.CutSuffix(string(s), "...")
	for line := range strings.Lines(text) {
		got := string(shapeOf(line))
		if got == string(s) || open && strings.HasPrefix(got, start) {
			return true
		}
	}
	return false
}
