package main

import (
	"io"
	"os"
	"slices"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// Colours, by what they say.
var (
	good  = text.Colors{text.FgGreen}
	bad   = text.Colors{text.FgRed}
	aside = text.Colors{text.FgYellow}
)

// colouredColumns are the columns whose cells say how something stands.
var colouredColumns = []string{"state", "verdict", "outcome", "status"}

// colours are those of what stands there.
var colours = map[string]text.Colors{
	"applied": good, "allow": good, "ok": good, "current": good, "created": good, "ready": good,
	"lagging": aside, "stale": aside, "warning": aside, "configured": aside, "silent": aside, "unknown": aside,
	"refused": bad, "deny": bad, "rejected": bad, "failed": bad, "drift": bad, "denied": bad,
}

// colouredCell is a cell of a column, in the colour of what it says.
func colouredCell(w io.Writer, header, cell string) string {
	if c, ok := colours[cell]; ok && slices.Contains(colouredColumns, header) {
		return coloured(w, c, cell)
	}
	return cell
}

// coloured is s in a colour where w is a terminal; where NO_COLOR is set, in none.
func coloured(w io.Writer, c text.Colors, s string) string {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || cli.Width(w) == 0 {
		return s
	}
	return c.EscapeSeq() + s + text.Colors{text.Reset}.EscapeSeq()
}
