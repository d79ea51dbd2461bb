package plane

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/streams"
)

// metaKey names, in bucket EDICT_META, the record of the plane's key.
const metaKey = "signing-key"

// keyRecord says with which key the plane signs: its value in EDICT_META, moved
// by compare-and-set alone. Every worker goes by it. One that was never rotated
// is what binaries before rotation wrote.
type keyRecord struct {
	resource.Key // the current one

	Previous *resource.Key `json:"previous,omitempty"` // the one before; trusted until its not_after
	Retired  []string      `json:"retired,omitempty"`  // ids of all before, which never come back

	// Who replaced the key last, when, and in which request.
	RotatedAt     time.Time `json:"rotated_at,omitzero"`
	RotatedBy     string    `json:"rotated_by,omitempty"`
	CorrelationID string    `json:"correlation_id,omitempty"`
	// EventID is that of the rotation's event in the log; nil where none was
	// written, by a binary of before.
	EventID uuid.UUID `json:"event_id,omitzero"`

	revision uint64
}

// transition is the end of the transition under way; the zero time: there is
// none.
func (r keyRecord) transition(now time.Time) time.Time {
	if r.Previous == nil || r.Previous.NotAfter == nil || !now.Before(*r.Previous.NotAfter) {
		return time.Time{}
	}
	return *r.Previous.NotAfter
}

// ids are the keys that the plane needs at a time.
func (r keyRecord) ids(now time.Time) []string {
	if r.transition(now).IsZero() {
		return []string{r.KeyID}
	}
	return []string{r.KeyID, r.Previous.KeyID}
}

// used reports whether a key is the plane's, or ever was.
func (r keyRecord) used(keyID string) bool {
	return keyID == r.KeyID || r.Previous != nil && keyID == r.Previous.KeyID || slices.Contains(r.Retired, keyID)
}

// rotated is the record after a rotation.
func (r keyRecord) rotated(next *artifact.Signer, now, until time.Time, by, correlation string) keyRecord {
	before := r.Key
	before.Status, before.NotAfter = keyPrevious, &until
	out := keyRecord{
		Key: publicKey(next), Previous: &before, Retired: slices.Clone(r.Retired),
		RotatedAt: now, RotatedBy: by, CorrelationID: correlation, EventID: uuid.Must(uuid.NewV7()), revision: r.revision,
	}
	if r.Previous != nil {
		out.Retired = append(out.Retired, r.Previous.KeyID)
	}
	return out
}

const (
	keyCurrent  = "current"
	keyPrevious = "previous"
)

func publicKey(s *artifact.Signer) resource.Key {
	return resource.Key{
		KeyID: s.KeyID(), Alg: artifact.AlgEd25519, Plane: artifact.PlanePolicy,
		PublicKey: base64.StdEncoding.EncodeToString(s.PublicKey()), Status: keyCurrent,
	}
}

// readKey reads the record.
func readKey(ctx context.Context, bucket *streams.Bucket) (keyRecord, error) {
	text, revision, err := bucket.Get(ctx, metaKey)
	if err != nil {
		return keyRecord{}, fmt.Errorf("read the plane's key: %w", err)
	}
	return parseKey(text, revision)
}

func parseKey(text []byte, revision uint64) (r keyRecord, err error) {
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("read the plane's key in bucket %s: %w", streams.MetaBucket, err)
	}
	r.revision = revision
	return r, nil
}

// writeKey puts the record in the place of the one it was made from. When the
// answer is lost it looks what stands. The error is streams.ErrWrongSequence
// when another worker was first.
func writeKey(ctx context.Context, bucket *streams.Bucket, r keyRecord) (keyRecord, error) {
	value, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	var revision uint64
	if r.revision == 0 {
		revision, err = bucket.Create(ctx, metaKey, value, 0)
	} else {
		revision, err = bucket.Update(ctx, metaKey, value, r.revision, 0)
	}
	if err == nil {
		r.revision = revision
		return r, nil
	}
	stands, rerr := readKey(ctx, bucket)
	if rerr != nil {
		return r, errors.Join(err, rerr)
	}
	if again, _ := json.Marshal(stands); string(again) == string(value) {
		return stands, nil
	}
	if stands.revision != r.revision {
		err = streams.ErrWrongSequence
	}
	return stands, err
}
