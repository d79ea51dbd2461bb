package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
)

// A policy's name is whole: in a file, with -o wide, and where the terminal has room. Else it is broken
// between words.
func TestAPolicysNameIsWhole(t *testing.T) {
	t.Parallel()
	name := "Web servers of the shop may reach the databases of the shop, and nothing else"
	all := []resource.Policy{{Slug: "web-to-db", DisplayName: name}}
	list := func(columns int, wide bool) string {
		l := &look{columns: columns}
		policyListing.write(l, all, wide)
		return l.String()
	}
	for _, of := range []struct {
		columns int
		wide    bool
	}{{0, false}, {0, true}, {80, true}, {160, false}} {
		require.Contains(t, list(of.columns, of.wide), name, "%d columns", of.columns)
	}
	narrow := list(80, false)
	for line := range strings.Lines(narrow) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
	}
	require.NotContains(t, narrow, "…")
	for _, word := range strings.Fields(name) {
		require.Contains(t, narrow, word)
	}
}
