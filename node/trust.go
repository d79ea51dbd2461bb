package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/artifact"
)

// UntrustedKeyError means that the plane signs with a key that no trusted key has
// announced. Either the key was replaced while this node was away for longer than the
// transition, or it is another plane.
type UntrustedKeyError struct {
	Err   error
	Asked bool // the follower was given no keys, and asked the plane for those that it trusts
}

// Error says what to do.
func (e *UntrustedKeyError) Error() string {
	what := "give the node the keys that the plane shows now (edict key list -o json, or GET /v1/keys)"
	if e.Asked {
		what = "start what follows the node again: it was given no keys, and takes those that the plane shows then"
	}
	return fmt.Sprintf("%v: the plane's key was replaced while this node was away, or this is another plane; make sure which, then %s", e.Err, what)
}

// Unwrap is what was found.
func (e *UntrustedKeyError) Unwrap() error { return e.Err }

// refuse makes a refusal of what did not verify.
func (f *Follower) refuse(seq string, err error) error {
	if errors.Is(err, artifact.ErrUnknownKey) || errors.Is(err, artifact.ErrExpiredKey) {
		err = &UntrustedKeyError{err, f.askKeys}
	}
	return &refusal{seq, err}
}

// rotate takes the plane's new key, which a verified notice names, into the trust set.
func (f *Follower) rotate(n artifact.Notice) error {
	if want := "node:" + string(f.id); n.Scope != want {
		return fmt.Errorf("its scope is %.80q, not %q", n.Scope, want)
	}
	before := f.trust.Keys(artifact.PlanePolicy)
	if err := f.trust.Rotate(n, f.opt.Now()); err != nil {
		return err
	}
	if after := f.trust.Keys(artifact.PlanePolicy); !slices.EqualFunc(before, after, sameTrust) {
		f.opt.Log.Info("the plane has a new key", "node", f.id, "previous", n.KeyID)
		f.learned = true
		return f.save()
	}
	return nil
}

// repeats reports whether a refused notice announces a key that is known. By this node's
// clock the transition may be over that the plane still announces, which is no matter then.
func (f *Follower) repeats(err error, doc []byte) bool {
	return errors.Is(err, artifact.ErrExpiredKey) && f.trust.Repeats(doc)
}

func sameTrust(a, b artifact.TrustedKey) bool {
	return a.KeyID == b.KeyID && a.NotAfter.Equal(b.NotAfter)
}

// savedTrust is what a state file keeps of keys that were announced.
type savedTrust struct {
	Given []string              `json:"given"` // ids of those that the follower was given
	Keys  []artifact.TrustedKey `json:"keys"`
}

func keyIDs(keys []artifact.TrustedKey) []string {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.KeyID
	}
	return ids
}

// savedTrust is nil until a key was announced.
func (f *Follower) savedTrust() *savedTrust {
	if !f.learned {
		return nil
	}
	return &savedTrust{f.given, f.trust.Keys(artifact.PlanePolicy)}
}

// restoreTrust restores the keys that an earlier follower was announced. If this
// follower was given other keys than that one, only those it was given count.
func (f *Follower) restoreTrust(s *savedTrust) error {
	if s == nil || f.askKeys || !slices.Equal(s.Given, f.given) {
		return nil
	}
	for _, k := range s.Keys {
		if k.KeyID != artifact.KeyID(k.PublicKey) && !slices.Contains(f.given, k.KeyID) {
			return fmt.Errorf("trust: %.80q is not the id of its key", k.KeyID)
		}
		if err := f.trust.Add(artifact.PlanePolicy, k.KeyID, k.PublicKey, k.NotAfter); err != nil {
			return err
		}
	}
	f.learned = true
	return nil
}

// maxUnknownKey bounds the live messages that are held because their key is not known
// yet: the next answer may begin with its announcement. It is low, because anybody can
// publish messages with an unknown key.
const maxUnknownKey = 64

// hold keeps a message whose key is unknown until the plane was asked.
func (s *session) hold(m *nats.Msg) {
	if len(s.unknownKey) < maxUnknownKey { // else an answer will bring it, if it is the plane's
		s.unknownKey = append(s.unknownKey, m)
	}
	s.askSoon(0)
}

// retryHeld takes what was held, now that an answer has come.
func (s *session) retryHeld(ctx context.Context) error {
	held := s.unknownKey
	s.unknownKey = nil
	for _, m := range held {
		i, err := s.openLive(m)
		if err != nil {
			s.forged(m, err)
			continue
		}
		if s.ofAnotherLog(m, i) {
			continue // the answer that has just come is about another log
		}
		if err := s.takeItem(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// forged counts a live message that the plane did not sign for this node.
func (s *session) forged(m *nats.Msg, err error) {
	s.f.forged.Add(1)
	s.f.opt.Log.Warn("a live message was refused", "node", s.f.id, "subject", m.Subject, "error", err)
}

// rotated takes the announcement of a key that an answer begins with.
func (s *session) rotated(m *nats.Msg) error {
	now := s.f.opt.Now()
	n, err := s.f.trust.Check(m.Data, now)
	if err != nil {
		return err
	}
	return s.f.rotate(n)
}
