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
