package disk

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"
)

// Options say what is guarded.
type Options struct {
	Dir string // the data directory, as messages name it
	// Parts of the data, below Dir or elsewhere, that may lie on file systems of
	// their own.
	Parts   []string
	LogDir  string // where the embedded server keeps the log; "": the log is elsewhere
	MinFree uint64 // bytes below which authors are refused; 0: nothing is refused for want of space
	Server  Server // the embedded one; nil: the log is elsewhere
	Log     *slog.Logger
}

// Server is what is asked of the embedded server; *streams.Server is one.
type Server interface {
	Failed() error
	Refuse(on bool) error
	Restart() error
}

// Guard watches how much of the disk is free. It is safe for concurrent use; Run
// runs it.
type Guard struct {
	opt  Options
	log  *slog.Logger
	free func(dir string) (uint64, error)

	brief time.Duration // of WaitBriefly

	again   time.Time // before it no restart is tried
	pause   time.Duration
	refused bool // the log refuses everybody

	mu     sync.Mutex
	gone   bool // the log's files are: its server is never restarted
	left   uint64
	low    bool          // authors are refused
	failed error         // the log's store met a full disk
	wide   chan struct{} // closed while the read model waits for nothing

	released chan struct{} // closed by Release
	once     sync.Once
}

// LookEvery is how often the disk is looked at. It costs one system call.
const LookEvery = 100 * time.Millisecond

// maxPause bounds the time between two restarts of a server whose store fails
// for another reason than space.
const maxPause = time.Minute

// brief is how long WaitBriefly waits: as long as what others write for a moment may take.
const brief = 5 * time.Second

const mib = 1 << 20

// NewGuard makes one.
func NewGuard(opt Options) *Guard {
	g := &Guard{
		opt: opt, log: opt.Log, free: freeBytes, brief: brief, left: math.MaxUint64,
		wide: make(chan struct{}), released: make(chan struct{}),
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	close(g.wide)
	return g
}

// CheckStart says whether there is space to start on: *FullError.
func (g *Guard) CheckStart() error {
	if free := g.headroom(); free < g.floor() {
		return &FullError{Dir: g.opt.Dir, Free: free, Need: g.floor()}
	}
	return nil
}

// FullError means that the disk has no space to start on.
type FullError struct {
	Dir        string
	Free, Need uint64 // bytes
}

// Error says how much is missing.
func (e *FullError) Error() string {
	return fmt.Sprintf("%d KiB of disk are free below %s, a start needs %d MiB; free some and start again", e.Free/1024, e.Dir, e.Need/mib)
}

// floor is what a start needs, and what there must be again before anything
// that met the full disk goes on.
func (g *Guard) floor() uint64 { return max(g.opt.MinFree/8, mib) }

// enough is what ends a time of refusal: a little more than began it, because
// compactions take and give back.
func (g *Guard) enough() uint64 { return g.opt.MinFree + g.opt.MinFree/16 }

// headroom is the free space, the least where the parts of the data lie on file
// systems of their own; where it cannot be known it is endless.
func (g *Guard) headroom() uint64 {
	left := uint64(math.MaxUint64)
	for _, dir := range append([]string{g.opt.Dir}, g.opt.Parts...) {
		if free, err := g.free(dir); err == nil {
			left = min(left, free)
		}
	}
	return left
}

// LogRoom is how many bytes the log may take before authors are refused for want
// of disk; known is false where the log lies elsewhere, or nobody can say.
func (g *Guard) LogRoom() (bytes uint64, known bool) {
	if g.opt.LogDir == "" {
		return 0, false
	}
	free, err := g.free(g.opt.LogDir)
	return free - min(free, g.opt.MinFree), err == nil
}

// Free is the free space, the least of the file systems that the data lies on; known
// is false where nobody can say.
func (g *Guard) Free() (bytes uint64, known bool) {
	left := g.headroom()
	return left, left != math.MaxUint64
}

// Run watches until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	tick := time.NewTicker(LookEvery)
	defer tick.Stop()
	for {
		g.look()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look measures once and does what follows from it.
func (g *Guard) look() {
	if g.isGone() {
		g.refuseWrites(true)
		return
	}
	left := g.headroom()
	failed := g.failure()
	switch now := time.Now(); {
	case failed == nil && now.After(g.again):
		g.pause = 0
	case failed != nil && left >= max(g.enough(), g.floor()) && !now.Before(g.again):
		failed = g.heal(failed)
		g.pause = min(max(2*g.pause, time.Second), maxPause)
		g.again = time.Now().Add(g.pause)
	}
	g.mu.Lock()
	g.left, g.failed = left, failed
	was := g.low
	g.low = left < g.opt.MinFree || g.low && left < g.enough()
	low := g.low
	g.mu.Unlock()
	switch {
	case low && !was:
		g.log.Warn("writes are refused: the disk is nearly full", "free_mib", left/mib, "min_free_mib", g.opt.MinFree/mib, "dir", g.opt.Dir)
	case was && !low:
		g.log.Info("writes are accepted again: enough disk is free", "free_mib", left/mib, "dir", g.opt.Dir)
	}
	g.refuseWrites(failed != nil || low && (left < g.opt.MinFree/2 || g.refused))
}

// Vanish has the log refuse everybody for good, because its files are gone. A
// server that was restarted then would begin with nothing.
func (g *Guard) Vanish() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone = true
}

func (g *Guard) isGone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gone
}

// refuseWrites has the log refuse producers that do not ask us first. A store that
// failed would leave them without any answer.
func (g *Guard) refuseWrites(refuse bool) {
	if g.opt.Server == nil || refuse == g.refused {
		return
	}
	if err := g.opt.Server.Refuse(refuse); err != nil {
		g.log.Debug("the server does not refuse or accept writes as the disk asks", "error", err) // asked again at the next look
		return
	}
	g.refused = refuse
}

// failure is why the log's store takes nothing; the first sight of it is logged.
func (g *Guard) failure() error {
	if g.opt.Server == nil {
		return nil
	}
	err := g.opt.Server.Failed()
	if err != nil && g.failed == nil {
		g.log.Error("the log's store failed; its server is restarted once enough disk is free", "error", err, "dir", g.opt.Dir)
	}
	return err
}

// heal restarts the log's server.
func (g *Guard) heal(failed error) error {
	g.mu.Lock()
	g.failed = failed // authors are answered with it while it lasts
	g.mu.Unlock()
	if err := g.opt.Server.Restart(); err != nil {
		g.log.Warn("the log's server could not be restarted; trying again", "error", err)
		return err
	}
	g.log.Info("restarted the log's server: its store takes messages again", "error", failed)
	return nil
}

// Writable says why nothing may be written now.
func (g *Guard) Writable() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.failed != nil:
		return fmt.Errorf("the log's store met a full disk; it takes events again once enough disk is free below %s", g.opt.Dir)
	case g.waiting():
		return fmt.Errorf("the read model met a full disk; it goes on once enough disk is free below %s", g.opt.Dir)
	case g.low:
		return fmt.Errorf("%d MiB of disk are free below %s; writes are taken again at %d MiB (--min-free %dMiB)",
			g.left/mib, g.opt.Dir, (g.enough()+mib-1)/mib, g.opt.MinFree/mib)
	}
	return nil
}

// waiting reports whether the read model waits for space: nobody would hear what
// became of a write. The caller holds g.mu.
func (g *Guard) waiting() bool {
	select {
	case <-g.wide:
		return false
	default:
		return true
	}
}

// await returns when the read model waits for no space, or ctx has ended.
func (g *Guard) await(ctx context.Context) {
	g.mu.Lock()
	wide := g.wide
	g.mu.Unlock()
	select {
	case <-wide:
	case <-ctx.Done():
	}
}

// WaitOut is called by the read model, whose write found the disk full, and
// returns when it is not, or when nobody may wait any more.
func (g *Guard) WaitOut() {
	select {
	case <-g.released:
		return
	default:
	}
	g.log.Error("the disk is full: the read model waits for space, reads go on", "dir", g.opt.Dir, "need_mib", g.floor()/mib)
	g.mu.Lock()
	wide := make(chan struct{})
	g.wide = wide
	g.mu.Unlock()
	defer close(wide)
	if g.awaitHeadroom(nil) {
		g.log.Info("enough disk is free: the read model goes on", "dir", g.opt.Dir)
	}
}

// WaitBriefly is WaitOut of a read model that is thrown away afterwards: what takes the space
// may be its own files, so it gives up after a while, and nobody else waits for it.
func (g *Guard) WaitBriefly() {
	over := time.NewTimer(g.brief)
	defer over.Stop()
	g.awaitHeadroom(over.C)
}

// awaitHeadroom waits until there is headroom; false: it was over, or nobody may wait any more.
func (g *Guard) awaitHeadroom(over <-chan time.Time) bool {
	tick := time.NewTicker(LookEvery)
	defer tick.Stop()
	for !g.HasHeadroom() {
		select {
		case <-tick.C:
		case <-over:
			return false
		case <-g.released:
			return false
		}
	}
	return true
}

// HasHeadroom says whether there is space for more than what must be written.
func (g *Guard) HasHeadroom() bool { return g.headroom() >= g.floor() }

// Release ends every waiting, because the plane stops.
func (g *Guard) Release() { g.once.Do(func() { close(g.released) }) }
