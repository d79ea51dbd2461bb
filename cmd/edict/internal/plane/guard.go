package plane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// guard is the alarm of a damaged log. Once raised it stays until the process
// ends: the fold stands where the log was last known to be whole, writes are
// refused, and reads that ask for the log's head get no answer.
type guard struct {
	log *slog.Logger

	mu     sync.Mutex
	stop   context.CancelFunc // ends the fold; nil: it has not begun
	damage error
	left   error // why the process is to end, to be started again
}

// damaged reports whether err says that the log lost or changed its past, or is
// another one.
func damaged(err error) bool {
	var log *streams.DamagedError
	var store *projector.OtherLogError
	return errors.As(err, &log) || errors.As(err, &store)
}

// advise says what to do about a damaged log.
func advise(err error) error {
	if !damaged(err) {
		return err
	}
	return fmt.Errorf("%w; nothing is folded until that is settled: 'edict log verify' finds the damage, docs/recovery.md says what to do", err)
}

func (g *guard) raise(err error) {
	g.mu.Lock()
	first, stop := g.damage == nil, g.stop
	if first {
		g.damage = advise(err)
	}
	g.mu.Unlock()
	if !first {
		return
	}
	var d *streams.DamagedError
	if !errors.As(err, &d) {
		d = &streams.DamagedError{Damage: streams.DamageChanged}
	}
	g.log.Error("the log is damaged: the fold stands still and writes are refused", "damage", d.Damage, "from", d.From, "to", d.To, "error", g.damage)
	if stop != nil {
		stop()
	}
}

// leave ends the fold, and with it the process.
func (g *guard) leave(err error) {
	g.mu.Lock()
	g.left = err
	stop := g.stop
	g.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// watch has the alarm end the fold by stop; at once, if it was raised before.
func (g *guard) watch(stop context.CancelFunc) {
	g.mu.Lock()
	g.stop = stop
	over := g.damage != nil || g.left != nil
	g.mu.Unlock()
	if over {
		stop()
	}
}

// raised is why the fold stands; nil: it does not.
func (g *guard) raised() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.damage
}

// leaving is why the process is to end; nil: it is not.
func (g *guard) leaving() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.left
}

// RestoredError means that the log was declared to have been put back while this
// process ran, which tells nodes under ids that are over.
type RestoredError struct{ Base, Was uint64 }

// Error says what to do.
func (e *RestoredError) Error() string {
	return fmt.Sprintf("the log was declared to have been put back from a backup (edict log accept --restored): event ids count from %d now, not from %d; start this worker again",
		e.Base, e.Was)
}

// rebased is a *RestoredError if links tell of a higher base than this process
// gives ids from.
func (p *Plane) rebased(links []streams.Link) error {
	for _, l := range links {
		if l.Base > p.stream.Base() {
			return &RestoredError{Base: l.Base, Was: p.stream.Base()}
		}
	}
	return nil
}

// fold runs the fold until ctx ends. When the log turns out to be damaged the
// process stays, to be seen and asked; one that serves nobody ends.
func (p *Plane) fold(ctx context.Context, caught func()) error {
	run, stop := context.WithCancel(ctx)
	defer stop()
	p.guard.watch(stop)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		p.watchLog(run)
	}()
	err := p.catchUp(run, caught)
	if damaged(err) {
		p.guard.raise(err)
	}
	stop()
	<-watched
	if left := p.guard.leaving(); left != nil {
		return left
	}
	damage := p.guard.raised()
	if damage == nil {
		return err
	}
	if p.opt.NoAPI {
		return damage
	}
	<-ctx.Done()
	return nil
}
