package policy

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// MaxCreatedBy is the most bytes of who made an event, and of a correlation id.
const MaxCreatedBy = 256

// uuid reads an id in its 36 character form. The nil UUID names nothing.
func (r *reader) uuid() uuid.UUID {
	b, ok := r.text("a UUID string")
	if !ok {
		return uuid.Nil
	}
	if len(b) == 36 { // uuid.ParseBytes takes other forms too
		if id, err := uuid.ParseBytes(b); err == nil && id != uuid.Nil {
			return id
		}
	}
	r.note("", CodeInvalidUUID, "want a UUID as xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, not all zeros")
	return uuid.Nil
}

// uuidOrNull is uuid where null stands for uuid.Nil.
func (r *reader) uuidOrNull() uuid.UUID {
	if r.null() {
		return uuid.Nil
	}
	return r.uuid()
}

func (r *reader) time() (t time.Time) {
	b, ok := r.text("an RFC 3339 time")
	if !ok {
		return t
	}
	if err := t.UnmarshalText(b); err != nil {
		r.note("", CodeInvalidTime, "want an RFC 3339 time such as 2026-11-20T12:00:00Z")
		return time.Time{}
	}
	return t.UTC()
}

// short reads a free text of at most MaxCreatedBy bytes.
func (r *reader) short() string {
	b, ok := r.text("a string")
	if len(b) > MaxCreatedBy {
		r.note("", CodeTextTooLong, fmt.Sprintf("%d bytes; at most %d", len(b), MaxCreatedBy))
		ok = false
	}
	if !ok {
		return ""
	}
	return string(b)
}

// flag reads a boolean; what is none counts as false.
func (r *reader) flag() bool {
	if !r.ended && r.dec.PeekKind() == 't' {
		return r.skip()
	}
	if r.expect('f', "true or false") {
		r.skip()
	}
	return false
}

// number reads an integer from least to most; another one is noted under code.
func (r *reader) number(least, most uint64, code, what string) (n uint64, ok bool) {
	if !r.expect('0', "an integer") {
		return 0, false
	}
	v, ok := r.value()
	if !ok {
		return 0, false
	}
	if bytes.ContainsAny(v, ".eE") {
		r.note("", CodeWrongType, fmt.Sprintf("want an integer, found %.32s", v))
		return 0, false
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil || n < least || n > most {
		r.note("", code, fmt.Sprintf("%.32s is not %s", v, what))
		return 0, false
	}
	return n, true
}

// sequence reads a place in the log: a whole number, written without fraction
// or exponent.
func (r *reader) sequence() uint64 {
	v, ok := r.value()
	if !ok {
		return 0
	}
	if v.Kind() != '0' {
		r.note("", CodeWrongType, "want a log sequence, found "+kindName(v.Kind()))
		return 0
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		r.note("", CodeInvalidVersion, "want a log sequence, a whole number from 0 to 2^64-1")
	}
	return n
}

// sequenceOrNull is sequence where null stands for nil.
func (r *reader) sequenceOrNull() *uint64 {
	if r.null() {
		return nil
	}
	n := r.sequence()
	return &n
}

// line is a text without control characters of at most most characters.
func (r *reader) line(most int, required bool) string {
	s, ok := r.prose(most)
	switch {
	case !ok:
	case required && strings.TrimSpace(s) == "":
		r.note("", CodeMissing, "must not be blank")
	case strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f }):
		r.note("", CodeControlCharacter, "has a control character; remove it")
	default:
		return s
	}
	return ""
}

// prose is any text of at most most characters.
func (r *reader) prose(most int) (string, bool) {
	b, ok := r.text("a string")
	if !ok {
		return "", false
	}
	if n := utf8.RuneCount(b); n > most {
		r.note("", CodeTextTooLong, fmt.Sprintf("%d characters; at most %d", n, most))
		return "", false
	}
	return string(b), true
}

// digest reads 32 bytes as 64 hex digits.
func (r *reader) digest(what string) (d [32]byte) {
	b, ok := r.text("a string")
	if !ok {
		return d
	}
	if n, err := hex.Decode(d[:], b[:min(len(b), 2*len(d))]); err != nil || n != len(d) || len(b) != 2*len(d) {
		r.note("", CodeInvalidToken, "want "+what+" as 64 hex digits")
	}
	return d
}

// oneOf reads one of two texts.
func oneOf[T ~string](r *reader, a, b T) T {
	text, ok := r.text("a string")
	if ok && T(text) != a && T(text) != b {
		r.note("", CodeUnknownKind, fmt.Sprintf("%.64q is neither %s nor %s", text, a, b))
	}
	return T(text)
}

// isLower reports a-z and 0-9.
func isLower(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// isAlphanumeric reports a-z, A-Z and 0-9.
func isAlphanumeric(c byte) bool { return isLower(c) || 'A' <= c && c <= 'Z' }
