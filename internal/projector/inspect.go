package projector

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/edictdev/edict/policy"
)

// Identity says which log a store was folded from, and in which layout.
type Identity struct {
	Schema     uint32
	Partitions int
	Created    time.Time // of the log
	Seq        uint64    // the last log sequence folded, though a crash took the store back
	Stored     uint64    // the last one that the store has, from where a fold goes on
	Base       uint64    // of event ids; 0 in a schema that had none
}

// LastID is the highest event id that a worker of the store may have sent.
func (i Identity) LastID() policy.EventID { return policy.EndOf(i.Base, i.Seq) }

// Inspect reads the identity of the store in dir and changes nothing. found is
// false when there is none. It fails with *LockedError when the store is in
// use, with *SchemaError when a newer Pebble wrote it, and with *CorruptError
// when it cannot be read; an older or newer schema is the caller's to judge.
func Inspect(dir string) (id Identity, found bool, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return id, false, nil
	}
	if err := known(dir); err != nil {
		return id, false, err
	}
	lock, err := pebble.LockDirectory(dir, vfs.Default)
	if err != nil {
		return id, false, notLocked(dir, err)
	}
	if err := marked(vfs.Default, dir); err != nil {
		return id, false, errors.Join(err, lock.Close())
	}
	opts := pebbleOptions(vfs.Default, lock, pebbleLog{slog.New(slog.DiscardHandler), dir})
	opts.ReadOnly = true
	opts.ErrorIfNotExists = true
	db, err := pebble.Open(dir, opts)
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return id, false, lock.Close()
	}
	if err != nil {
		return id, false, errors.Join(unreadable(dir, fmt.Errorf("read store %s: %w", dir, err)), lock.Close())
	}
	id, found, err = readIdentityOf(db)
	if err != nil {
		_ = errors.Join(db.Close(), lock.Close()) // of a store that cannot be read
		return id, false, unreadable(dir, fmt.Errorf("read store %s: %w", dir, err))
	}
	if found {
		id.Stored = id.Seq
		id.Seq = max(id.Seq, reachedIn(dir, id.Created))
	}
	return id, found, errors.Join(db.Close(), lock.Close())
}

// notLocked says why the store in dir could not be locked.
func notLocked(dir string, err error) error {
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("read store %s: it cannot be written: %w", dir, err)
	}
	return &LockedError{Dir: dir}
}

// known refuses a store in a format newer than ours.
func known(dir string) error {
	desc, err := pebble.Peek(dir, vfs.Default)
	if err != nil {
		var have uint32
		if _, format, ok := strings.Cut(err.Error(), "unknown format major version "); ok {
			if _, serr := fmt.Sscan(format, &have); serr == nil {
				return &SchemaError{Dir: dir, Have: have, Know: uint32(formatVersion), Format: true}
			}
		}
		return unreadable(dir, fmt.Errorf("read store %s: %w", dir, err))
	}
	if desc.Exists && desc.FormatMajorVersion > formatVersion {
		return &SchemaError{Dir: dir, Have: uint32(desc.FormatMajorVersion), Know: uint32(formatVersion), Format: true}
	}
	return nil
}

func readIdentityOf(db *pebble.DB) (id Identity, found bool, err error) {
	v, err := get(db, schemaKey())
	if errors.Is(err, pebble.ErrNotFound) {
		return id, false, nil
	}
	if err != nil {
		return id, false, err
	}
	schema, parts, err := readSchema(v)
	if err != nil {
		return id, false, err
	}
	id.Schema, id.Partitions = schema, int(parts)
	if schema > SchemaVersion {
		return id, true, nil // what else it holds is for the newer binary to read
	}
	if v, err = get(db, cursorKey()); err != nil {
		return id, false, err
	}
	if schema < SchemaVersion {
		created, seq, err := readPlace(v)
		id.Created, id.Seq = logTime(created), seq
		return id, true, err
	}
	c, err := readCursor(v)
	id.Created, id.Seq, id.Base = logTime(c.created), c.seq, c.base
	return id, true, err
}
