package convergence

import (
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// change is one event that changed the row of a policy for a label set.
type change struct {
	seq  uint64
	time time.Time
	has  bool // there is a row now
}

// at is its log timestamp in unix ns; 0: nobody knows any more.
func (c *change) at() int64 { return nanosOf(c.time) }

// nanosOf is a moment in unix ns; 0 of the zero time.
func nanosOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// timeOf is the moment that nanosOf gave.
func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// steps are what happened to a policy, newest first (projector.View.Steps). Of a
// long history the oldest part may be missing: its first step then counts as
// the beginning.
type steps []projector.Step

// row is what step i says to a label set, or nothing.
func (s steps) row(i int, labels policy.Labels) (fp compiler.Fingerprint, has bool) {
	if i >= len(s) || s[i].Deleted {
		return fp, false
	}
	sel, says := s[i].Selector, s[i].Fingerprint
	if x := s[i].Trial; x.Reached(labels) {
		sel, says = x.Selector, x.Fingerprint
	}
	if !sel.Matches(labels) {
		return fp, false
	}
	return says, true
}

// seq of a step. Where nobody knows it, no version reaches it.
func (s steps) seq(i int) uint64 {
	if s[i].Seq == 0 {
		return math.MaxUint64
	}
	return s[i].Seq
}

// changed reports whether step i changed the row.
func (s steps) changed(i int, labels policy.Labels) bool {
	after, has := s.row(i, labels)
	before, had := s.row(i+1, labels)
	return has != had || after != before
}

// last is the last change of the row; ok is false when there was none, so there
// never was a row.
func (s steps) last(labels policy.Labels) (c change, ok bool) {
	for i := range s {
		if s.changed(i, labels) {
			_, has := s.row(0, labels)
			return change{s.seq(i), s[i].Time, has}, true
		}
	}
	return change{}, false
}

// lastTable is the last change of what nodes of a label set look flows up in, as far as
// the policy has a part in it: of the row, or of what no row shows.
func (s steps) lastTable(labels policy.Labels) (c change, ok bool) {
	for i := range s {
		after, extended, has := s.revision(i, labels)
		before, was, had := s.revision(i+1, labels)
		if s.changed(i, labels) || has && had && after != before && (extended || was) {
			return change{s.seq(i), s[i].Time, has}, true
		}
	}
	return change{}, false
}

// revision is the one that step i gives to a label set, and whether it has anything of
// ordered policy.
func (s steps) revision(i int, labels policy.Labels) (id uuid.UUID, extended, has bool) {
	if _, has = s.row(i, labels); !has {
		return id, false, false
	}
	if x := s[i].Trial; x.Reached(labels) {
		return x.Revision, x.Extended, true
	}
	return s[i].Revision, s[i].Extended, true
}

// firstAbove is the first change above a sequence; ok is false when there is none.
func (s steps) firstAbove(seq uint64, labels policy.Labels) (c change, ok bool) {
	for i := range s {
		if s.seq(i) <= seq {
			break
		}
		if s.changed(i, labels) {
			_, has := s.row(0, labels)
			c, ok = change{s.seq(i), s[i].Time, has}, true
		}
	}
	return c, ok
}

// selectors are those that ever matched anything, each once.
func (s steps) selectors() []policy.Selector {
	seen := map[string]bool{}
	var out []policy.Selector
	add := func(sel policy.Selector) {
		if key := sel.Key(); !seen[key] {
			seen[key] = true
			out = append(out, sel)
		}
	}
	for _, x := range s {
		if !x.Deleted {
			add(x.Selector)
		}
		if x.Trial != nil {
			add(x.Trial.Selector)
		}
	}
	return out
}
