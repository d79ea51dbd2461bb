package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// followed is a table on a terminal whose rows come one by one, under a header that stands there once.
// Columns get wider as cells do, as far as the terminal has room. A cell without room goes on below the
// second column, broken between words.
type followed struct {
	w      io.Writer
	header []string
	widths []int
	width  int // of the terminal
	whole  bool
	begun  bool
}

// follow begins such a table; whole: each cell stands in its line, as -o wide has it. least are how wide
// columns are from the beginning on. Where w is no terminal it is nil.
func follow(w io.Writer, header []string, whole bool, least map[string]int) *followed {
	f := &followed{w: w, header: header, width: cli.Width(w), whole: whole}
	if f.width <= 0 {
		return nil
	}
	for _, h := range header {
		f.widths = append(f.widths, max(len(h), least[h]))
	}
	return f
}

// row writes a row; before the first, the header.
func (f *followed) row(cells []string) error {
	cells = slices.Clone(cells)
	for i, c := range cells {
		cells[i] = cli.Escaped(c, "")
	}
	if !f.whole {
		today(f.header, [][]string{cells}, time.Now())
	}
	for i, c := range cells[:len(cells)-1] { // nothing stands behind the last
		before := f.widths[i]
		f.widths[i] = max(before, text.StringWidthWithoutEscSequences(c))
		if !f.whole && across(f.widths, narrowGap) > f.width {
			f.widths[i] = before
		}
	}
	if !f.begun {
		f.begun = true
		heads := make([]string, len(f.header))
		for i, h := range f.header {
			heads[i] = strings.ToUpper(h)
		}
		if err := f.line(heads); err != nil {
			return err
		}
	}
	return f.line(cells)
}

func (f *followed) line(cells []string) error {
	var b strings.Builder
	below := f.widths[0] + len(narrowGap)
	used, start := 0, 0 // how far the line is written, and where the column begins
	for i, c := range cells {
		n := text.StringWidthWithoutEscSequences(c)
		at := max(start, used)
		if used > 0 && at == used {
			at += len(narrowGap)
		}
		start += f.widths[i] + len(narrowGap)
		if c == "" {
			continue
		}
		if !f.whole && at+n > f.width && used > 0 {
			b.WriteByte('\n')
			used, at = 0, below
			broken := cli.BetweenWords(c, f.width-below)
			last := broken[strings.LastIndexByte(broken, '\n')+1:]
			n = text.StringWidthWithoutEscSequences(last)
			c = strings.ReplaceAll(broken, "\n", "\n"+strings.Repeat(" ", below))
		}
		fmt.Fprintf(&b, "%*s%s", at-used, "", colouredCell(f.w, f.header[i], c))
		used = at + n
	}
	_, err := fmt.Fprintln(f.w, b.String())
	return err
}
