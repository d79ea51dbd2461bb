package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
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

// No name, id or time is cut. What no narrow table can hold stands below each other; columns
// that say nothing go first.
func TestATableCutsNoWord(t *testing.T) {
	header := []string{"slug", "display name", "created", "by"}
	rows := [][]string{
		{"mail-nobody-else-may-send-anything-to-it", "-", "2026-11-25T06:09:19Z", "anonymous"},
		{"web", "-", "2026-11-25T06:09:20Z", "anonymous,ana"},
	}
	l := &look{columns: 50}
	columns(l, header, rows)
	require.Equal(t, `Slug:    mail-nobody-else-may-send-anything-to-it
Created: 2026-11-25T06:09:19Z
By:      anonymous

Slug:    web
Created: 2026-11-25T06:09:20Z
By:      anonymous,ana
`, l.String())
	l = &look{columns: 78}
	columns(l, header, rows)
	require.Equal(t, `SLUG                                       CREATED                BY
mail-nobody-else-may-send-anything-to-it   2026-11-25T06:09:19Z   anonymous
web                                        2026-11-25T06:09:20Z   anonymous,
                                                                  ana
`, l.String())
	l = &look{columns: 100}
	columns(l, header, rows)
	require.Contains(t, l.String(), "DISPLAY NAME", "where there is room all are shown")
}

// Where that is not enough, a table does without spare columns, and says so.
func TestANarrowTableDoesWithoutSpareColumns(t *testing.T) {
	header := []string{"seq", "type", "by", "detail"}
	rows := [][]string{{"1", "policy_revision_created", "anonymous", "because"}, {"2", "node_updated", "ana", "-"}}
	l := &look{columns: 41}
	columns(l, header, rows, "by", "detail")
	require.Equal(t, `SEQ   TYPE                      DETAIL
1     policy_revision_created   because
2     node_updated              -

A wider terminal, or -o wide, shows by as well.
`, l.String())
	for _, width := range []int{60, 0} {
		l = &look{columns: width}
		columns(l, header, rows, "by", "detail")
		require.NotContains(t, l.String(), "wider", "%d columns have room, and a file too", width)
		require.Contains(t, l.String(), "anonymous")
	}
}

// Times that are all of today are shown without the date where there is no room for it.
func TestTimesOfTodayAreShort(t *testing.T) {
	now := time.Date(2026, 11, 26, 23, 0, 0, 0, time.FixedZone("", -3600*3))
	header := []string{"time", "since", "name"}
	rows := [][]string{{"2026-11-27T01:02:03Z", "2026-11-27T01:02:03Z", "x"}, {"2026-11-27T00:00:00Z", "2026-11-26T23:59:59Z", "x"}}
	today(header, rows, now)
	require.Equal(t, [][]string{{"01:02:03Z", "2026-11-27T01:02:03Z", "x"}, {"00:00:00Z", "2026-11-26T23:59:59Z", "x"}}, rows)
}

// No command's help is wider than a page, but for what is there to be copied.
func TestHelpFitsAPage(t *testing.T) {
	seen := map[*cobra.Command]bool{}
	for _, c := range leaves(new(app).rootCommand()) {
		for ; c != nil && !seen[c]; c = c.Parent() {
			seen[c] = true
			var out strings.Builder
			args := append(strings.Fields(c.CommandPath())[1:], "--help")
			require.Zero(t, run(t.Context(), args, strings.NewReader(""), &out, &out))
			text, examples, _ := strings.Cut(out.String(), "\nExamples:\n")
			_, after, _ := strings.Cut(examples, "\n\n")
			for line := range strings.Lines(text + after) {
				if !strings.HasPrefix(line, "Use ") { // cobra's
					require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, "%s: %s", c.CommandPath(), line)
				}
			}
		}
	}
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

// Gaps get narrower before a column goes or a line gets longer than the terminal, and -o wide
// breaks nothing.
func TestANarrowTableHasNarrowGaps(t *testing.T) {
	header := []string{"key", "status", "public key"}
	rows := [][]string{{"ed25519:648675a90ebe3cdc", "current", "adJd+0e8yBMPRlJBF6NLmCbZ"}}
	l := &look{columns: 60}
	columns(l, header, rows, "status")
	require.Equal(t, `KEY                       STATUS   PUBLIC KEY
ed25519:648675a90ebe3cdc  current  adJd+0e8yBMPRlJBF6NLmCbZ
`, plain(l.String()))
	l = &look{columns: 20}
	allColumns(l, []string{"labels"}, [][]string{{"env=prod,region=eu,role=db"}})
	require.Equal(t, "LABELS\nenv=prod,region=eu,role=db\n", l.String())
}
