package keyring

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// RecordKey names the record in bucket EDICT_META that says which key signs.
const RecordKey = "signing-key"

// Bucket is what is asked of bucket EDICT_META; *streams.Bucket is one. What the
// methods promise is said there.
type Bucket interface {
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	Create(ctx context.Context, key string, value []byte, ttl time.Duration) (revision uint64, err error)
	Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error)
	Watch(ctx context.Context, after uint64) iter.Seq2[[]streams.Entry, error]
}

// Key is a public key of the plane, as the record and the API show it.
type Key struct {
	KeyID     string     `json:"key_id"`
	Alg       string     `json:"alg"`
	Plane     string     `json:"plane"`
	PublicKey string     `json:"public_key"` // base64 of the raw 32 bytes
	Status    string     `json:"status"`     // current or previous
	NotAfter  *time.Time `json:"not_after"`  // until when nodes trust it; nil: no end is known
}

const (
	statusCurrent  = "current"
	statusPrevious = "previous"
)

func publicKey(s *artifact.Signer) Key {
	return Key{
		KeyID: s.KeyID(), Alg: artifact.AlgEd25519, Plane: artifact.PlanePolicy,
		PublicKey: base64.StdEncoding.EncodeToString(s.PublicKey()), Status: statusCurrent,
	}
}

// record says with which key the plane signs: its value in EDICT_META. One that
// was never rotated is what binaries before rotation wrote.
type record struct {
	Key // the current one

	Previous *Key     `json:"previous,omitempty"` // the one before; trusted until its not_after
	Retired  []string `json:"retired,omitempty"`  // ids of all before, which never come back

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
func (r record) transition(now time.Time) time.Time {
	if r.Previous == nil || r.Previous.NotAfter == nil || !now.Before(*r.Previous.NotAfter) {
		return time.Time{}
	}
	return *r.Previous.NotAfter
}

// used reports whether a key is the plane's, or ever was.
func (r record) used(keyID string) bool {
	return keyID == r.KeyID || r.Previous != nil && keyID == r.Previous.KeyID || slices.Contains(r.Retired, keyID)
}

// rotated is the record after a rotation.
func (r record) rotated(next *artifact.Signer, now, until time.Time, by, correlation string) record {
	before := r.Key
	before.Status, before.NotAfter = statusPrevious, &until
	out := record{
		Key: publicKey(next), Previous: &before, Retired: slices.Clone(r.Retired),
		RotatedAt: now, RotatedBy: by, CorrelationID: correlation, EventID: uuid.Must(uuid.NewV7()), revision: r.revision,
	}
	if r.Previous != nil {
		out.Retired = append(out.Retired, r.Previous.KeyID)
	}
	return out
}

// ended is the record once the transition of its rotation is over.
func (r record) ended() record {
	r.Retired = append(slices.Clone(r.Retired), r.Previous.KeyID)
	r.Previous = nil
	return r
}

// event is the one of the rotation that made the record.
func (r record) event() policy.KeyRotated {
	return policy.KeyRotated{ID: r.EventID, Key: r.KeyID, Previous: r.Previous.KeyID, Expires: *r.Previous.NotAfter, CreatedBy: r.RotatedBy}
}

func readRecord(ctx context.Context, bucket Bucket) (record, error) {
	text, revision, err := bucket.Get(ctx, RecordKey)
	if err != nil {
		return record{}, fmt.Errorf("read the plane's key: %w", err)
	}
	return parseRecord(text, revision)
}

func parseRecord(text []byte, revision uint64) (r record, err error) {
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("read the plane's key in bucket %s: %w", streams.MetaBucket, err)
	}
	r.revision = revision
	return r, nil
}

// writeRecord puts the record in the place of the one it was made from. When the
// answer is lost it looks what stands. The error is streams.ErrWrongSequence
// when another worker was first.
func writeRecord(ctx context.Context, bucket Bucket, r record) (record, error) {
	value, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	var revision uint64
	if r.revision == 0 {
		revision, err = bucket.Create(ctx, RecordKey, value, 0)
	} else {
		revision, err = bucket.Update(ctx, RecordKey, value, r.revision, 0)
	}
	if err == nil {
		r.revision = revision
		return r, nil
	}
	stands, rerr := readRecord(ctx, bucket)
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
