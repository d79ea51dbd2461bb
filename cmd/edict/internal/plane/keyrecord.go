package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/streams"
)

// metaKey names, in bucket EDICT_META, the public half of the plane's key, as
// /v1/keys shows it.
const metaKey = "signing-key"

// OtherKeyError means that the plane has a key, and this worker another.
type OtherKeyError struct {
	Have, Want string // key ids: the worker's and the plane's
	File       string // where the worker's came from
}

// Error names both and says what to do.
func (e *OtherKeyError) Error() string {
	return fmt.Sprintf("the plane signs with key %s, and %s holds %s: every worker of a plane needs the same key; "+
		"give --signing-key the file that the other workers have", e.Want, e.File, e.Have)
}

// recordKey holds this worker's key against the plane's, and records it where
// the plane has none yet. Of workers that record different ones at the same
// time one is first, and the other is refused.
func (p *Plane) recordKey(ctx context.Context) error {
	bucket, err := streams.OpenMeta(ctx, p.conn)
	if err != nil {
		return err
	}
	ours := publicKey(p.signer)
	value, err := json.Marshal(ours)
	if err != nil {
		return err
	}
	text, _, err := bucket.Get(ctx, metaKey)
	if errors.Is(err, streams.ErrNotFound) {
		if _, err = bucket.Create(ctx, metaKey, value, 0); err == nil {
			return nil
		}
		text, _, err = bucket.Get(ctx, metaKey) // somebody else was first, or our answer was lost
	}
	if err != nil {
		return fmt.Errorf("read the plane's key: %w", err)
	}
	var theirs resource.Key
	if err := json.Unmarshal(text, &theirs); err != nil {
		return fmt.Errorf("read the plane's key in bucket %s: %w", streams.MetaBucket, err)
	}
	if theirs.PublicKey != ours.PublicKey {
		path, _ := p.keyFile()
		return &OtherKeyError{Have: ours.KeyID, Want: theirs.KeyID, File: path}
	}
	return nil
}
