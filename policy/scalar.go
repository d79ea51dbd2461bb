package policy

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Limits of a policy's texts.
const (
	MaxSlug        = 64  // bytes
	MaxDisplayName = 128 // characters
	MaxCreatedBy   = 256 // bytes; of a correlation id too
)

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

func (r *reader) slug() string {
	b, ok := r.text("a string")
	if !ok {
		return ""
	}
	if !validSlug(b) {
		r.note("", CodeInvalidSlug,
			"a slug is 1 to 64 of a-z, 0-9 and '-', the first a letter")
		return ""
	}
	return string(b)
}

func validSlug(s []byte) bool {
	if len(s) == 0 || len(s) > MaxSlug || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for _, c := range s {
		if !isLower(c) && c != '-' {
			return false
		}
	}
	return true
}

func (r *reader) displayName() string {
	b, ok := r.text("a string")
	if !ok {
		return ""
	}
	if n := utf8.RuneCount(b); n > MaxDisplayName {
		r.note("", CodeInvalidDisplayName, fmt.Sprintf("%d characters; at most %d", n, MaxDisplayName))
		return ""
	}
	s := string(b)
	for i, c := range s {
		if unicode.IsControl(c) {
			r.note("", CodeInvalidDisplayName, fmt.Sprintf("control character %U at byte %d; remove it", c, i))
			return ""
		}
	}
	return s
}

// isLower reports a-z and 0-9.
func isLower(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// isAlphanumeric reports a-z, A-Z and 0-9.
func isAlphanumeric(c byte) bool { return isLower(c) || 'A' <= c && c <= 'Z' }
