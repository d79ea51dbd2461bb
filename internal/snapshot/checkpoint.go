package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// Manifest says what a checkpoint holds: everything that a store restored from
// it must turn out to be.
type Manifest struct {
	Name       string    `json:"name"` // of the object
	Seq        uint64    `json:"seq"`
	Chain      string    `json:"chain"` // chain hash at Seq, 64 hex digits
	Digest     string    `json:"digest"`
	Rows       int       `json:"rows"`
	Log        string    `json:"log"` // the log's identity, as Edict-Log has it
	Schema     uint32    `json:"schema"`
	Partitions int       `json:"partitions"`
	Bytes      uint64    `json:"bytes"` // of the object
	Time       time.Time `json:"time"`  // when it was made, by the worker's clock
	Worker     string    `json:"worker"`
}

// Objects are where checkpoints lie; *streams.Objects is one. What the methods
// promise is said there.
type Objects interface {
	Put(ctx context.Context, name string, r io.Reader) (streams.Object, error)
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	Delete(ctx context.Context, name string) error
	List(ctx context.Context) ([]streams.Object, error)
	Sweep(ctx context.Context, age time.Duration) (int, error)
}

// Pointer is where it is written which objects are checkpoints;
// *streams.Bucket is one.
type Pointer interface {
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	Create(ctx context.Context, key string, value []byte, ttl time.Duration) (revision uint64, err error)
	Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error)
}

// pointerKey holds the manifests of all checkpoints, newest first.
const pointerKey = "checkpoints"

// sweepAge is how old a broken transfer is when it is removed, or an object that
// the pointer was never moved to: older than any that may still be under way.
const sweepAge = 2 * time.Hour

// Checkpoints keeps copies of read models in an object store. The pointer names
// those that are whole: it is moved by compare-and-set, once the object stands,
// so that a crash at any point leaves the checkpoints that were there before.
type Checkpoints struct {
	objects Objects
	pointer Pointer
	log     string // identity
	fs      vfs.FS
}

// NewCheckpoints keeps those of the log created at that time.
func NewCheckpoints(objects Objects, pointer Pointer, created time.Time) *Checkpoints {
	return &Checkpoints{objects: objects, pointer: pointer, log: logID(created), fs: vfs.Default}
}

func logID(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 10) }

// List names the checkpoints of this log, newest first.
func (c *Checkpoints) List(ctx context.Context) ([]Manifest, error) {
	all, _, err := c.read(ctx)
	return slices.DeleteFunc(all, func(m Manifest) bool { return m.Log != c.log }), err
}

// read reads the pointer; revision 0: there is none.
func (c *Checkpoints) read(ctx context.Context) (all []Manifest, revision uint64, err error) {
	value, revision, err := c.pointer.Get(ctx, pointerKey)
	if errors.Is(err, streams.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the list of checkpoints: %w", err)
	}
	if err := json.Unmarshal(value, &all); err != nil {
		return nil, 0, fmt.Errorf("read the list of checkpoints: %w", err)
	}
	return all, revision, nil
}

// Source is a read model that can be copied; *projector.Projector is one.
type Source interface {
	Checkpoint(ctx context.Context, dir string) (projector.Checkpoint, error)
}

// Create copies a worker's read model into the store and has the pointer name
// it; of this log the newest keep stay. scratch is a directory beside the store
// that is made and removed.
func (c *Checkpoints) Create(ctx context.Context, from Source, scratch, worker string, keep int) (m Manifest, err error) {
	if err := c.fs.RemoveAll(scratch); err != nil { // of a crash
		return m, fmt.Errorf("checkpoint: %w", err)
	}
	defer func() { err = errors.Join(err, c.fs.RemoveAll(scratch)) }()
	at, err := from.Checkpoint(ctx, scratch)
	if err != nil {
		return m, err
	}
	if m, _, err = c.store(ctx, at, checkpointPrefix, scratch, worker); err != nil {
		return m, fmt.Errorf("checkpoint at %d: %w", m.Seq, err)
	}
	fault.Pass(fault.CheckpointBefore)
	kept, dropped, err := c.point(ctx, m, max(keep, 1))
	fault.Pass(fault.CheckpointAfter)
	if err != nil {
		// Whether the pointer was moved may be in doubt: the object stays.
		return m, fmt.Errorf("checkpoint at %d: point to it: %w", m.Seq, err)
	}
	if err := c.tidy(ctx, kept, dropped); err != nil {
		return m, fmt.Errorf("remove old checkpoints: %w", err)
	}
	return m, nil
}

// tidy deletes what the pointer names no longer, and what crashes left.
func (c *Checkpoints) tidy(ctx context.Context, kept, dropped []Manifest) error {
	for _, old := range dropped {
		if err := c.objects.Delete(ctx, old.Name); err != nil {
			return err
		}
	}
	err := c.remove(ctx, func(o streams.Object) bool {
		named := slices.ContainsFunc(kept, func(m Manifest) bool { return m.Name == o.Name })
		_, origin := originSeq(o.Name)
		return !named && !origin && time.Since(o.Time) > sweepAge
	})
	if err == nil {
		_, err = c.objects.Sweep(ctx, sweepAge)
	}
	return err
}

// point has the pointer name m, and returns those that it names now and those
// that it names no longer.
func (c *Checkpoints) point(ctx context.Context, m Manifest, keep int) (kept, dropped []Manifest, err error) {
	for {
		all, revision, err := c.read(ctx)
		if err != nil {
			return nil, nil, err
		}
		kept, dropped := ranked(append(all, m), m, keep)
		body, err := json.Marshal(kept)
		if err != nil {
			return nil, nil, err
		}
		if revision == 0 {
			_, err = c.pointer.Create(ctx, pointerKey, body, 0)
		} else {
			_, err = c.pointer.Update(ctx, pointerKey, body, revision, 0)
		}
		if !errors.Is(err, streams.ErrWrongSequence) {
			return kept, dropped, err
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
}

// ranked sorts checkpoints newest first and parts those to be kept from the
// rest: the newest of m's log, m in any case. Those of another log tell of a
// log that is gone.
func ranked(all []Manifest, m Manifest, keep int) (kept, dropped []Manifest) {
	slices.SortStableFunc(all, func(a, b Manifest) int {
		return cmpNewest(a, b)
	})
	for _, x := range all {
		switch {
		case x.Log == m.Log && (len(kept) < keep || x.Name == m.Name):
			kept = append(kept, x)
		default:
			dropped = append(dropped, x)
		}
	}
	return kept, dropped
}

func cmpNewest(a, b Manifest) int {
	switch {
	case a.Seq != b.Seq && a.Seq > b.Seq:
		return -1
	case a.Seq != b.Seq:
		return 1
	}
	return b.Time.Compare(a.Time)
}

// Store is where a plane keeps its checkpoints: an object store and a bucket of
// this name.
const Store = "EDICT_SNAPSHOTS"

// OpenCheckpoints finds the checkpoints of a log on its server. With fresh it
// makes place for them, otherwise none yet is streams.ErrNotFound.
func OpenCheckpoints(ctx context.Context, c *streams.Conn, created time.Time, fresh bool) (*Checkpoints, error) {
	const about = "Edict's checkpoints of the read model"
	objects, err := streams.OpenObjects(ctx, c, Store)
	if errors.Is(err, streams.ErrNotFound) && fresh {
		objects, err = streams.MakeObjects(ctx, c, Store, about)
	}
	if err != nil {
		return nil, err
	}
	pointer, err := streams.OpenBucket(ctx, c, streams.BucketOptions{Name: Store, Description: about})
	if err != nil {
		return nil, err
	}
	return NewCheckpoints(objects, pointer, created), nil
}
