package policy

import (
	"fmt"

	"github.com/google/uuid"
)

// Codes of a DecodeError: they are codes of the fold.
const (
	Undecodable = "undecodable"
	UnknownType = "unknown_type"
	Invalid     = "invalid"
)

// DecodeError says why a body is not an event this binary accepts.
type DecodeError struct {
	Code       string     // Undecodable, UnknownType or Invalid
	Violations Violations // never empty

	// EventID and EventType name the event, where the document could be walked to
	// its end: uuid.Nil and "" when it does not say them.
	EventID   uuid.UUID
	EventType string
}

// Error is the code and every fault.
func (e *DecodeError) Error() string { return e.Code + ": " + e.Violations.Error() }

// Decode reads an event. Every failure is a *DecodeError that holds all faults
// of the body.
//
// When the shape is sound but a domain rule is broken (Invalid), and the ids
// that name the event, its project, its policy and revision or its node could be
// read, Decode also returns the event as far as it could be read, so that the
// fold can recognise a duplicate whatever its body (docs/design.md#the-fold-is-the-judge). The event
// is nil in every other failure. It keeps no reference to body.
func Decode(body []byte) (e Event, err error) {
	readBody(body, func(r *reader) {
		r.record.read(r)
		r.end()
		e, err = r.record.event(r.faults)
		r.record = record{}
	})
	return e, err
}

// event is the event that was read with these faults, or why it is none.
func (rec *record) event(faults Violations) (Event, error) {
	if len(faults) == 0 {
		return rec.kind.read(rec), nil
	}
	fault := &DecodeError{Code: Invalid, Violations: faults}
	if !ended(faults) {
		fault.EventID, fault.EventType = rec.id, rec.typeName()
		// Of a document that could be walked to its end, an unknown type says more
		// than the faults found by reading it as one of the known ones.
		if rec.unknown != "" {
			fault.Code = UnknownType
			fault.Violations = Violations{{"/type", UnknownType, fmt.Sprintf("%.64q is not an event type of this family", rec.unknown)}}
			return nil, fault
		}
	}
	if _, misshapen := faults.Shape(); misshapen {
		fault.Code = Undecodable
		return nil, fault
	}
	if rec.kind != nil {
		if e := rec.kind.read(rec); identified(e) {
			return e, fault
		}
	}
	return nil, fault
}

// typeName is the event's type; one that is none is kept as far as errors quote it.
func (rec *record) typeName() string {
	if rec.kind != nil {
		return rec.kind.Type
	}
	return fmt.Sprintf("%.64s", rec.unknown)
}

// ended reports whether the reading did not reach the document's end.
func ended(faults Violations) bool {
	last := faults[len(faults)-1].Code
	return last == CodeMalformedJSON || last == CodeDuplicateKey
}

// identified reports whether every id is known that names the event and what it is
// about.
func identified(e Event) bool {
	k := KindOf(e)
	return e.EventID() != uuid.Nil && (k.Family.Plane || e.Scope() != uuid.Nil) &&
		len(e.appendKey(nil)) > 0 && (k.named == nil || k.named(e))
}

// read reads the members of an event.
func (rec *record) read(r *reader) {
	next := 0
	ok := r.object("an event", func(name []byte) bool {
		i, ok := kinds.place(name, next)
		if !ok {
			return false
		}
		next = i + 1
		rec.seen |= 1 << i
		if i == memberType {
			rec.readType(r)
		} else {
			kinds.members[i].read(r, rec)
		}
		return true
	})
	if !ok {
		return
	}
	if rec.kind == nil {
		r.require(kinds.bits("id", "type", "project_id"), rec.seen, kinds.names)
		return
	}
	if odd := rec.seen &^ rec.kind.allowed; odd != 0 {
		for i, name := range kinds.names {
			if odd&(1<<i) != 0 {
				r.note("/"+name, CodeUnknownField, "not a field of "+rec.kind.Type+"; remove it")
			}
		}
	}
	r.require(rec.kind.needed, rec.seen, kinds.names)
}

func (rec *record) readType(r *reader) {
	b, ok := r.text("a string")
	if !ok {
		return
	}
	if rec.kind = kinds.named[string(b)]; rec.kind == nil {
		rec.unknown = string(b)
		r.note("", UnknownType, "not an event type of this family")
	}
}
