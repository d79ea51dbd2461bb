package policy

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// IDOf is the id that an event's body says, whatever else it says: the UUID
// that is the first member "id" of a JSON object. It is uuid.Nil when that is
// none, and when the body cannot be read up to there. What stands behind it is
// not read, and which types and fields there are does not matter: the id of a
// body is the same for every release.
func IDOf(body []byte) (id uuid.UUID) {
	// A body that says the name nowhere need not be read, which takes a second for one
	// of millions of other names.
	if !bytes.Contains(body, []byte(`"id"`)) && bytes.IndexByte(body, '\\') < 0 {
		return id
	}
	readBody(body, func(r *reader) { id = readFirstID(r) })
	return id
}

func readFirstID(r *reader) uuid.UUID {
	if t, err := r.dec.ReadToken(); err != nil || t.Kind() != '{' {
		return uuid.Nil
	}
	for {
		name, err := r.dec.ReadValue() // the decoder refuses names that are no strings
		if err != nil {
			return uuid.Nil
		}
		if r.unquoted, err = jsontext.AppendUnquote(r.unquoted[:0], name); err != nil {
			return uuid.Nil
		}
		if string(r.unquoted) == "id" {
			return r.uuid()
		}
		if err := r.dec.SkipValue(); err != nil {
			return uuid.Nil
		}
	}
}
