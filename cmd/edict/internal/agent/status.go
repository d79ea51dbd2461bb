//go:build linux

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/enforce"
	"github.com/edictdev/edict/policy"
)

// State is how the rules in force stand to what the plane serves.
type State string

// The closed set of states.
const (
	StateNone    State = "none"    // nothing was applied yet
	StateCurrent State = "current" // they are what the plane served, not long ago, and it says when that changes
	StatePolling State = "polling" // they are what the plane served, not long ago; a change is found at the next look that it answers
	StateStale   State = "stale"   // the plane did not confirm them for MaxAge
	StateRefused State = "refused" // the plane serves others, which could not be applied
)

// Status is what an agent enforces.
type Status struct {
	Node        policy.NodeID `json:"node_id"`
	State       State         `json:"state"`
	Version     uint64        `json:"version"`     // log sequence at which the table was served
	Fingerprint string        `json:"fingerprint"` // of the table
	Elements    int           `json:"elements"`    // of the kernel's maps
	// AppliedAt is when the table came into force, ConfirmedAt when the plane last
	// said that it is the right one; zero: never.
	AppliedAt     time.Time `json:"applied_at,omitzero"`
	ConfirmedAt   time.Time `json:"confirmed_at,omitzero"`
	MaxAgeSeconds float64   `json:"max_age_seconds"`
	Error         string    `json:"error,omitempty"` // of the last look at the plane

	unkept bool // the table in force is not the one that a boot would put in force
	lost   bool // the kernel holds something else, which cannot be put right
	deaf   bool // the plane's events do not come
}

// unkeptError: the plane's table is in force, and could not be kept for the next boot.
type unkeptError struct{ err error }

func (e *unkeptError) Error() string {
	return fmt.Sprintf("keep the table, which is in force: %v; make room for it, or have it be written, and it is kept at the next look", e.err)
}

func (e *unkeptError) Unwrap() error { return e.err }

// At is the status as it is at a moment: what was not confirmed for too long is
// stale, whether an agent runs or not. So is what was confirmed that far in the
// future: the clock went back, and nobody knows how long ago it was.
func (s Status) At(now time.Time) Status {
	if (s.State == StateCurrent || s.State == StatePolling) && now.Sub(s.ConfirmedAt).Abs().Seconds() > s.MaxAgeSeconds {
		s.State = StateStale
	}
	return s
}

// Unattended is the status where no agent runs: nobody sees any more what the plane serves, and
// what others make of the rules.
func (s Status) Unattended() Status {
	if s.State == StateCurrent || s.State == StatePolling {
		s.State = StateStale
	}
	s.Error = strings.TrimSuffix("no agent runs: what the plane serves since is not known, nor whether the kernel still holds this; start it\n"+s.Error, "\n")
	return s
}

func (s *Status) apply(t *enforce.Table, elements int, now time.Time) {
	s.State, s.Version, s.Fingerprint, s.Elements, s.Error = StateCurrent, t.Version, t.Fingerprint, elements, ""
	s.AppliedAt = now
}

// confirm notes that the plane serves what is in force.
func (s *Status) confirm(now time.Time) {
	s.State, s.ConfirmedAt, s.Error = StateCurrent, now, ""
}

// miss notes why the table in force is not kept; nil: it is.
func (s *Status) miss(unkept *unkeptError) {
	if s.unkept = unkept != nil; s.unkept {
		s.Error = unkept.Error()
	}
}

// hear notes why the plane's events do not come; nil: they do. What is in force
// is not called current then, because nobody would say that it is no more. That they
// come again does not make it so: what changed meanwhile is found at the next look.
func (s *Status) hear(deaf error) {
	if s.deaf = deaf != nil; s.deaf && s.State == StateCurrent {
		s.State = StatePolling
		if s.Error == "" {
			s.Error = brief(deaf)
		}
	}
}

// maxError bounds what is kept and logged of an error, in bytes: the plane, or what
// stands between, may have written it.
const maxError = 4 << 10

func brief(err error) string {
	text := err.Error()
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + " …"
	}
	return text
}

// fail notes why the plane's table is not known, or not in force. What is in
// force stays what it was.
func (s *Status) fail(err error) {
	s.Error = brief(err)
	var refused *refusedError
	if errors.As(err, &refused) {
		s.State = StateRefused
	}
}

func (e *Enforcer) keepStatus() error {
	text, err := json.MarshalIndent(e.status, "", "  ")
	if err == nil {
		text, path := append(text, '\n'), e.root.path(statusFile)
		// Without room for two of them the old one makes way: it says what is not so any more.
		if err = artifact.ReplaceFile(e.opt.FS, path, text); err != nil && e.root.sweep(statusFile) == nil && e.opt.FS.RemoveAll(path) == nil {
			err = e.opt.FS.WriteFile(path, text)
		}
	}
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	return nil
}

// ReadStatus is what the agent of a directory wrote last.
func ReadStatus(files interface{ ReadFile(string) ([]byte, error) }, dir string) (s Status, err error) {
	text, err := files.ReadFile(filepath.Join(dir, statusFile))
	if err != nil {
		return s, err
	}
	if s, err = parseStatus(text); err != nil {
		return s, fmt.Errorf("%s: %w; an agent that runs writes it anew within 30 s", filepath.Join(dir, statusFile), err)
	}
	return s, nil
}

func parseStatus(text []byte) (s Status, err error) {
	err = json.Unmarshal(text, &s)
	if err == nil && (s.Node == "" || !slices.Contains(states, s.State)) {
		err = errors.New("it is no status of an agent")
	}
	return s, err
}
