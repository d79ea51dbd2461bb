package document

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// maxLine bounds one line of NDJSON, in bytes: what the plane's API takes as
// one body.
const maxLine = 1 << 20

// Stream reads JSON documents one after the other and holds one at a time. A
// text that begins with [, or with { alone on its line, is JSON that people
// read: its values go on over lines, an array at the top stands for its
// elements, and the first syntax error ends it. Any other is NDJSON, where a
// broken line hides no other. Of each pair, one is set.
func Stream(file string, r io.Reader) iter.Seq2[Document, *Fault] {
	return func(yield func(Document, *Fault) bool) {
		s := stream{file: file, in: bufio.NewReaderSize(OnlyText(r), 64<<10), yield: yield}
		pretty, err := s.pretty()
		switch {
		case err != nil:
			s.unreadable(err)
		case pretty:
			s.values()
		default:
			s.lines()
		}
	}
}

type stream struct {
	file  string
	in    *bufio.Reader
	line  int // lines read before
	yield func(Document, *Fault) bool
}

// pretty skips what is empty in front, a BOM too, and looks at what follows.
func (s *stream) pretty() (bool, error) {
	SkipMark(s.in)
	for {
		c, err := s.in.ReadByte()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if c == '\n' {
			s.line++
		}
		if bytes.IndexByte([]byte(" \t\r\n"), c) >= 0 {
			continue
		}
		if err := s.in.UnreadByte(); err != nil {
			return false, err
		}
		head, _ := s.in.Peek(3)
		return c == '[' || string(head[:min(2, len(head))]) == "{\n" || string(head) == "{\r\n", nil
	}
}

func (s *stream) unreadable(err error) {
	f := Unreadable(s.file, err)
	s.yield(Document{}, &f)
}

func (s *stream) fault(line, column int, message string) bool {
	return s.yield(Document{}, &Fault{File: s.file, Line: line, Column: column, Message: message, Unreadable: true})
}

// lines reads NDJSON.
func (s *stream) lines() {
	for {
		text, err := s.readLine()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.unreadable(err)
			}
			return
		}
		s.line++
		if !s.one(text) {
			return
		}
	}
}

// one yields the document of a line, or its fault.
func (s *stream) one(text []byte) bool {
	if text == nil {
		return s.fault(s.line, 1, fmt.Sprintf("the line is longer than %d bytes", maxLine))
	}
	at := leadingSpace(text)
	if at == len(text) {
		return true
	}
	if i := invalidUTF8(text); i >= 0 {
		_, column := position(text, i)
		return s.fault(s.line, column, "not UTF-8 text; save the file as UTF-8")
	}
	value, n, err := readValue(text[at:])
	if err == nil {
		if rest := at + n; rest+leadingSpace(text[rest:]) < len(text) {
			_, column := position(text, rest)
			return s.fault(s.line, column, "not NDJSON: the line goes on after its value")
		}
		return s.yield(s.document(value, s.line, at+1), nil)
	}
	message, broken := jsonFault(text, at, err)
	_, column := position(text, broken)
	return s.fault(s.line, column, message)
}

// readLine reads a line without its end; nil stands for one that is too long,
// which is skipped. A last line needs no end.
func (s *stream) readLine() ([]byte, error) {
	line, long := []byte{}, false
	for {
		chunk, err := s.in.ReadSlice('\n')
		if long = long || len(line)+len(chunk) > maxLine; !long {
			line = append(line, chunk...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0 && !long):
			return nil, err
		case long:
			return nil, nil
		}
		return bytes.TrimSuffix(line, []byte{'\n'}), nil
	}
}

// document stands at a line and column, from 1, of the file.
func (s *stream) document(value jsontext.Value, line, column int) Document {
	body := bytes.Clone(value)
	return Document{File: s.file, Line: line, JSON: body, at: func(pointer string) (int, int, bool) {
		offset, ok := findJSON(body, pointer)
		if !ok {
			return 0, 0, false
		}
		l, c := position(body, offset)
		if l == 1 {
			c += column - 1
		}
		return line + l - 1, c, true
	}}
}

// values reads JSON that goes on over lines.
func (s *stream) values() {
	places := &places{r: s.in, line: s.line + 1}
	dec := jsontext.NewDecoder(places, jsontext.AllowDuplicateNames(true))
	for {
		kind := dec.PeekKind()
		if atTop := dec.StackDepth() == 0; atTop && kind == '[' || !atTop && kind == ']' {
			if _, err := dec.ReadToken(); err == nil {
				continue
			}
		}
		value, err := dec.ReadValue()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			s.broken(places, dec, err)
			return
		}
		line, column := places.at(dec.InputOffset() - int64(len(value)))
		if !s.yield(s.document(value, line, column), nil) {
			return
		}
	}
}

// broken tells why no more values can be read.
func (s *stream) broken(places *places, dec *jsontext.Decoder, err error) {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		line, column := places.at(places.read)
		s.fault(line, column, "the JSON ends too early")
	case errors.As(err, &syntax):
		line, column := places.at(syntax.ByteOffset)
		s.fault(line, column, "not JSON: "+syntax.Err.Error())
	default:
		s.unreadable(err)
	}
}

// places remembers where the lines begin of what was read and not yet asked
// for. Columns count bytes.
type places struct {
	r      io.Reader
	read   int64   // bytes so far
	line   int     // line of begin
	begin  int64   // offset of the line asked for last
	starts []int64 // of the lines after it
}

// Read reads, and notes where lines begin.
func (p *places) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	for i, c := range b[:n] {
		if c == '\n' {
			p.starts = append(p.starts, p.read+int64(i)+1)
		}
	}
	p.read += int64(n)
	return n, err
}

// at is the line and column of an offset, which may not fall from call to call.
func (p *places) at(offset int64) (line, column int) {
	for len(p.starts) > 0 && p.starts[0] <= offset {
		p.begin, p.starts = p.starts[0], p.starts[1:]
		p.line++
	}
	return p.line, int(offset-p.begin) + 1
}
