package node

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/edictdev/edict/internal/wire"
)

// maxFrame bounds what one event of a stream may hold, in bytes: twice the
// largest message the plane's own server takes.
const maxFrame = 16 << 20

// errFrameTooLarge: a server, or something in between, sends without end.
var errFrameTooLarge = fmt.Errorf("an event of the stream is larger than %d bytes", maxFrame)

// frame is one dispatched event of an event stream.
type frame struct {
	id    string // of this event, or the last one before it that gave any
	event string // "message" when the stream names none
	data  []byte // valid until the next frame is read
	trace string // traceparent; empty: the stream said none
}

// frames reads an event stream as the WHATWG HTML standard, section 9.2.6,
// interprets one: lines end with CR, LF or CRLF, a BOM in front is skipped,
// data lines are joined with LF, and what the end of the stream cuts is
// forgotten.
type frames struct {
	r      *bufio.Reader
	skipLF bool // the last line ended with CR: a LF now belongs to it
	begun  bool
	lastID string
	line   []byte
	data   []byte
	size   int
	most   int // bytes of an event
}

func newFrames(r io.Reader, most int) *frames {
	return &frames{r: bufio.NewReaderSize(r, 32<<10), most: most}
}

// next returns the next event that carries data. The error is io.EOF at the
// end of the stream, or that of the reader.
func (f *frames) next() (frame, error) {
	f.data, f.size = f.data[:0], 0
	event, trace, seen := "", "", false
	for {
		line, err := f.readLine()
		if err != nil {
			return frame{}, err
		}
		if len(line) == 0 {
			if seen {
				return f.dispatch(event, trace), nil
			}
			event, trace, f.size = "", "", 0
			continue
		}
		if t, ok := bytes.CutPrefix(line, []byte(wire.CommentTrace)); ok {
			trace = boundedTrace(t)
			continue
		}
		name, value := field(line)
		switch string(name) {
		case "data":
			seen = true
			f.data = append(append(f.data, value...), '\n')
		case "event":
			event = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				f.lastID = string(value)
			}
		}
		// "retry" and unknown names are ignored: how long to wait is decided by
		// who follows.
	}
}

// drained reports whether all that was received has been read.
func (f *frames) drained() bool { return f.r.Buffered() == 0 }

func (f *frames) dispatch(event, trace string) frame {
	if event == "" {
		event = "message"
	}
	return frame{id: f.lastID, event: event, data: f.data[:len(f.data)-1], trace: trace}
}

// field splits a line into name and value. A comment has an empty name.
func field(line []byte) (name, value []byte) {
	name, value, found := bytes.Cut(line, []byte{':'})
	if found && len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return name, value
}

// readLine returns a line without its end, as soon as that end was seen: after
// a CR it does not wait for a LF. A line that the stream's end cuts is an error.
func (f *frames) readLine() ([]byte, error) {
	if !f.begun {
		f.begun = true
		if err := f.skipBOM(); err != nil {
			return nil, err
		}
	}
	f.line = f.line[:0]
	for {
		// One byte at least, then whatever is buffered, without waiting.
		if _, err := f.r.Peek(1); err != nil {
			return nil, err
		}
		chunk, _ := f.r.Peek(f.r.Buffered())
		if f.skipLF {
			f.skipLF = false
			if chunk[0] == '\n' {
				f.discard(1)
				continue
			}
		}
		end := bytes.IndexAny(chunk, "\r\n")
		if end >= 0 {
			f.line = append(f.line, chunk[:end]...)
			f.skipLF = chunk[end] == '\r'
			f.discard(end + 1)
			return f.line, f.grow(end)
		}
		f.line = append(f.line, chunk...)
		f.discard(len(chunk))
		if err := f.grow(len(chunk)); err != nil {
			return nil, err
		}
	}
}

// grow counts the bytes of an event.
func (f *frames) grow(n int) error {
	if f.size += n; f.size > f.most {
		return errFrameTooLarge
	}
	return nil
}

func (f *frames) discard(n int) { _, _ = f.r.Discard(n) } // n is buffered

func (f *frames) skipBOM() error {
	const bom = "\xef\xbb\xbf"
	head, err := f.r.Peek(1)
	if err != nil {
		return err
	}
	if head[0] != bom[0] {
		return nil
	}
	head, err = f.r.Peek(len(bom))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(head) == bom {
		f.discard(len(bom))
	}
	return nil
}
