package main

import (
	"io"
	"os"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// gap is what stands between two columns.
const gap = "   "

// columns writes a table as operators know it: no lines, wide gaps. On a terminal it
// is not wider than that: texts of its widest columns are broken.
func columns(w io.Writer, header []string, rows [][]string) {
	t := table.NewWriter()
	t.SetOutputMirror(trimmed{w})
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", gap
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
	if most := fitting(header, rows, widthOf(w)); most > 0 {
		configs := make([]table.ColumnConfig, len(header))
		for i := range configs {
			configs[i] = table.ColumnConfig{Number: i + 1, WidthMax: most, WidthMaxEnforcer: text.WrapSoft}
		}
		t.SetColumnConfigs(configs)
	}
	t.Render()
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

// fitting is how wide a column may be for the table to be as wide as asked at most; 0:
// as wide as it is.
func fitting(header []string, rows [][]string, width int) int {
	if width <= 0 || len(header) == 0 {
		return 0
	}
	widths := make([]int, len(header))
	for _, cells := range append([][]string{header}, rows...) {
		for i, c := range cells {
			widths[i] = max(widths[i], text.LongestLineLen(c))
		}
	}
	room := width - len(gap)*(len(header)-1)
	sum := 0
	for _, n := range widths {
		sum += n
	}
	if sum <= room {
		return 0
	}
	slices.Sort(widths)
	for i, n := range widths { // what narrower columns leave is shared by the others
		share := room / (len(widths) - i)
		if n > share {
			return max(share, narrowest)
		}
		room -= n
	}
	return 0
}

// widthOf is the width of a terminal; 0: w is none.
func widthOf(w io.Writer) int {
	switch out := w.(type) {
	case interface{ width() int }:
		return out.width()
	case *os.File:
		if width, _, err := term.GetSize(int(out.Fd())); err == nil { //nolint:gosec // a file descriptor
			return width
		}
	}
	return 0
}
