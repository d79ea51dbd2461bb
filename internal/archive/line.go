package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/edictdev/edict/internal/streams"
)

// eventLine is an event as a segment has it. What is not UTF-8 stands in base64
// in a member of its own.
type eventLine struct {
	Seq       uint64        `json:"seq"`
	Time      string        `json:"time"`
	Subject   string        `json:"subject,omitempty"`
	Subject64 []byte        `json:"subject64,omitempty"`
	Headers   pairs[string] `json:"headers,omitempty"`
	Headers64 pairs[[]byte] `json:"headers64,omitempty"`
	Body      *string       `json:"body,omitempty"`
	Body64    []byte        `json:"body64,omitempty"`
}

// pairs are headers. In memory they take many times what they take in a file.
type pairs[T string | []byte] [][2]T

// UnmarshalJSON implements json.Unmarshaler.
func (p *pairs[T]) UnmarshalJSON(text []byte) error {
	if len(text) > maxHeaders {
		return fmt.Errorf("its headers are longer than %d bytes", maxHeaders)
	}
	return json.Unmarshal(text, (*[][2]T)(p))
}

// appendEvent appends the one line that an event has.
func appendEvent(b []byte, m *streams.Message) []byte {
	l := eventLine{Seq: m.Seq, Time: m.Time.UTC().Format(time.RFC3339Nano)}
	if utf8.ValidString(m.Subject) {
		l.Subject = m.Subject
	} else {
		l.Subject64 = []byte(m.Subject)
	}
	l.Headers, l.Headers64 = headersOf(m.Header)
	if utf8.Valid(m.Body) && escaped(m.Body) <= 2*len(m.Body) {
		text := string(m.Body)
		l.Body = &text
	} else {
		l.Body64 = m.Body
	}
	return appendLine(b, l)
}

// appendLine appends v as compact JSON and ends the line.
func appendLine(b []byte, v any) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // texts and numbers always encode
	}
	return append(b, buf.Bytes()...)
}

// escaped is about how long a text becomes as JSON. A body that is no text, but
// happens to be UTF-8, would become six times as long.
func escaped(text []byte) int {
	n := len(text)
	for _, c := range text {
		switch {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ':
			n += 5
		}
	}
	return n
}

// headersOf are the headers by name; those of one name in their order.
func headersOf(all map[string][]string) (texts [][2]string, raw [][2][]byte) {
	valid := true
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, value := range all[name] {
			texts = append(texts, [2]string{name, value})
			raw = append(raw, [2][]byte{[]byte(name), []byte(value)})
			valid = valid && utf8.ValidString(name) && utf8.ValidString(value)
		}
	}
	if valid {
		return texts, nil
	}
	return nil, raw
}

// errForm means that a line says something in another way than it is written.
var errForm = errors.New("it is not written as docs/archive.md says")

// parseEvent reads a line with its end. Only the very bytes that appendEvent
// writes are accepted, so that an event has one line.
func parseEvent(line []byte) (m streams.Message, err error) {
	var l eventLine
	if err := strictly(line, &l); err != nil {
		return m, fmt.Errorf("no event: %w", err)
	}
	if m.Time, err = time.Parse(time.RFC3339Nano, l.Time); err != nil {
		return m, fmt.Errorf("no event: %w", err)
	}
	m.Seq, m.Subject, m.Time = l.Seq, l.Subject+string(l.Subject64), m.Time.UTC()
	for _, h := range l.Headers {
		m.Header = with(m.Header, h[0], h[1])
	}
	for _, h := range l.Headers64 {
		m.Header = with(m.Header, string(h[0]), string(h[1]))
	}
	m.Body = l.Body64
	if l.Body != nil {
		m.Body = []byte(*l.Body)
	}
	if m.Seq == 0 || !bytes.Equal(appendEvent(nil, &m), line) {
		return m, errForm
	}
	return m, nil
}

func with(all map[string][]string, name, value string) map[string][]string {
	if all == nil {
		all = map[string][]string{}
	}
	all[name] = append(all[name], value)
	return all
}

// strictly decodes one line of JSON, of known members.
func strictly(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// Line is an event as a segment has it, with the end of the line.
func Line(m *streams.Message) []byte { return appendEvent(nil, m) }
