package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// Formats of -o that lists have beside those of every command.
const (
	formatWide     = "wide"
	formatName     = "name"
	formatNDJSON   = "ndjson"
	formatJSONPath = "jsonpath" // and a template behind a =
)

// listing is how a list of one kind of thing is printed.
type listing[T any] struct {
	kind    string         // for -o name: kind/name
	name    func(T) string // nil: the things have no names
	columns []column[T]
	spare   []string                   // columns that a terminal too narrow for all does without, the first to go first
	below   func(w io.Writer, all []T) // what stands under the table; nil: nothing
}

// reversed stands before a column of --sort-by to sort the other way round.
const reversed = "-"

// column is a column of the table. Those that are wide are shown by -o wide alone.
type column[T any] struct {
	header string
	cell   func(T) string
	wide   bool
}

// listFlags gives a command -o with the formats of lists, --sort-by with the columns
// of its list, and -w.
func (a *console) listFlags(cmd *cobra.Command, headers func() []string) {
	a.formatFlag(cmd, formatTable, formatWide, formatName, formatJSON, formatNDJSON, formatYAML, formatJSONPath)
	cmd.Flags().StringVar(&a.sortBy, "sort-by", "", "column to sort by, with - before it the other way round")
	_ = cmd.RegisterFlagCompletionFunc("sort-by", // the flag was just made
		func(_ *cobra.Command, _ []string, begin string) (names []string, _ cobra.ShellCompDirective) {
			for _, h := range headers() {
				if strings.HasPrefix(begin, reversed) {
					h = reversed + h
				}
				names = append(names, h)
			}
			return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		})
	if cmd.Flags().Lookup("watch") == nil {
		a.watchFlag(cmd)
	}
}

// printList prints a list as -o says, sorted as --sort-by says.
func printList[T any](a *console, l listing[T], all []T) error {
	if err := l.sort(all, a.sortBy); err != nil {
		return err
	}
	switch a.format {
	case formatName:
		if l.name == nil {
			return cli.Failed(cli.BadUsage, "-o name: these have no names")
		}
		for _, x := range all {
			fmt.Fprintf(a.stdout, "%s/%s\n", l.kind, l.name(x))
		}
		return nil
	case formatNDJSON:
		out := json.NewEncoder(a.stdout)
		out.SetEscapeHTML(false)
		for _, x := range all {
			if err := out.Encode(x); err != nil {
				return err
			}
		}
		return nil
	}
	return a.print(all, func(w io.Writer) { l.write(w, all, a.format == formatWide) })
}

// write writes the table and what stands below it.
func (l listing[T]) write(w io.Writer, all []T, wide bool) {
	var header []string
	rows := make([][]string, len(all))
	for _, c := range l.columns {
		if c.wide && !wide {
			continue
		}
		header = append(header, c.header)
		for i, x := range all {
			rows[i] = append(rows[i], c.cell(x))
		}
	}
	if wide {
		allColumns(w, header, rows)
	} else {
		columns(w, header, rows, l.spare...)
	}
	if l.below != nil {
		l.below(w, all)
	}
}

// headers are those of all columns: a list is also sorted by those that are not shown.
func (l listing[T]) headers() []string {
	headers := make([]string, len(l.columns))
	for i, c := range l.columns {
		headers[i] = c.header
	}
	return headers
}

// sort sorts by a column: numbers as numbers, all else as text.
func (l listing[T]) sort(all []T, by string) error {
	if by == "" {
		return nil
	}
	name, reverse := strings.CutPrefix(by, reversed)
	at := slices.IndexFunc(l.columns, func(c column[T]) bool { return strings.EqualFold(c.header, name) })
	if at < 0 {
		return cli.Failed(cli.BadUsage, "--sort-by %.80q: want one of %s", name, strings.Join(l.headers(), ", "))
	}
	slices.SortStableFunc(all, func(x, y T) int {
		if reverse {
			x, y = y, x
		}
		return compareCells(l.columns[at].cell(x), l.columns[at].cell(y))
	})
	return nil
}

func compareCells(x, y string) int {
	n, errX := strconv.ParseInt(x, 10, 64)
	m, errY := strconv.ParseInt(y, 10, 64)
	if errX == nil && errY == nil {
		return cmp.Compare(n, m)
	}
	return strings.Compare(x, y)
}
