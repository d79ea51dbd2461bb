package plane

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"path/filepath"
	"sync"
	"time"

	"github.com/edictdev/edict/streams"
)

// room watches how much of the disk is left below the data directory, and
// keeps the plane's parts from meeting its end in the wrong order: authors are
// told first, then whoever writes to the log directly, and what is left is for
// folding and announcing what was accepted. What met a full disk all the same
// waits in it (the read model) or is restarted after it (the log's store).
type room struct {
	dir  string
	keep uint64 // --min-free; 0: nothing is refused for want of space
	log  *slog.Logger
	free func(dir string) (uint64, error)

	server logServer // nil: the log is elsewhere
	again  time.Time // before it no restart is tried
	pause  time.Duration

	mu      sync.Mutex
	gone    bool // the log's files are: its server is never restarted
	left    uint64
	low     bool          // authors are refused
	refused bool          // the log refuses everybody
	failed  error         // the log's store met a full disk
	wide    chan struct{} // closed while the read model waits for nothing

	released chan struct{} // closed by release
	once     sync.Once
}

// logServer is what room asks of the embedded server.
type logServer interface {
	Failed() error
	Refuse(on bool) error
	Restart() error
}

// look is how often the disk is looked at. It costs one system call.
const look = 100 * time.Millisecond

// maxPause bounds the time between two restarts of a server whose store fails
// for another reason than space.
const maxPause = time.Minute

const mib = 1 << 20

func newRoom(dir string, keep uint64, log *slog.Logger) *room {
	r := &room{
		dir: dir, keep: keep, log: log, free: freeBytes, left: math.MaxUint64,
		wide: make(chan struct{}), released: make(chan struct{}),
	}
	close(r.wide)
	return r
}

// floor is what a start needs, and what there must be again before anything
// that met the full disk goes on.
func (r *room) floor() uint64 { return max(r.keep/8, mib) }

// enough is what ends a time of refusal: a little more than began it, because
// compactions take and give back.
func (r *room) enough() uint64 { return r.keep + r.keep/16 }

// measure is the free space, the least where the parts of the data lie on file
// systems of their own; where it cannot be known it is endless.
func (r *room) measure() uint64 {
	left := uint64(math.MaxUint64)
	for _, dir := range []string{r.dir, filepath.Join(r.dir, storeName), filepath.Join(r.dir, natsName)} {
		if free, err := r.free(dir); err == nil {
			left = min(left, free)
		}
	}
	return left
}

// Run watches until ctx ends.
func (r *room) Run(ctx context.Context) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		r.look()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look takes the measure once and does what follows from it.
func (r *room) look() {
	if r.isGone() {
		r.tellLog(true)
		return
	}
	left := r.measure()
	failed := r.failure()
	switch now := time.Now(); {
	case failed == nil && now.After(r.again):
		r.pause = 0
	case failed != nil && left >= max(r.enough(), r.floor()) && !now.Before(r.again):
		failed = r.heal(failed)
		r.pause = min(max(2*r.pause, time.Second), maxPause)
		r.again = time.Now().Add(r.pause)
	}
	r.mu.Lock()
	r.left, r.failed = left, failed
	was := r.low
	r.low = left < r.keep || r.low && left < r.enough()
	low := r.low
	r.mu.Unlock()
	switch {
	case low && !was:
		r.log.Warn("writes are refused: the disk is nearly full", "free_mib", left/mib, "min_free_mib", r.keep/mib, "dir", r.dir)
	case was && !low:
		r.log.Info("writes are taken again: there is room on the disk", "free_mib", left/mib, "dir", r.dir)
	}
	r.tellLog(failed != nil || low && (left < r.keep/2 || r.refused))
}

// vanish has the log refuse everybody for good, because its files are gone. A
// server that was restarted then would begin with nothing.
func (r *room) vanish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
}

func (r *room) isGone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone
}

// tellLog has the log refuse producers that do not ask us first. A store that
// failed would leave them without any answer.
func (r *room) tellLog(refuse bool) {
	if r.server == nil || refuse == r.refused {
		return
	}
	if err := r.server.Refuse(refuse); err != nil {
		r.log.Debug("the log was not told of the disk", "error", err) // told again at the next look
		return
	}
	r.refused = refuse
}

// failure is why the log's store takes nothing; the first sight of it is logged.
func (r *room) failure() error {
	if r.server == nil {
		return nil
	}
	err := r.server.Failed()
	if err != nil && r.failed == nil {
		r.log.Error("the log's store failed; its server is restarted when there is room on the disk", "error", err, "dir", r.dir)
	}
	return err
}

// heal restarts the log's server.
func (r *room) heal(failed error) error {
	r.mu.Lock()
	r.failed = failed // told to authors while it lasts
	r.mu.Unlock()
	if err := r.server.Restart(); err != nil {
		r.log.Warn("the log's server could not be restarted; trying again", "error", err)
		return err
	}
	r.log.Info("restarted the log's server: its store takes messages again", "error", failed)
	return nil
}

// writable says why nothing may be written now.
func (r *room) writable() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.failed != nil:
		return fmt.Errorf("the log's store met a full disk; it takes events again once there is room below %s", r.dir)
	case r.waiting():
		return fmt.Errorf("the read model met a full disk; it goes on once there is room below %s", r.dir)
	case r.low:
		return fmt.Errorf("%d MiB of disk are free below %s; writes are taken again at %d MiB (--min-free %dMiB)",
			r.left/mib, r.dir, (r.enough()+mib-1)/mib, r.keep/mib)
	}
	return nil
}

// waiting reports whether the read model waits for space: nobody would hear what
// became of a write. The caller holds r.mu.
func (r *room) waiting() bool {
	select {
	case <-r.wide:
		return false
	default:
		return true
	}
}

// await returns when the read model waits for no space, or ctx has ended.
func (r *room) await(ctx context.Context) {
	r.mu.Lock()
	wide := r.wide
	r.mu.Unlock()
	select {
	case <-wide:
	case <-ctx.Done():
	}
}

// waitOut is called by the read model, whose write found the disk full, and
// returns when it is not, or when nobody may wait any more.
func (r *room) waitOut() {
	select {
	case <-r.released:
		return
	default:
	}
	r.log.Error("the disk is full: the read model waits for space, reads go on", "dir", r.dir, "need_mib", r.floor()/mib)
	r.mu.Lock()
	wide := make(chan struct{})
	r.wide = wide
	r.mu.Unlock()
	defer close(wide)
	tick := time.NewTicker(look)
	defer tick.Stop()
	for !r.roomy() {
		select {
		case <-tick.C:
		case <-r.released:
			return
		}
	}
	r.log.Info("there is room on the disk: the read model goes on", "dir", r.dir)
}

// roomy says whether there is room for more than what must be written.
func (r *room) roomy() bool { return r.measure() >= r.floor() }

// release ends every waiting, because the plane stops.
func (r *room) release() { r.once.Do(func() { close(r.released) }) }

// roomyLog is the log as the fold follows it: no further than the disk allows.
// A read model whose writes wait takes more only until its memory is full, and
// would hold up its readers then.
type roomyLog struct {
	*streams.Log
	room *room
}

// Follow yields what the log yields, each batch when there is room for it.
func (l roomyLog) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		for msgs, err := range l.Log.Follow(ctx, from) {
			l.room.await(ctx)
			if ctx.Err() != nil || !yield(msgs, err) {
				return
			}
		}
	}
}

// The parts of a data directory.
const (
	storeName = "store" // the read model
	natsName  = "nats"  // the log's and the node stream's server
	keyName   = "signing.key"
	keysName  = "keys" // other keys that the plane made
)

func (p *Plane) storeDir() string { return filepath.Join(p.opt.Data, storeName) }
func (p *Plane) natsDir() string  { return filepath.Join(p.opt.Data, natsName) }
