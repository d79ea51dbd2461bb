package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// StateFileError means that the file of Options.State cannot be used.
type StateFileError struct {
	Path string
	Err  error
}

// Error says what to do.
func (e *StateFileError) Error() string {
	switch {
	case errors.Is(e.Err, fs.ErrNotExist):
		return fmt.Sprintf("state file %s: %v; make the directory", e.Path, e.Err)
	case errors.Is(e.Err, artifact.ErrNotRegular): // a device must not be removed
		return fmt.Sprintf("state file %s: %v; name one that may be replaced", e.Path, e.Err)
	case errors.Is(e.Err, errOthers):
		return fmt.Sprintf("state file %s: %v; name another file", e.Path, e.Err)
	}
	return fmt.Sprintf("state file %s: %v; remove it to begin anew", e.Path, e.Err)
}

// Unwrap is the reason.
func (e *StateFileError) Unwrap() error { return e.Err }

// errOthers: policies and artifacts are followed with a file each, for what the one keeps the other lacks.
var errOthers = errors.New("it is of who follows")

// saved is what a state file holds.
type saved struct {
	Node     string         `json:"node"`
	After    policy.EventID `json:"after"` // to resume after
	Policies []savedPolicy  `json:"policies"`
	Complete bool           `json:"complete,omitempty"` // nothing is missing in the rows, so that they can be reported
	Resolved bool           `json:"resolved,omitempty"` // the rows do not say by themselves what the node must apply
	Trust    *savedTrust    `json:"trust,omitempty"`
	// Artifacts: it is of who follows artifacts, and has no rows. A file of an older edict does not say so.
	Artifacts bool `json:"artifacts,omitempty"`
}

// savedPolicy is a row, or, without rules, the event id under which one was withdrawn.
// A row without an event id came by a pull.
type savedPolicy struct {
	PolicyID   uuid.UUID       `json:"policy_id"`
	EventID    policy.EventID  `json:"event_id,omitempty"`
	RevisionID uuid.UUID       `json:"revision_id"`
	Rules      json.RawMessage `json:"rules"`
	// Fingerprint is that of the rules, so that damage shows; empty in a file of an older edict.
	Fingerprint []byte `json:"fingerprint,omitempty"`
}

// restore reads the state file, once.
func (f *Follower) restore() error {
	if f.opt.State == "" || f.restored {
		return nil
	}
	text, err := artifact.ReadFile(f.opt.State)
	if errors.Is(err, fs.ErrNotExist) {
		// Without its directory there never will be one.
		if _, err := os.Stat(filepath.Dir(f.opt.State)); err != nil {
			return &StateFileError{f.opt.State, err}
		}
		f.restored = true
		return nil
	}
	var s saved
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil && s.Node != string(f.id) {
		err = fmt.Errorf("it is of node %.80q", s.Node)
	}
	switch {
	case err != nil:
	case s.Artifacts && !f.artifacts:
		err = fmt.Errorf("%w artifacts", errOthers)
	case f.artifacts && len(s.Policies) > 0:
		err = fmt.Errorf("%w policies", errOthers)
	}
	if err != nil {
		return &StateFileError{f.opt.State, err}
	}
	if err := f.restoreTrust(s.Trust); err != nil {
		return &StateFileError{f.opt.State, err}
	}
	if f.restored = true; f.artifacts {
		return nil // artifacts are pulled at first: only whom to trust is kept of them
	}
	if err := f.rows.restore(s.Policies); err != nil {
		f.restored = false
		return &StateFileError{f.opt.State, err}
	}
	f.unresolved = s.Resolved
	f.begin(s.After) // 0 in a file of an older edict without event ids: everything comes again, after a pull
	if s.Complete {
		f.position.Store(uint64(s.After))
	}
	return nil
}

// save replaces the state file: a crash leaves the old one or the new one.
func (f *Follower) save() error {
	if f.opt.State == "" {
		return nil
	}
	var text bytes.Buffer
	verbatim := json.NewEncoder(&text)
	verbatim.SetEscapeHTML(false) // the rules are those of their fingerprint as they stand
	err := verbatim.Encode(saved{
		Node: string(f.id), After: f.Cursor(), Policies: f.rows.saved(), Complete: f.Position() > 0,
		Resolved: f.rows.isResolved(), Trust: f.savedTrust(), Artifacts: f.artifacts,
	})
	if err == nil {
		err = artifact.WriteFile(f.opt.State, text.Bytes(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("save the state: %w", err)
	}
	return nil
}

// saved are the rows, and the ids of what was withdrawn, by policy id.
func (r *set) saved() []savedPolicy {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := []savedPolicy{}
	for id, row := range r.byID {
		sum := sha256.Sum256(row.Rules)
		all = append(all, savedPolicy{id, r.lastIDs[id], row.Revision, row.Rules, sum[:]})
	}
	for id, at := range r.lastIDs {
		if _, lives := r.byID[id]; !lives {
			all = append(all, savedPolicy{PolicyID: id, EventID: at})
		}
	}
	slices.SortFunc(all, func(a, b savedPolicy) int { return bytes.Compare(a.PolicyID[:], b.PolicyID[:]) })
	return all
}

func (r *set) restore(all []savedPolicy) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID, r.lastIDs = map[uuid.UUID]Row{}, map[uuid.UUID]policy.EventID{}
	for _, p := range all {
		if p.EventID > 0 {
			r.lastIDs[p.PolicyID] = p.EventID
		}
		sum := sha256.Sum256(p.Rules)
		if p.Fingerprint != nil && !bytes.Equal(p.Fingerprint, sum[:]) {
			return fmt.Errorf("the rules of policy %s are not those that were written", p.PolicyID)
		}
		if len(p.Rules) >= len("[]") && p.Rules[0] == '[' {
			r.byID[p.PolicyID] = Row{p.PolicyID, p.RevisionID, sum, p.Rules}
		}
	}
	return nil
}
