package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// terminal is one of so many columns.
type terminal struct {
	bytes.Buffer
	columns int
}

func (t *terminal) Width() int { return t.columns }

// Text is broken between words and goes on below where it began; tables, and what is indented
// for people to copy, are not.
func TestTextIsBrokenBetweenWords(t *testing.T) {
	l := &terminal{columns: 24}
	w := Broken(l)
	require.Equal(t, 24, Width(w))
	fmt.Fprintf(w, "Nodes:  1 of 20 applied, and 19 lag\n\nshort\n    edict policy list -o jsonpath={.slug}\nA   table   of three   columns\n")
	fmt.Fprintln(w, "prose that is longer than a line is")
	require.Equal(t, `Nodes:  1 of 20 applied,
        and 19 lag

short
    edict policy list -o jsonpath={.slug}
A   table   of three   columns
prose that is longer
than a line is
`, l.String())
	var file strings.Builder
	require.Equal(t, &file, Broken(&file), "what is no terminal gets lines as they are")
}

// Messages go on indented, so that it is seen where the next begins; what is none goes through whole, and
// what is typed behind a question stays behind it.
func TestMessagesAreBrokenBetweenWords(t *testing.T) {
	l := &terminal{columns: 24}
	w := Messages(l)
	require.Equal(t, w, Broken(w), "it is broken once")
	fmt.Fprintf(w, "web.yaml:2:1: /selector: remove it (unknown_field)\nedict: short\n")
	fmt.Fprintf(w, "delete 10,000 nodes of the plane? [y/N] ")
	fmt.Fprintf(Whole(w), "\nlevel=INFO msg=\"a log is not broken\"\n")
	require.Equal(t, `web.yaml:2:1: /selector:
  remove it
  (unknown_field)
edict: short
delete 10,000 nodes of
  the plane? [y/N] `+`
level=INFO msg="a log is not broken"
`, l.String())
	var file strings.Builder
	require.Equal(t, &file, Messages(&file))
	require.Equal(t, &file, Whole(&file))
}

// What ended a command is broken as all messages are.
func TestAnErrorIsBrokenBetweenWords(t *testing.T) {
	l := &terminal{columns: 24}
	Report(l, "edict", Failed(NotFound, "nothing is of that name here"), error.Error, nil)
	require.Equal(t, "edict: nothing is of\n  that name here\n", l.String())
}
