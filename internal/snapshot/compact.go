package snapshot

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// ErrCompacting means that the log is being compacted already.
var ErrCompacting = errors.New("the log is being compacted already")

// BeyondError means that a log cannot begin where a compaction wants it to.
type BeyondError struct{ Detail string }

// Error says where it can.
func (e *BeyondError) Error() string { return e.Detail }

// Live is the read model of a worker that folded the log for itself; *projector.Projector
// is one.
type Live interface {
	Applied() uint64
	Wait(ctx context.Context, seq uint64) error
	Digest(ctx context.Context) (projector.Digest, error)
}

// CompactorOptions are what a Compactor works on. All but Sync are required.
type CompactorOptions struct {
	Conn    *streams.Conn
	Log     *streams.Log
	Live    Live
	Store   projector.Options // of a read model of the log; Links are read each time
	Scratch string            // directory that is made and removed
	Worker  string            // name of this one
	Signer  func() *artifact.Signer
	Trust   Trust
	// Links are those of the log's witness that count, after one that this worker
	// appended where it stands.
	Links func(ctx context.Context) ([]streams.Link, error)
	// Sync has all that the server stored on its disk. nil: it was when it was acknowledged, or
	// nobody here can do it.
	Sync   func() error
	Logger *slog.Logger
}

// Compactor gives the log an origin and removes what lies before it: never before the
// origin is stored, read back, compared with what this worker folded by itself, confirmed
// by the witness, and recorded. Whatever cuts it off, the same call goes on.
type Compactor struct {
	opt     CompactorOptions
	running sync.Mutex
}

// NewCompactor makes it.
func NewCompactor(opt CompactorOptions) *Compactor { return &Compactor{opt: opt} }

// Close waits for a compaction under way, and lets nobody begin another.
func (c *Compactor) Close() { c.running.Lock() }

// Compact makes the event at seq the origin of the log, and removes all before it. archive
// is what the archive of that is called; "": nobody named one. ErrCompacting while it
// is done already, here or by another worker that was first; *BeyondError where the log
// cannot begin there; streams.ErrDenyPurge.
func (c *Compactor) Compact(ctx context.Context, seq uint64, archive string) (m OriginManifest, err error) {
	if !c.running.TryLock() {
		return m, ErrCompacting
	}
	defer c.running.Unlock()
	if err := c.opt.Log.Purgeable(ctx); err != nil {
		return m, err
	}
	began := time.Now()
	if err := os.RemoveAll(c.opt.Scratch); err != nil { // of a crash
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.opt.Scratch)) }()
	checkpoints, err := OpenCheckpoints(ctx, c.opt.Conn, c.opt.Log.Created(), true)
	if err != nil {
		return m, err
	}
	x := compaction{Compactor: c, checkpoints: checkpoints, seq: seq, archive: archive}
	log := c.opt.Logger
	if m, err = x.run(ctx); err == nil {
		log.Info("the log is compacted", "seq", m.Seq, "bytes", m.Bytes, "seconds", time.Since(began).Seconds())
	}
	return m, err
}

// compaction is one run of it.
type compaction struct {
	*Compactor
	checkpoints *Checkpoints
	seq         uint64
	archive     string
	stands      streams.Origin // recorded as the run begins; Seq 0: none
}

func (x *compaction) run(ctx context.Context) (OriginManifest, error) {
	var err error
	x.stands, err = streams.FindOrigin(ctx, x.opt.Conn)
	if err != nil && !errors.Is(err, streams.ErrNotFound) {
		return OriginManifest{}, err
	}
	if x.stands.Log != x.opt.Log.ID() {
		x.stands = streams.Origin{Revision: x.stands.Revision} // of a log that is gone
	}
	if x.stands.Seq == x.seq { // one that was cut off behind its record
		m, err := OpenOrigin(x.stands.Document, x.opt.Trust)
		if err == nil {
			err = x.finish(ctx, m, x.stands)
		}
		return m, err
	}
	if err := x.bounds(ctx); err != nil {
		return OriginManifest{}, err
	}
	m, err := x.make(ctx)
	if err != nil {
		return m, x.outrun(ctx, err)
	}
	fault.Pass(fault.OriginStored)
	o, err := x.document(m)
	if err == nil {
		err = x.prove(ctx, o)
	}
	if err != nil {
		return m, errors.Join(x.outrun(ctx, err), x.checkpoints.objects.Delete(context.WithoutCancel(ctx), m.Name))
	}
	fault.Pass(fault.OriginProved)
	if err := x.record(ctx, m, o); err != nil {
		return m, err
	}
	fault.Pass(fault.OriginRecorded)
	return m, x.finish(ctx, m, o)
}

// outrun is what a compaction failed with, or that another worker was first meanwhile, and
// removed what this one read.
func (x *compaction) outrun(ctx context.Context, err error) error {
	stands, ferr := streams.FindOrigin(ctx, x.opt.Conn)
	if ferr != nil || stands.Revision == x.stands.Revision {
		return err
	}
	return fmt.Errorf("%w: another worker was first, and the log begins at %d", ErrCompacting, stands.Seq)
}

// bounds refuses a sequence that the log cannot begin at.
func (x *compaction) bounds(ctx context.Context) error {
	state, err := x.opt.Log.State(ctx)
	if err != nil {
		return err
	}
	first := max(state.First, x.opt.Log.Begins(), x.stands.Seq)
	switch {
	case x.seq <= first:
		return &BeyondError{fmt.Sprintf("the log begins at %d: there is nothing to be removed before %d", first, x.seq)}
	case x.seq > x.opt.Live.Applied():
		return &BeyondError{fmt.Sprintf("this worker has folded the log up to %d: it cannot begin at %d", x.opt.Live.Applied(), x.seq)}
	}
	return nil
}

// options are for a read model that is folded up to a sequence.
func (x *compaction) options(links []streams.Link, until uint64) projector.Options {
	opt := x.opt.Store
	opt.Links = links[:sort.Search(len(links), func(i int) bool { return links[i].Seq > until })]
	return opt
}

// begin is a read model to be folded into, from the origin that stands or the first event.
func (x *compaction) begin(ctx context.Context, dir string, opt projector.Options) (*Replayed, error) {
	if o, ok := x.opt.Log.Origin(); ok {
		return BeginFromOrigin(ctx, x.checkpoints, o, x.opt.Trust, x.opt.Log, dir, opt)
	}
	return Begin(x.opt.Log, dir, opt)
}

// make folds the log up to the origin, apart from the worker's read model, and stores what
// that comes to.
func (x *compaction) make(ctx context.Context) (m OriginManifest, err error) {
	links, err := x.opt.Links(ctx)
	if err != nil {
		return m, err
	}
	r, err := x.begin(ctx, filepath.Join(x.opt.Scratch, "fold"), x.options(links, x.seq))
	if err != nil {
		return m, err
	}
	copied := filepath.Join(x.opt.Scratch, "copy")
	var at projector.Checkpoint
	if err = r.FoldTo(ctx, x.seq, nil); err == nil {
		at, err = r.Store().Checkpoint(ctx, copied)
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return m, err
	}
	if at.Renamed {
		return m, &BeyondError{"the log has events that releases before store schema 6 named otherwise: it cannot be compacted"}
	}
	m = OriginManifest{Before: hex.EncodeToString(at.Before[:]), Archive: x.archive}
	m.Manifest, m.SHA256, err = x.checkpoints.store(ctx, at, originPrefix, copied, x.opt.Worker)
	return m, errors.Join(err, os.RemoveAll(x.opt.Scratch))
}

func (x *compaction) document(m OriginManifest) (o streams.Origin, err error) {
	document, err := m.seal(x.opt.Signer())
	if err != nil {
		return o, err
	}
	return m.origin(document, x.stands.Revision)
}

// prove reads the origin back, and folds it on to where this worker stands, whose read
// model was not made for this: both must have one digest, and the witness must confirm
// the chain hash behind the origin.
func (x *compaction) prove(ctx context.Context, o streams.Origin) error {
	links, err := x.opt.Links(ctx)
	if err != nil {
		return err
	}
	if n := len(links); n == 0 || links[n-1].Seq < x.seq {
		return fmt.Errorf("the log's witness does not confirm event %d yet: try again", x.seq)
	}
	if err := x.opt.Live.Wait(ctx, links[len(links)-1].Seq); err != nil {
		return err
	}
	live, err := x.opt.Live.Digest(ctx)
	if err != nil {
		return err
	}
	r, err := BeginFromOrigin(ctx, x.checkpoints, o, x.opt.Trust, x.opt.Log, filepath.Join(x.opt.Scratch, "proof"), x.options(links, live.Seq))
	if err != nil {
		return err
	}
	var res Result
	if err = r.FoldTo(ctx, live.Seq, nil); err == nil {
		res, err = r.Result(ctx)
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	if sum := hex.EncodeToString(live.Sum[:]); res.Digest != sum {
		return fmt.Errorf("the log, folded again from %d, has digest %s at %d, the read model of this worker has %s: nothing is removed; see edict replay --verify",
			x.seq, res.Digest, res.Seq, sum)
	}
	return nil
}

// record makes the origin that of the log, unless another worker was first.
func (x *compaction) record(ctx context.Context, m OriginManifest, o streams.Origin) error {
	_, err := streams.RecordOrigin(ctx, x.opt.Conn, o)
	if errors.Is(err, streams.ErrUnknown) || errors.Is(err, streams.ErrWrongSequence) {
		stands, ferr := streams.FindOrigin(ctx, x.opt.Conn)
		switch {
		case ferr != nil:
			return errors.Join(err, ferr)
		case string(stands.Document) == string(o.Document):
			return nil
		case stands.Revision != x.stands.Revision:
			err = fmt.Errorf("%w: another worker was first, and the log begins at %d", ErrCompacting, stands.Seq)
			return errors.Join(err, x.checkpoints.objects.Delete(ctx, m.Name))
		}
	}
	return err
}

// finish removes what lies before the origin that is recorded, after it was proved once
// more where that was before a crash.
func (x *compaction) finish(ctx context.Context, m OriginManifest, o streams.Origin) error {
	if x.stands.Seq == x.seq {
		if err := x.prove(ctx, o); err != nil {
			return err
		}
	}
	if x.opt.Sync != nil { // a power failure may take an origin that was stored, but not what was removed for it
		if err := x.opt.Sync(); err != nil {
			return fmt.Errorf("have the origin of the log on the disk: %w", err)
		}
	}
	if err := x.opt.Log.Purge(ctx, o); err != nil {
		return err
	}
	fault.Pass(fault.OriginPurged)
	if err := x.checkpoints.tidyOrigins(ctx, o, m.Name); err != nil {
		return fmt.Errorf("remove former origins: %w", err)
	}
	return nil
}
