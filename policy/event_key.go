package policy

import (
	"fmt"
	"regexp"
	"time"

	"github.com/google/uuid"
)

// TypeKeyRotated is the name of KeyRotated on the wire.
const TypeKeyRotated = "signing_key_rotated"

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

type keyMembers struct {
	rotated KeyRotated // without its id and its author
}

var keyRotated = Kind{
	Type: TypeKeyRotated, Family: ofKeys, Schema: always(schemaKey),
	Detail: func(e Event) string { return e.(KeyRotated).Previous + " to " + e.(KeyRotated).Key },
	need:   []string{"key_id", "previous_key_id", "transition_expires"}, may: []string{"created_by"},
	own: []member{
		{"key_id", func(r *reader, rec *record) { rec.rotated.Key = readKeyID(r) }},
		{"previous_key_id", func(r *reader, rec *record) { rec.rotated.Previous = readKeyID(r) }},
		{"transition_expires", func(r *reader, rec *record) { rec.rotated.Expires = r.time() }},
	},
	read: func(rec *record) Event {
		e := rec.rotated
		e.ID, e.CreatedBy = rec.id, rec.createdBy
		return e
	},
}

// EventID implements Event.
func (e KeyRotated) EventID() uuid.UUID { return e.ID }

// EventType implements Event.
func (KeyRotated) EventType() string { return TypeKeyRotated }

// Scope implements Event: the key is the plane's.
func (KeyRotated) Scope() uuid.UUID { return uuid.Nil }

func (KeyRotated) describe() *Kind { return &keyRotated }

func (e KeyRotated) appendKey(b []byte) []byte { return append(b, e.Key...) }

func (e KeyRotated) appendMembers(b []byte) []byte {
	b = appendText(append(b, `,"key_id":`...), e.Key)
	b = appendText(append(b, `,"previous_key_id":`...), e.Previous)
	b = e.Expires.UTC().AppendFormat(append(b, `,"transition_expires":"`...), time.RFC3339Nano)
	return appendAuthor(append(b, '"'), e.CreatedBy)
}

// keyIDForm is that of the keys that the plane signs with (contracts).
var keyIDForm = regexp.MustCompile(`^ed25519:[0-9a-f]{16}$`)

func readKeyID(r *reader) string {
	b, ok := r.text("a key id string")
	if ok && !keyIDForm.Match(b) {
		r.note("", CodeInvalidKeyID, fmt.Sprintf("%.80q is no key id; write ed25519: and 16 hex digits", b))
		return ""
	}
	return string(b)
}
