package cli

import (
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// Gap stands between two columns of a table.
const Gap = "   "

// folding is what Broken and Messages make of a terminal.
type folding struct {
	io.Writer
	columns int
	indent  string // of what goes on, where a line has no label
}

// Broken is w where it is no terminal. To a terminal it breaks lines of text that are longer
// between words: what goes on is indented to where the text behind its label began. Lines of
// tables, and those that are indented, such as commands to copy, stay as they are.
func Broken(w io.Writer) io.Writer { return broken(w, "") }

// Messages is standard error as a program's messages go through it: Broken, and what goes on is
// indented, so that it is seen where the next message begins. What is for programs, such as JSON, or
// moves the cursor, as a bar does, goes to Whole of it.
func Messages(stderr io.Writer) io.Writer { return broken(stderr, "  ") }

func broken(w io.Writer, indent string) io.Writer {
	if _, already := w.(folding); already {
		return w
	}
	if width := Width(w); width > 0 {
		return folding{w, width, indent}
	}
	return w
}

// Whole is w without what breaks its lines.
func Whole(w io.Writer) io.Writer {
	if f, ok := w.(folding); ok {
		return f.Writer
	}
	return w
}

// Width is that of the terminal.
func (f folding) Width() int { return f.columns }

// Write implements io.Writer.
func (f folding) Write(p []byte) (int, error) {
	lines := strings.Split(string(p), "\n")
	for i, l := range lines {
		lines[i] = f.line(l)
	}
	_, err := io.WriteString(f.Writer, strings.Join(lines, "\n"))
	return len(p), err
}

// labelled finds the label of a line.
var labelled = regexp.MustCompile(`^(?:[A-Z][A-Za-z -]*: +)?`)

func (f folding) line(line string) string {
	label := labelled.FindString(line)
	said := line[len(label):]
	if strings.HasPrefix(line, " ") || strings.Contains(said, Gap) || len(label) > f.columns/2 {
		return line
	}
	if label == "" {
		return strings.Join(filled(said, f.columns, f.columns-len(f.indent)), "\n"+f.indent)
	}
	return Hung(f, label, said)
}

// Hung is a line of a label and a text; for a terminal it is broken between words, and what goes
// on is indented to where the text began.
func Hung(w io.Writer, label, said string) string {
	return hung(w, label, strings.Repeat(" ", len(label)), said)
}

// Indented is a line of a list: an indented text, and what a terminal has no room for further in.
func Indented(w io.Writer, indent, said string) string {
	return hung(w, indent, indent+"  ", said)
}

func hung(w io.Writer, before, below, said string) string {
	width := Width(w)
	if width <= 0 {
		return before + said
	}
	return before + strings.Join(filled(said, width-len(before), width-len(below)), "\n"+below)
}

// filled are the lines that a line is broken into, the first of which may be as long as first. What
// stands at its end stays there: an answer is typed behind it.
func filled(line string, first, most int) []string {
	var lines []string
	used := 0
	var b strings.Builder
	for _, word := range Words(line) {
		room := most
		if len(lines) == 0 {
			room = first
		}
		if used > 0 && used+text.StringWidthWithoutEscSequences(strings.TrimSpace(word)) > room {
			lines = append(lines, strings.TrimRight(b.String(), " "))
			b.Reset()
			used = 0
		}
		b.WriteString(word)
		used += text.StringWidthWithoutEscSequences(word)
	}
	return append(lines, b.String())
}

// thousand finds where the digits of a number are grouped.
var thousand = regexp.MustCompile(`\d,\d{3}\b`)

// Words are the parts of a text between which a line may be broken, each with what
// follows it: slugs, ids, types, times and numbers are never cut.
func Words(s string) []string {
	var list []string
	for _, word := range strings.SplitAfter(s, " ") {
		if thousand.MatchString(word) {
			list = append(list, word)
			continue
		}
		list = append(list, strings.SplitAfter(word, ",")...)
	}
	return list
}

// BetweenWords breaks the lines of a text so that they are not longer than most, where
// they are not one word.
func BetweenWords(s string, most int) string {
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		lines = append(lines, filled(line, most, most)...)
	}
	return strings.Join(lines, "\n")
}

// Width is the width of a terminal; 0: w is none.
func Width(w io.Writer) int {
	switch out := w.(type) {
	case interface{ Width() int }:
		return out.Width()
	case *os.File:
		if width, _, err := term.GetSize(int(out.Fd())); err == nil { //nolint:gosec // a file descriptor
			return width
		}
	}
	return 0
}
