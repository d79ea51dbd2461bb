package artifact

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edictdev/edict/policy"
)

// TypeKeyRotated is the type of the notice that announces the plane's new key to a
// node, under the key before it (plexsphere 3.2).
const TypeKeyRotated = "signing_key_rotated"

// ErrRetiredKey: a key that was replaced names another, or is named again.
var ErrRetiredKey = errors.New("retired key")

// Rotation is the announcement that the plane's key is replaced.
type Rotation struct {
	KeyID       string // of the new key
	PublicKey   []byte // raw, 32 bytes
	Previous    string // key id
	PreviousKey []byte // raw
	// Until is the end of the transition: the previous key counts for nothing
	// after it.
	Until time.Time
}

// Rotation is the announcement at a time; not ok: no transition is under way.
func (k Keys) Rotation(now time.Time) (r Rotation, ok bool) {
	if k.Previous == nil || !now.Before(k.Until) {
		return Rotation{}, false
	}
	return Rotation{k.Current.keyID, k.Current.PublicKey(), k.Previous.keyID, k.Previous.PublicKey(), k.Until}, true
}

// rotationPayload is the notice's payload in the current dialect.
type rotationPayload struct {
	KeyID     string    `json:"key_id"`
	PublicKey []byte    `json:"public_key"`
	Previous  string    `json:"previous_key_id"`
	Until     time.Time `json:"transition_expires"`
}

// Payload is the notice's payload in the current dialect.
func (r Rotation) Payload() []byte {
	return marshal(rotationPayload{r.KeyID, r.PublicKey, r.Previous, r.Until.UTC()})
}

// LegacyPayload is the payload in the legacy dialect: its agents name no keys,
// and try one after the other.
func (r Rotation) LegacyPayload() []byte {
	return marshal(struct {
		Current  string    `json:"current"`
		Previous string    `json:"previous"`
		Until    time.Time `json:"transition_expires"`
	}{base64.StdEncoding.EncodeToString(r.PublicKey), base64.StdEncoding.EncodeToString(r.PreviousKey), r.Until.UTC()})
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and a time, which the plane set itself
	}
	return b
}

// AppendRotation appends the notice that announces the current key to a node (its
// scope), in its agent's dialect, signed by the previous one. Not ok: no
// transition is under way.
func (k Keys) AppendRotation(d policy.Dialect, b []byte, node string, now time.Time) (notice []byte, ok bool) {
	r, ok := k.Rotation(now)
	if !ok {
		return b, false
	}
	payload := r.Payload()
	if d == policy.DialectLegacy {
		payload = r.LegacyPayload()
	}
	return k.Previous.AppendNoticeIn(d, b, Notice{
		ID: node + ".key." + r.KeyID, Type: TypeKeyRotated, Scope: "node:" + node, IssuedAt: now, Payload: payload,
	}), true
}

// Rotate has the set trust the key that a notice of TypeKeyRotated names, and
// its signer no longer than the transition lasts. n must come from Check. The
// set grows in no other way: only a key in force may name its successor, which
// must not be one that was replaced before. A notice that says what is known
// already changes nothing.
func (t *TrustSet) Rotate(n Notice, now time.Time) error {
	var p rotationPayload
	if err := json.Unmarshal(n.Payload, &p); err != nil {
		return fmt.Errorf("%w %s: %w", ErrMalformed, TypeKeyRotated, err)
	}
	switch {
	case n.Type != TypeKeyRotated:
		return fmt.Errorf("%w %s: its type is %.40q", ErrMalformed, TypeKeyRotated, n.Type)
	case p.Previous != n.KeyID:
		return fmt.Errorf("%w %s: it replaces %.40q, and %.40q signed it", ErrMalformed, TypeKeyRotated, p.Previous, n.KeyID)
	case p.KeyID == n.KeyID || p.KeyID != KeyID(p.PublicKey):
		return fmt.Errorf("%w %s: %.40q is not the id of its key", ErrMalformed, TypeKeyRotated, p.KeyID)
	case !now.Before(p.Until):
		return fmt.Errorf("%w: the transition from %s ended at %s", ErrExpiredKey, n.KeyID, p.Until.UTC().Format(time.RFC3339))
	}
	return t.succeed(n.KeyID, p.KeyID, p.PublicKey, p.Until)
}

// Repeats reports whether a notice announces a key that the set has in force already. Such
// a notice says nothing new, whoever signed it and whenever: it need not verify.
func (t *TrustSet) Repeats(doc []byte) bool {
	var n Notice
	var p rotationPayload
	if json.Unmarshal(doc, &n) != nil || n.Type != TypeKeyRotated || json.Unmarshal(n.Payload, &p) != nil {
		return false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	next, known := t.keys[trustKey{PlanePolicy, p.KeyID}]
	return known && next.notAfter.IsZero()
}

// succeed puts next in the place of a key of plane "policy".
func (t *TrustSet) succeed(keyID, next string, public []byte, until time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, there := t.keys[trustKey{PlanePolicy, keyID}]
	if !there {
		return fmt.Errorf("%w: %.80q is not trusted for plane %s", ErrUnknownKey, keyID, PlanePolicy)
	}
	known, repeated := t.keys[trustKey{PlanePolicy, next}]
	switch {
	case repeated && !known.notAfter.IsZero():
		return fmt.Errorf("%w: %s was replaced before", ErrRetiredKey, next)
	case !old.notAfter.IsZero() && !repeated:
		return fmt.Errorf("%w: %s was replaced, and may not name %s", ErrRetiredKey, keyID, next)
	case !old.notAfter.IsZero():
		return nil // known
	case !repeated:
		known = trusted{public: public, roots: new(roots)}
	}
	old.notAfter = until
	t.keys[trustKey{PlanePolicy, keyID}] = old
	t.keys[trustKey{PlanePolicy, next}] = known
	return nil
}

// TrustedKey is one key of a TrustSet.
type TrustedKey struct {
	KeyID     string    `json:"key_id"`
	PublicKey []byte    `json:"public_key"`
	NotAfter  time.Time `json:"not_after,omitzero"` // zero: it was not replaced
}

// Keys are those of a plane, by id, replaced and expired ones among them.
func (t *TrustSet) Keys(plane string) []TrustedKey {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var all []TrustedKey
	for id, k := range t.keys {
		if id.plane == plane {
			all = append(all, TrustedKey{id.id, k.public, k.notAfter})
		}
	}
	slices.SortFunc(all, func(a, b TrustedKey) int { return strings.Compare(a.KeyID, b.KeyID) })
	return all
}
