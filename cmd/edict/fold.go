package main

import (
	"io"
	"regexp"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// folding writes to a terminal, and breaks lines of text that are longer between words. What
// goes on is indented to where the text behind its label began. Lines of tables, and those
// that are indented, such as commands to copy, stay as they are.
type folding struct {
	io.Writer
	columns int
}

// broken is w, folding where it is a terminal.
func broken(w io.Writer) io.Writer {
	if width := widthOf(w); width > 0 {
		return folding{w, width}
	}
	return w
}

func (f folding) width() int { return f.columns }

// Write implements io.Writer.
func (f folding) Write(p []byte) (int, error) {
	lines := strings.Split(string(p), "\n")
	for i, l := range lines {
		lines[i] = foldedLine(l, f.columns)
	}
	_, err := io.WriteString(f.Writer, strings.Join(lines, "\n"))
	return len(p), err
}

// labelled finds the label of a line.
var labelled = regexp.MustCompile(`^(?:[A-Z][A-Za-z -]*: +)?`)

func foldedLine(line string, width int) string {
	label := labelled.FindString(line)
	said := line[len(label):]
	if text.StringWidthWithoutEscSequences(line) <= width || strings.HasPrefix(line, " ") || strings.Contains(said, gap) || len(label) > width/2 {
		return line
	}
	parts := strings.Split(betweenWords(said, width-len(label)), "\n")
	for i, p := range parts {
		parts[i] = strings.TrimRight(p, " ")
	}
	return label + strings.Join(parts, "\n"+strings.Repeat(" ", len(label)))
}
