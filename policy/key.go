package policy

import (
	"fmt"
	"regexp"
	"time"

	"github.com/google/uuid"
)

// KeyRotated says that the plane's key was replaced, by whom, and until when
// nodes accept the one before. No state follows from it: which key signs is a
// record beside the log, which moves only once this event is in the log.
type KeyRotated struct {
	ID        uuid.UUID
	Key       string    // id of the new one, such as ed25519:0123456789abcdef
	Previous  string    // id of the one before
	Expires   time.Time // from then on the one before counts for nothing
	CreatedBy string    // empty: nobody said
}

// EventID implements Event.
func (e KeyRotated) EventID() uuid.UUID { return e.ID }

// EventType implements Event.
func (KeyRotated) EventType() string { return TypeKeyRotated }

// Scope implements Event: the key is the plane's.
func (KeyRotated) Scope() uuid.UUID { return uuid.Nil }

func (KeyRotated) isEvent() {}

// appendKeyRotated appends what the event has beside its id and type.
func appendKeyRotated(b []byte, e KeyRotated) []byte {
	b = appendText(append(b, `,"key_id":`...), e.Key)
	b = appendText(append(b, `,"previous_key_id":`...), e.Previous)
	b = e.Expires.UTC().AppendFormat(append(b, `,"transition_expires":"`...), time.RFC3339Nano)
	b = append(b, '"')
	if e.CreatedBy != "" {
		b = appendText(append(b, `,"created_by":`...), e.CreatedBy)
	}
	return b
}

// keyIDForm is that of the keys that the plane signs with (contracts).
var keyIDForm = regexp.MustCompile(`^ed25519:[0-9a-f]{16}$`)

func (r *reader) keyID() string {
	b, ok := r.text("a key id string")
	if ok && !keyIDForm.Match(b) {
		r.note("", CodeInvalidKeyID, fmt.Sprintf("%.80q is no key id; write ed25519: and 16 hex digits", b))
		return ""
	}
	return string(b)
}
