package plane

import (
	"context"
	"errors"
	"os"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
)

// A read model is derived, so a damaged one is no loss: it is moved aside, once,
// and the log makes it anew.

// checkCorrupt refuses to start on a damaged read model beside no log: there
// is nothing to make it anew from.
func (p *Plane) checkCorrupt() error {
	if p.opt.NATS != "" {
		return nil
	}
	_, there, err := streams.StoredLog(p.natsDir())
	if err != nil {
		return &UnusableError{"--data", err}
	}
	if !there {
		return &projector.OtherLogError{Dir: p.storeDir(), Detail: "it is damaged, and there is no log here"}
	}
	return nil
}

// putAside moves a damaged read model to store.damaged, in the place of one that
// may be there: whoever wants to know what happened has the last one, and the
// disk holds no more of them.
func (p *Plane) putAside() error {
	if p.corrupt == nil {
		return nil
	}
	aside := p.storeDir() + ".damaged"
	if err := errors.Join(os.RemoveAll(aside), os.Rename(p.storeDir(), aside), artifact.SyncDir(p.opt.Data)); err != nil {
		return &UnusableError{"--data", err}
	}
	p.log.Warn("the read model is damaged: it is moved aside, and made anew from the log", "old", aside, "error", p.corrupt.Detail)
	p.corrupt, p.found = nil, nil
	return nil
}

// openAnew opens a read model in the place of one that turned out to be damaged
// when it was read whole.
func (p *Plane) openAnew(ctx context.Context, opt projector.Options) (*projector.Projector, error) {
	if err := p.restore(ctx); err != nil {
		return nil, err
	}
	p.broken = make(chan error, 1)
	opt.Corrupt = p.corrupted
	return projector.Open(p.storeDir(), opt)
}

// corrupted takes that the read model turned out to be damaged.
func (p *Plane) corrupted(err error) {
	select {
	case p.broken <- err:
	default:
	}
}

// endCorrupt ends the process once the read model is known to be damaged: the
// next start makes it anew. A fold that went on would write what it cannot read.
func (p *Plane) endCorrupt(ctx context.Context) error {
	select {
	case err := <-p.broken:
		return err
	case <-ctx.Done():
		return nil
	}
}
