package plane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
)

// guard is the alarm of a damaged log. Once raised it stays until the process
// ends: the fold stands where the log was last known to be whole, writes are
// refused, and reads that ask for the log's head get no answer.
type guard struct {
	log *slog.Logger

	mu     sync.Mutex
	stop   context.CancelFunc // ends the fold; nil: it has not begun
	damage error
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

// watch has the alarm end the fold by stop; at once, if it was raised before.
func (g *guard) watch(stop context.CancelFunc) {
	g.mu.Lock()
	g.stop = stop
	raised := g.damage != nil
	g.mu.Unlock()
	if raised {
		stop()
	}
}

// raised is why the fold stands; nil: it does not.
func (g *guard) raised() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.damage
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
