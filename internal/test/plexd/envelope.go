package plexd

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// window is how far the time of an event may be from the agent's.
const window = 5 * time.Minute

// Event is one good event, as the agent met it.
type Event struct {
	Cursor   string // id of its frame
	ID, Type string
	Scope    string // current dialect
	IssuedAt time.Time
	Payload  json.RawMessage
}

// Reasons to skip an event.
var (
	ErrMalformed = errors.New("it cannot be read")
	ErrUnsigned  = errors.New("it lacks a signature, a time or a nonce")
	ErrStale     = errors.New("event is stale")
	ErrEarly     = errors.New("event is in the future")
	ErrForged    = errors.New("the signature is not of a key that is trusted")
	ErrReplayed  = errors.New("its nonce was met before")
	ErrLate      = errors.New("it announces the key that is trusted already, and is signed by the one before, whose time is over")
)

// current is the envelope of the current dialect. What is signed are its
// members but the last, in this order, as encoding/json writes them.
type current struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Scope     string          `json:"scope"`
	KeyID     string          `json:"key_id"`
	IssuedAt  time.Time       `json:"issued_at"`
	Payload   json.RawMessage `json:"payload"`
	Signature string          `json:"signature,omitempty"`
}

// legacy is that of the legacy dialect, to be signed likewise.
type legacy struct {
	Type      string          `json:"event_type"`
	ID        string          `json:"event_id"`
	IssuedAt  time.Time       `json:"issued_at"`
	Nonce     string          `json:"nonce"`
	Payload   json.RawMessage `json:"payload"`
	Signature string          `json:"signature,omitempty"`
}

// opened is an envelope of either dialect, not believed yet.
type opened struct {
	Event
	keyID, nonce, signature string
	signed                  []byte
}

func open(d Dialect, data []byte) (o opened, err error) {
	var form any
	switch d {
	case Current:
		var e current
		if err := json.Unmarshal(data, &e); err != nil {
			return o, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		o = opened{Event: Event{ID: e.ID, Type: e.Type, Scope: e.Scope, IssuedAt: e.IssuedAt, Payload: e.Payload}, keyID: e.KeyID, signature: e.Signature}
		e.Signature = ""
		form = e
	default:
		var e legacy
		if err := json.Unmarshal(data, &e); err != nil {
			return o, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		o = opened{Event: Event{ID: e.ID, Type: e.Type, IssuedAt: e.IssuedAt, Payload: e.Payload}, nonce: e.Nonce, signature: e.Signature}
		e.Signature = ""
		form = e
	}
	if o.ID == "" || o.Type == "" {
		return o, fmt.Errorf("%w: it has no id or no type", ErrMalformed)
	}
	if o.signed, err = json.Marshal(form); err != nil {
		return o, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return o, nil
}

// verifyKey is a key that may have signed an event.
type verifyKey struct {
	id    string // current dialect
	key   ed25519.PublicKey
	until time.Time // zero: it does not end
}

// trust is whom an agent believes, and which nonces it has met.
type trust struct {
	dialect Dialect

	mu                sync.Mutex
	current, previous verifyKey
	nonces            map[string]time.Time
}

func newTrust(d Dialect, keyID string, key ed25519.PublicKey) (*trust, error) {
	if len(key) != ed25519.PublicKeySize {
		return nil, errors.New("plexd: an identity without a signing key of 32 bytes")
	}
	return &trust{dialect: d, current: verifyKey{id: keyID, key: key}, nonces: map[string]time.Time{}}, nil
}

// verify says why an event is not to be believed.
func (t *trust) verify(o opened, now time.Time) error {
	switch age := now.Sub(o.IssuedAt); {
	case o.signature == "" || o.IssuedAt.IsZero() || t.dialect == Legacy && o.nonce == "":
		return ErrUnsigned
	case age > window:
		return fmt.Errorf("%w: signed %v ago", ErrStale, age)
	case age < -window:
		return fmt.Errorf("%w: by %v", ErrEarly, -age)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for nonce, met := range t.nonces {
		if now.Sub(met) > window {
			delete(t.nonces, nonce)
		}
	}
	if _, met := t.nonces[o.nonce]; met {
		return ErrReplayed
	}
	signature, err := base64.StdEncoding.DecodeString(o.signature)
	if err != nil || !t.signed(o, signature, now) {
		if t.late(o, signature) {
			return ErrLate
		}
		return fmt.Errorf("%w: %s", ErrForged, o.keyID)
	}
	if t.dialect == Legacy {
		t.nonces[o.nonce] = now
	}
	return nil
}

// signed tries the keys that the dialect would try.
func (t *trust) signed(o opened, signature []byte, now time.Time) bool {
	for _, k := range []verifyKey{t.current, t.previous} {
		switch {
		case k.key == nil, !k.until.IsZero() && now.After(k.until):
		case t.dialect == Current && (o.keyID == "" || o.keyID != k.id):
		case ed25519.Verify(k.key, o.signed, signature):
			return true
		}
	}
	return false
}

// late reports whether an announcement that is refused was read too late, and says nothing
// new. An agent of the field does not tell it from a forged one; it loses nothing.
func (t *trust) late(o opened, signature []byte) bool {
	var r rotation
	if o.Type != "signing_key_rotated" || t.previous.key == nil || !ed25519.Verify(t.previous.key, o.signed, signature) || json.Unmarshal(o.Payload, &r) != nil {
		return false
	}
	key, err := publicKey(cmp.Or(r.PublicKey, r.Current))
	return err == nil && bytes.Equal(key, t.current.key)
}

// rotation is the payload of signing_key_rotated in either dialect, and what
// the legacy one finds in its state.
type rotation struct {
	KeyID         string `json:"key_id"`
	PublicKey     string `json:"public_key"`
	PreviousKeyID string `json:"previous_key_id"`

	Current  string `json:"current"`
	Previous string `json:"previous"`

	Expires *time.Time `json:"transition_expires"`
}

// rotate takes new keys. The event that brings them was good.
func (t *trust) rotate(payload []byte) error {
	var r rotation
	if err := json.Unmarshal(payload, &r); err != nil {
		return err
	}
	var until time.Time
	if r.Expires != nil {
		until = *r.Expires
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dialect == Current {
		key, err := publicKey(r.PublicKey)
		if err != nil || r.KeyID == "" {
			return fmt.Errorf("signing_key_rotated without key_id or public_key: %w", err)
		}
		before := t.current
		before.until = until
		if r.PreviousKeyID != before.id {
			return fmt.Errorf("signing_key_rotated from %s, and the key is %s", r.PreviousKeyID, before.id)
		}
		t.current, t.previous = verifyKey{id: r.KeyID, key: key}, before
		return nil
	}
	now, err := publicKey(r.Current)
	if err != nil {
		return err
	}
	t.current, t.previous = verifyKey{key: now}, verifyKey{}
	if r.Previous != "" {
		before, err := publicKey(r.Previous)
		if err != nil {
			return err
		}
		t.previous = verifyKey{key: before, until: until}
	}
	return nil
}

func publicKey(text string) (ed25519.PublicKey, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err == nil && len(key) != ed25519.PublicKeySize {
		err = fmt.Errorf("a public key of %d bytes", len(key))
	}
	return key, err
}

// take dispatches one event of the stream, or counts why not.
func (a *Agent) take(cursor string, data []byte) {
	o, err := open(a.opt.Dialect, data)
	if err == nil {
		err = a.trust.verify(o, a.opt.Now())
	}
	if err != nil {
		a.book.note(func(c *Counters) { *c.reason(err)++ })
		if a.opt.Refused != nil {
			a.opt.Refused(cursor, err)
		}
		return
	}
	o.Cursor = cursor
	foreign := a.opt.Dialect == Current && o.Scope != "node:"+a.Identity().NodeID
	known, rotated := a.handle(o.Event)
	if a.opt.Dispatched != nil {
		a.opt.Dispatched(o.Event)
	}
	a.book.note(func(c *Counters) {
		c.Dispatched++
		for counter, holds := range map[*int]bool{&c.Unknown: !known, &c.Rotations: rotated, &c.Foreign: foreign} {
			if holds {
				*counter++
			}
		}
	})
}

func (c *Counters) reason(err error) *int {
	for reason, counter := range map[error]*int{
		ErrUnsigned: &c.Unsigned, ErrStale: &c.Stale, ErrEarly: &c.Early, ErrForged: &c.Forged, ErrReplayed: &c.Replayed, ErrLate: &c.Late,
	} {
		if errors.Is(err, reason) {
			return counter
		}
	}
	return &c.Malformed
}

// handle is what an event makes the agent do.
func (a *Agent) handle(e Event) (known, rotated bool) {
	switch e.Type {
	case "signing_key_rotated":
		return true, a.trust.rotate(e.Payload) == nil
	case "rotate_keys":
		return true, false
	case "node_state_updated", "policy_updated":
		if a.opt.Dialect == Current || a.opt.Handlers {
			a.pullSoon()
		}
		return true, false
	case "bridge_config_updated", "action_request", "session_setup", "session_revoked":
	default:
		if !strings.HasPrefix(e.Type, "peer_") {
			return false, false
		}
	}
	if a.opt.Dialect == Current {
		a.pullSoon()
	}
	return true, false
}
