package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// A table is not wider than the terminal, and says the same there.
func TestATableFitsItsTerminal(t *testing.T) {
	header := []string{"policy", "state", "reason"}
	rows := [][]string{{"shop-app-to-db", "refused", strings.Repeat("a long reason with words ", 6)}, {"p", "applied", "-"}}
	for _, width := range []int{40, 80, 200} {
		l := &look{columns: width}
		columns(l, header, rows)
		for line := range strings.Lines(plain(l.String())) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), width)
		}
		require.Equal(t, strings.Count(l.String(), "words"), 6)
	}
	var wide strings.Builder
	columns(&wide, header, rows)
	require.Equal(t, 3, strings.Count(wide.String(), "\n"), "off a terminal no text is broken")
	require.NotContains(t, wide.String(), "\x1b")
}

// No name, id or time is cut, even if lines get longer than the terminal; columns that say
// nothing go first.
func TestATableCutsNoWord(t *testing.T) {
	header := []string{"slug", "display name", "created", "by"}
	rows := [][]string{
		{"mail-nobody-else-may-send-anything-to-it", "-", "2026-11-26T06:09:19Z", "anonymous"},
		{"web", "-", "2026-11-26T06:09:20Z", "anonymous,ana"},
	}
	l := &look{columns: 50}
	columns(l, header, rows)
	require.Equal(t, `SLUG                                       CREATED                BY
mail-nobody-else-may-send-anything-to-it   2026-11-26T06:09:19Z   anonymous
web                                        2026-11-26T06:09:20Z   anonymous,
                                                                  ana
`, l.String())
	l = &look{columns: 100}
	columns(l, header, rows)
	require.Contains(t, l.String(), "DISPLAY NAME", "where there is room all are shown")
}

// Colour is for terminals, and for those who want it.
func TestColourIsForTerminals(t *testing.T) {
	l := &look{columns: 80}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	require.Equal(t, "\x1b[31mrefused\x1b[0m", colouredCell(l, "state", "refused"))
	require.Equal(t, "refused", colouredCell(l, "policy", "refused"), "a policy may be called so")
	require.Equal(t, "refused", colouredCell(&strings.Builder{}, "state", "refused"))
	t.Setenv("NO_COLOR", "1")
	require.Equal(t, "refused", colouredCell(l, "state", "refused"))
}

func plain(s string) string {
	for _, code := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"} {
		s = strings.ReplaceAll(s, code, "")
	}
	return s
}
