package keyring

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/streams"
)

// Check holds the keys in files against the plane's record, if it has one, and makes
// neither: *OtherKeyError. A start asks before it changes anything.
func Check(ctx context.Context, files Files, find func(context.Context) (Bucket, error)) error {
	bucket, err := find(ctx)
	if errors.Is(err, streams.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := readRecord(ctx, bucket)
	if errors.Is(err, streams.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	held, err := files.held()
	if err != nil {
		return err
	}
	if id, until := r.lacking(held, time.Now()); id != "" {
		return &OtherKeyError{Want: id, Have: slices.Sorted(maps.Keys(held)), File: files.Signing, Expiry: until}
	}
	return nil
}

// lacking is a key that the plane needs at a time and that is not held, "" if there
// is none; until is the end of the transition that it is needed for.
func (r record) lacking(held map[string]*artifact.Signer, now time.Time) (id string, until time.Time) {
	if held[r.KeyID] == nil {
		return r.KeyID, time.Time{}
	}
	if until = r.transition(now); !until.IsZero() && held[r.Previous.KeyID] == nil {
		return r.Previous.KeyID, until
	}
	return "", time.Time{}
}

// held reads the keys that are there, by their ids.
func (f Files) held() (map[string]*artifact.Signer, error) {
	names, err := f.names()
	if err != nil {
		return nil, err
	}
	held := map[string]*artifact.Signer{}
	for _, name := range names {
		s, err := artifact.LoadSigner(name)
		if f.ours() && name == f.Signing && errors.Is(err, fs.ErrNotExist) {
			continue // nobody gave it
		}
		if err != nil {
			return nil, err
		}
		held[s.KeyID()] = s
	}
	return held, nil
}
