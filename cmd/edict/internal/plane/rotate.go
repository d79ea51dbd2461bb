package plane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/edictdev/edict/api"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/fault"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
)

// Bounds of a transition. A node over NATS asks for what it missed every 30 s,
// and learns of a new key by that at the latest.
const (
	LeastTransition = time.Minute
	MostTransition  = 365 * 24 * time.Hour
)

// told is what a worker says of its keys to the others.
func (k *keyset) told() (signs string, holds []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ring.Current().KeyID(), k.ids()
}

// rotateKey replaces the plane's key: the record is moved, by compare-and-set,
// to name the new key and the one before, and every worker follows it. The
// error is an *api.RotationError where it is refused.
func (p *Plane) rotateKey(ctx context.Context, ask api.Rotation) ([]resource.Key, error) {
	p.keys.change.Lock()
	defer p.keys.change.Unlock()
	least := LeastTransition
	if p.opt.leastTransition > 0 {
		least = p.opt.leastTransition
	}
	if ask.Transition < least || ask.Transition > MostTransition {
		return nil, &api.RotationError{Code: api.CodeInvalidTransition, Detail: fmt.Sprintf("transition %s: want %s to %s", ask.Transition, least, MostTransition)}
	}
	bucket, _ := p.keys.kept()
	r, err := readKey(ctx, bucket)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if until := r.transition(now); !until.IsZero() {
		return nil, inTransition(r, until)
	}
	next, err := p.nextKey(r)
	if err != nil {
		return nil, err
	}
	// Whole seconds, as everybody reads them alike.
	until := now.Add(ask.Transition).UTC().Truncate(time.Second).Add(time.Second)
	fault.Pass(fault.KeyMade)
	stands, err := writeKey(ctx, bucket, r.rotated(next, now.UTC(), until, ask.Principal, ask.CorrelationID))
	fault.Pass(fault.KeyRecorded)
	if errors.Is(err, streams.ErrWrongSequence) {
		return nil, inTransition(stands, stands.transition(now))
	}
	if err != nil {
		return nil, err
	}
	if err := p.adoptHeld(ctx, stands); err != nil {
		return nil, err
	}
	return p.keysNow(), nil
}

func inTransition(r keyRecord, until time.Time) error {
	return &api.RotationError{Code: api.CodeKeyInTransition, Detail: fmt.Sprintf(
		"the plane's key was replaced, by %s, and nodes accept the one before until %s; rotate again after that", r.KeyID, until.Format(time.RFC3339))}
}

// nextKey is the key to sign with after a rotation: the one that was given for
// it, or, where the plane makes its keys itself, a new one.
func (p *Plane) nextKey(r keyRecord) (*artifact.Signer, error) {
	missing := func(format string, args ...any) error {
		return &api.RotationError{Code: api.CodeNextKeyMissing, Detail: fmt.Sprintf(format, args...)}
	}
	if _, ours := p.keyFile(); ours {
		s, err := artifact.GenerateSigner()
		if err == nil {
			err = p.heldByAll(s.KeyID())
		}
		if err != nil {
			return nil, err
		}
		err = s.Create(p.keyPath(s.KeyID()))
		if err != nil {
			return nil, fmt.Errorf("make the new key: %w", err)
		}
		p.keys.mu.Lock()
		p.keys.held[s.KeyID()] = s
		p.keys.mu.Unlock()
		return s, nil
	}
	p.keys.mu.Lock()
	held := maps.Clone(p.keys.held)
	p.keys.mu.Unlock()
	for id, s := range held {
		if !r.used(id) {
			return s, p.heldByAll(id)
		}
	}
	if p.opt.NextSigningKey == "" {
		return nil, missing("this worker holds no key but the plane's: make one with openssl genpkey -algorithm ed25519, " +
			"give it to every worker with --next-signing-key, and rotate then")
	}
	return nil, missing("every key that this worker holds signs for the plane or did, and none comes back: give --next-signing-key a new one")
}

// heldByAll refuses a rotation that would stop a worker.
func (p *Plane) heldByAll(next string) error {
	live := p.workers.Live()
	if !slices.ContainsFunc(live, func(w relay.Worker) bool { return w.Owner == p.owner }) {
		return errors.New("the other workers are not known yet")
	}
	var without []string
	for _, w := range live {
		if w.Owner != p.owner && !slices.Contains(w.Keys, next) {
			without = append(without, w.Name)
		}
	}
	if len(without) > 0 {
		return &api.RotationError{Code: api.CodeNextKeyMissing, Detail: fmt.Sprintf(
			"worker %s does not hold the new key %s: start it with --next-signing-key, then rotate", strings.Join(without, ", "), next)}
	}
	return nil
}

// endTransitions has the previous key go when the transition of a rotation is
// over, until ctx ends.
func (p *Plane) endTransitions(ctx context.Context) error {
	for ctx.Err() == nil {
		wait(ctx, p.look())
		r := p.keys.now()
		if k, _ := p.keys.ring.Now(); p.keys.untidy.Load() || k.Previous != nil && r.transition(time.Now()).IsZero() {
			if err := p.adopt(ctx, r); errors.As(err, new(*OtherKeyError)) {
				return err
			}
		}
	}
	return nil
}

// look is how long the next look may wait.
func (p *Plane) look() time.Duration {
	if p.opt.leastTransition > 0 {
		return min(keyLook, p.opt.leastTransition/20)
	}
	return keyLook
}
