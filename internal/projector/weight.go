package projector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/edictdev/edict/policy"
)

// lightest is what an entry weighs that keeps nothing of its message.
const lightest = 512

// lighten lets go of what the fold does not look at, because entries wait: for
// the witness, for their turn, for the disk. Of an event that is no good there is
// left what names it, and why; of others what they say, and of a revision its text.
func (e *entry) lighten() {
	size := len(e.msg.Body)
	e.msg.Header = nil
	e.msg.Subject = strings.Clone(e.msg.Subject)
	e.weight = lightest
	if e.fault != nil {
		e.fault = brief(e.fault)
	} else {
		e.weight += size
	}
	switch ev := e.event.(type) {
	case policy.RevisionCreated:
		if e.fault == nil {
			e.compact()
			return
		}
		ev.Revision.Rules = nil
		e.event = ev
	case policy.RevisionStaged:
		if e.fault != nil {
			ev.Revision.Rules = nil
		}
		e.event = ev
	case policy.ArtifactReleased:
		ev.Artifacts = nil // e.released has them
		e.event = ev
	}
	e.msg.Body = nil
}

// spacious is from which size on a body is kept without its white space. An
// ordinary one is not worth the look.
const spacious = 64 << 10

// compact keeps a large body without what says nothing: white space, of which a
// valid event may have megabytes.
func (e *entry) compact() {
	if len(e.msg.Body) < spacious {
		return
	}
	var small bytes.Buffer
	if json.Compact(&small, e.msg.Body) != nil { // it was decoded
		return
	}
	e.msg.Body = bytes.Clone(small.Bytes())
	e.weight = lightest + len(e.msg.Body)
}

// Bounds of what is reported, and stored for good, about the faults of one event: an
// event that is all faults must not grow by being refused.
const (
	maxFaults = 32
	faultText = 200 // bytes of a pointer and of a detail
)

func brief(fault *policy.DecodeError) *policy.DecodeError {
	kept := slices.Clone(fault.Violations[:min(len(fault.Violations), maxFaults)])
	for i := range kept {
		kept[i].Pointer, kept[i].Detail = shorten(kept[i].Pointer), shorten(kept[i].Detail)
	}
	if n := len(fault.Violations) - len(kept); n > 0 {
		kept[len(kept)-1].Detail += fmt.Sprintf("; and %d more faults", n)
	}
	return &policy.DecodeError{Code: fault.Code, Violations: kept, EventID: fault.EventID, EventType: fault.EventType}
}

// shorten gives text of at most faultText bytes, that keeps nothing else in memory.
func shorten(text string) string {
	if len(text) <= faultText {
		return strings.Clone(text)
	}
	return strings.ToValidUTF8(text[:faultText], "") + "…"
}
