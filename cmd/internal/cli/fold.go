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

// folding is what Broken makes of a terminal.
type folding struct {
	io.Writer
	columns int
}

// Broken is w where it is no terminal. To a terminal it breaks lines of text that are longer
// between words: what goes on is indented to where the text behind its label began. Lines of
// tables, and those that are indented, such as commands to copy, stay as they are.
func Broken(w io.Writer) io.Writer {
	if width := Width(w); width > 0 {
		return folding{w, width}
	}
	return w
}

// Width is that of the terminal.
func (f folding) Width() int { return f.columns }

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
	if text.StringWidthWithoutEscSequences(line) <= width || strings.HasPrefix(line, " ") || strings.Contains(said, Gap) || len(label) > width/2 {
		return line
	}
	parts := strings.Split(BetweenWords(said, width-len(label)), "\n")
	for i, p := range parts {
		parts[i] = strings.TrimRight(p, " ")
	}
	return label + strings.Join(parts, "\n"+strings.Repeat(" ", len(label)))
}

// Words are the parts of a text between which a line may be broken, each with what
// follows it: slugs, ids, types and times are never cut.
func Words(s string) []string {
	var list []string
	for _, word := range strings.SplitAfter(s, " ") {
		list = append(list, strings.SplitAfter(word, ",")...)
	}
	return list
}

// BetweenWords breaks the lines of a text so that they are not longer than most, where
// they are not one word.
func BetweenWords(s string, most int) string {
	var b strings.Builder
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		used := 0
		for _, word := range Words(line) {
			n := text.StringWidthWithoutEscSequences(word)
			if used > 0 && used+text.StringWidthWithoutEscSequences(strings.TrimSpace(word)) > most {
				b.WriteByte('\n')
				used = 0
			}
			b.WriteString(word)
			used += n
		}
	}
	return b.String()
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
