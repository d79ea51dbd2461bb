// Package document reads what authors write, YAML, JSON or NDJSON, one
// document or many, as JSON documents that know where they stand: a fault found
// in one later is reported with file, line and column.
//
// It knows nothing of what the documents say. A reader of the domain gets the
// JSON, and its JSON pointers lead back to the text through [Document.At].
package document

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Document is one document of a file.
type Document struct {
	File string
	Line int    // where it begins, from 1
	JSON []byte // the document as JSON; members said twice are still there
	at   func(pointer string) (line, column int, ok bool)
}

// At is the place a JSON pointer into the document means. Of a pointer to what
// is not there, it is the place of what should hold it.
func (d Document) At(pointer string) (line, column int) {
	for {
		if line, column, ok := d.at(pointer); ok {
			return line, column
		}
		i := strings.LastIndexByte(pointer, '/')
		if i < 0 {
			return d.Line, 1
		}
		pointer = pointer[:i]
	}
}

// Fault is one thing wrong with a file.
type Fault struct {
	File         string
	Line, Column int // from 1; 0: not known
	Message      string
	// Pointer and Code are of a rule that the document breaks; the message has them, too.
	Pointer, Code string
	// Unreadable: the text is no YAML or JSON, or could not be had at all.
	// Otherwise the document is sound and breaks a rule.
	Unreadable bool
}

// String is file:line:column: message, as far as the place is known.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
		if f.Column > 0 {
			fmt.Fprintf(&b, ":%d", f.Column)
		}
	}
	return b.String() + ": " + f.Message
}

// Parse reads every document of a text. Documents around a fault are still
// read where the format allows it. A list at the top of a document stands for
// its elements.
func Parse(file string, text []byte) (docs []Document, faults []Fault) {
	if rest, ok := strings.CutPrefix(string(text), byteOrderMark); ok {
		text = []byte(rest)
	}
	if i := invalidUTF8(text); i >= 0 {
		line, column := position(text, i)
		return nil, []Fault{{File: file, Line: line, Column: column, Message: "not UTF-8 text; save the file as UTF-8", Unreadable: true}}
	}
	trimmed := strings.TrimLeft(string(text), " \t\r\n")
	if strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		return parseJSON(file, text)
	}
	return parseYAML(file, text)
}

func invalidUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// lined is a text that knows where its lines begin: to count them anew for each document
// of many takes longer than all else that is done with them.
type lined struct {
	text   []byte
	starts []int // of the second line and those after it
}

func newLined(text []byte) lined {
	l := lined{text: text}
	for i, c := range text {
		if c == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	return l
}

// line is that of a byte, from 1. A column costs more: all documents of a text may stand on
// one line.
func (l lined) line(offset int) int {
	before, found := slices.BinarySearch(l.starts, offset)
	if found {
		before++
	}
	return 1 + before
}

// position is the line and column, from 1, of a byte; columns count runes.
func (l lined) position(offset int) (line, column int) {
	offset = min(offset, len(l.text))
	line = l.line(offset)
	start := 0
	if line > 1 {
		start = l.starts[line-2]
	}
	return line, 1 + utf8.RuneCount(l.text[start:offset])
}

// position is that of a byte of a text which is asked for one.
func position(text []byte, offset int) (line, column int) { return newLined(text).position(offset) }
