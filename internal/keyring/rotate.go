package keyring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/streams"
)

// Bounds of a transition. A node over NATS asks for what it missed every 30 s,
// and learns of a new key by that at the latest.
const (
	LeastTransition = time.Minute
	MostTransition  = 365 * 24 * time.Hour
)

// Rotation is a request to replace the plane's key.
type Rotation struct {
	Transition    time.Duration // how long nodes accept the key before
	Principal     string        // who asks; empty: nobody said
	CorrelationID string
	// Others are the workers that are alive but this one. It is asked once the
	// new key is known; an error refuses the rotation.
	Others func() ([]Worker, error)
}

// Worker is another worker, and the ids of the keys that it holds.
type Worker struct {
	Name string
	Keys []string
}

// RefusedError is why a rotation was refused. Nothing was changed. Why is one of
// ErrTransition, ErrInTransition and ErrNextKey.
type RefusedError struct {
	Why    error
	Detail string
}

// Error is the detail.
func (e *RefusedError) Error() string { return e.Detail }

// Unwrap is Why.
func (e *RefusedError) Unwrap() error { return e.Why }

// What a rotation is refused for.
var (
	ErrTransition   = errors.New("the transition is out of bounds")
	ErrInTransition = errors.New("the transition of the rotation before is not over")
	ErrNextKey      = errors.New("there is no new key, or not every worker holds it")
)

// Rotate replaces the plane's key: the record is moved, by compare-and-set, to
// name the new key and the one before, and every worker follows it. It returns
// the keys that are trusted then. The error is a *RefusedError where it is
// refused.
func (m *Manager) Rotate(ctx context.Context, ask Rotation) ([]Key, error) {
	m.change.Lock()
	defer m.change.Unlock()
	if ask.Transition < m.opt.LeastTransition || ask.Transition > MostTransition {
		return nil, &RefusedError{ErrTransition, fmt.Sprintf("transition %s: want %s to %s", ask.Transition, m.opt.LeastTransition, MostTransition)}
	}
	bucket, _ := m.kept()
	r, err := readRecord(ctx, bucket)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if until := r.transition(now); !until.IsZero() {
		return nil, inTransition(r, until)
	}
	next, err := m.nextKey(r, ask.Others)
	if err != nil {
		return nil, err
	}
	// Whole seconds, as everybody reads them alike.
	until := now.Add(ask.Transition).UTC().Truncate(time.Second).Add(time.Second)
	fault.Pass(fault.KeyMade)
	stands, err := writeRecord(ctx, bucket, r.rotated(next, now.UTC(), until, ask.Principal, ask.CorrelationID))
	fault.Pass(fault.KeyRecorded)
	if errors.Is(err, streams.ErrWrongSequence) {
		return nil, inTransition(stands, stands.transition(now))
	}
	if err != nil {
		return nil, err
	}
	if err := m.applyLocked(ctx, stands); err != nil {
		return nil, err
	}
	return m.Trusted(), nil
}

func inTransition(r record, until time.Time) error {
	return &RefusedError{ErrInTransition, fmt.Sprintf(
		"the plane's key was replaced, by %s, and nodes accept the one before until %s; rotate again after that", r.KeyID, until.Format(time.RFC3339))}
}

// nextKey is the key to sign with after a rotation: the one that was given for
// it, or, where the plane makes its keys itself, a new one.
func (m *Manager) nextKey(r record, others func() ([]Worker, error)) (*artifact.Signer, error) {
	if m.opt.Files.ours() {
		return m.makeKey(others)
	}
	m.mu.Lock()
	held := maps.Clone(m.held)
	m.mu.Unlock()
	for id, s := range held {
		if !r.used(id) {
			return s, heldByAll(id, others)
		}
	}
	if m.opt.Files.Next == "" {
		return nil, &RefusedError{ErrNextKey, "this worker holds no key but the plane's: make one with openssl genpkey -algorithm ed25519, " +
			"give it to every worker with --next-signing-key, and rotate then"}
	}
	return nil, &RefusedError{ErrNextKey, "every key that this worker holds signs for the plane or did, and none comes back: give --next-signing-key a new one"}
}

func (m *Manager) makeKey(others func() ([]Worker, error)) (*artifact.Signer, error) {
	s, err := artifact.GenerateSigner()
	if err == nil {
		err = heldByAll(s.KeyID(), others)
	}
	if err != nil {
		return nil, err
	}
	if err := s.Create(m.opt.Files.path(s.KeyID())); err != nil {
		return nil, fmt.Errorf("make the new key: %w", err)
	}
	m.mu.Lock()
	m.held[s.KeyID()] = s
	m.made = append(m.made, s.KeyID())
	m.mu.Unlock()
	return s, nil
}

// heldByAll refuses a rotation that would stop a worker.
func heldByAll(next string, others func() ([]Worker, error)) error {
	all, err := others()
	if err != nil {
		return err
	}
	var without []string
	for _, w := range all {
		if !slices.Contains(w.Keys, next) {
			without = append(without, w.Name)
		}
	}
	if len(without) > 0 {
		return &RefusedError{ErrNextKey, fmt.Sprintf(
			"worker %s does not hold the new key %s: start it with --next-signing-key, then rotate", strings.Join(without, ", "), next)}
	}
	return nil
}
