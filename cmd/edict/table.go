package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// narrowGap stands between two columns where there is little room.
const narrowGap = "  "

// columns writes a table as operators know it: no lines, wide gaps. On a terminal that is
// narrower it leaves out columns that say nothing, and the date of times that are all of today,
// and breaks texts between words; if that does not do, it narrows the gaps, and leaves out spare
// columns, the first first, and says which. What no narrower table can hold, as keys and digests,
// stands below each other.
func columns(w io.Writer, header []string, rows [][]string, spare ...string) {
	width := cli.Width(w)
	if len(rows) == 0 || width <= 0 || across(naturalWidths(header, rows), cli.Gap) <= width {
		allColumns(w, header, rows)
		return
	}
	header, rows = without(header, rows, func(i int) bool {
		return !slices.ContainsFunc(rows, func(cells []string) bool { return cells[i] != "-" && cells[i] != "" })
	})
	today(header, rows, time.Now())
	whole, all := header, rows
	var left []string
	for _, s := range spare {
		if fits(header, rows, width, narrowGap) {
			break
		}
		if at := slices.Index(header, s); at >= 0 {
			header, rows = without(header, rows, func(i int) bool { return i == at })
			left = append(left, s)
		}
	}
	between := cli.Gap
	switch {
	case !fits(header, rows, width, narrowGap):
		records(w, whole, all)
		return
	case !fits(header, rows, width, cli.Gap):
		between = narrowGap
	}
	writeColumns(w, header, rows, fitting(header, rows, width, between), between)
	if len(left) > 0 {
		fmt.Fprintf(w, "\nA wider terminal, or -o wide, shows %s as well.\n", strings.Join(left, ", "))
	}
}

// today shortens the times of columns that have none of another day, in UTC.
func today(header []string, rows [][]string, now time.Time) {
	for i := range header {
		date := now.UTC().Format(time.DateOnly) + "T"
		if slices.ContainsFunc(rows, func(cells []string) bool {
			_, err := time.Parse(time.RFC3339, cells[i])
			return err != nil || !strings.HasPrefix(cells[i], date)
		}) {
			continue
		}
		for _, cells := range rows {
			cells[i] = cells[i][len(date):]
		}
	}
}

// without are the other columns.
func without(header []string, rows [][]string, left func(i int) bool) (heads []string, said [][]string) {
	said = make([][]string, len(rows))
	for i, head := range header {
		if left(i) {
			continue
		}
		heads = append(heads, head)
		for j, cells := range rows {
			said[j] = append(said[j], cells[i])
		}
	}
	return heads, said
}

// allColumns is columns with those that say nothing, as wide as they are.
func allColumns(w io.Writer, header []string, rows [][]string) {
	writeColumns(w, header, rows, nil, cli.Gap)
}

// writeColumns writes a table of columns that are not wider than within; nil: as wide as they are.
func writeColumns(w io.Writer, header []string, rows [][]string, within []int, between string) {
	t := table.NewWriter()
	t.SetOutputMirror(trimmed{w})
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", between
	style.Format.Header = text.FormatUpper
	t.SetStyle(style)
	t.AppendHeader(row(header))
	for _, cells := range rows {
		r := row(cells)
		for i := range r {
			r[i] = colouredCell(w, header[i], r[i].(string))
		}
		t.AppendRow(r)
	}
	configs := make([]table.ColumnConfig, len(header))
	for i, most := range within {
		configs[i] = table.ColumnConfig{Number: i + 1, WidthMax: most, WidthMaxEnforcer: cli.BetweenWords}
	}
	t.SetColumnConfigs(configs)
	t.Render()
}

// records writes a line for each cell that says something, under its column's name.
func records(w io.Writer, header []string, rows [][]string) {
	w = cli.Broken(w)
	indent := slices.Max(naturalWidths(header, nil)) + len(": ")
	for i, cells := range rows {
		if i > 0 {
			fmt.Fprintln(w)
		}
		for j, c := range row(cells) {
			if c != "" && c != "-" {
				label := strings.ToUpper(header[j][:1]) + header[j][1:] + ":"
				said := colouredCell(w, header[j], c.(string))
				fmt.Fprintf(w, "%-*s%s\n", indent, label, strings.ReplaceAll(said, "\n", "\n"+strings.Repeat(" ", indent)))
			}
		}
	}
}

func row(cells []string) table.Row {
	r := make(table.Row, len(cells))
	for i, c := range cells {
		r[i] = cli.Escaped(c, "\n")
	}
	return r
}

// narrowest is the width below which no column is broken further.
const narrowest = 8

// fitting is how wide each column may be for the table to be as wide as asked, as far as
// that goes without cutting a word; nil: each is as wide as it is.
func fitting(header []string, rows [][]string, width int, between string) []int {
	natural := naturalWidths(header, rows)
	room := width - across(make([]int, len(header)), between)
	if width <= 0 || len(header) == 0 || sum(natural) <= room {
		return nil
	}
	least := make([]int, len(header)) // the longest word
	for _, cells := range append([][]string{header}, rows...) {
		for i, c := range cells {
			for _, word := range cli.Words(c) {
				least[i] = max(least[i], text.StringWidthWithoutEscSequences(strings.TrimSpace(word)))
			}
		}
	}
	within := make([]int, len(header))
	for most := slices.Max(natural); ; most-- {
		for i := range within {
			within[i] = min(natural[i], max(most, least[i]))
		}
		if most <= narrowest || sum(within) <= room {
			return within
		}
	}
}

// fits reports whether a table can be so narrow.
func fits(header []string, rows [][]string, width int, between string) bool {
	within := fitting(header, rows, width, between)
	return within == nil || across(within, between) <= width
}

// naturalWidths are those of the columns, unbroken.
func naturalWidths(header []string, rows [][]string) []int {
	widths := make([]int, len(header))
	for _, cells := range append([][]string{header}, rows...) {
		for i, c := range cells {
			widths[i] = max(widths[i], text.LongestLineLen(c))
		}
	}
	return widths
}

func sum(widths []int) (n int) {
	for _, w := range widths {
		n += w
	}
	return n
}

// across is how wide a table of these columns is.
func across(widths []int, between string) int { return sum(widths) + len(between)*(len(widths)-1) }
