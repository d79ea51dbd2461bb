package plane

import (
	"context"
	"fmt"

	"github.com/edictdev/edict/disk"
	"github.com/edictdev/edict/streams"
)

// checkPlace finds out whether the log is where the last start left it, before
// anything is written there.
func (p *Plane) checkPlace() error {
	_, there, err := streams.StoredLog(p.natsDir())
	switch {
	case err != nil:
		return &UnusableError{"--data", err}
	case p.opt.NATS != "":
		p.unread = there
		return nil // its servers know where theirs is
	case !there && p.opt.Existing && !streams.Witnessed(p.natsDir()):
		return noPlane("in " + p.opt.Data + ": is its volume mounted")
	}
	p.putBack = there && !streams.InPlace(p.natsDir())
	return nil
}

// checkOutside refuses to make a log on external servers where there must be one,
// and says when one is left unread for theirs.
func (p *Plane) checkOutside(ctx context.Context) error {
	if p.opt.NATS == "" {
		return nil
	}
	if p.unread {
		p.log.Warn("this is a worker of the servers of --nats (EDICT_NATS where that is set): the log in its own data directory is not served", "dir", p.natsDir())
	}
	if !p.opt.Existing {
		return nil
	}
	_, there, err := streams.LogCreated(ctx, p.conn)
	if err != nil || there {
		return err
	}
	return noPlane("at " + p.logURL() + ": do its servers have their stores")
}

// noPlane means that a plane is not where it was said to exist.
func noPlane(where string) error {
	return &UnusableError{"--existing", fmt.Errorf("there is no plane %s? Put it back as docs/recovery.md says. "+
		"A plane that is new is started once with --existing=false (EDICT_EXISTING=false)", where)}
}

// blocksRead bounds what of the log is held against its checksums at a start: a
// second or so, and of most logs everything.
const blocksRead = 1 << 30

// checkBlocks finds bytes of the log that changed on disk, before the server
// that is to read it makes something of them. With relaxed durability a power
// failure may leave anything; what is missing then the witness says.
func (p *Plane) checkBlocks() error {
	if p.opt.NATS != "" || p.opt.Relaxed {
		return nil
	}
	known := uint64(0)
	if p.found != nil {
		known = p.found.Seq
	}
	return advise(streams.CheckBlocks(p.natsDir(), blocksRead, known))
}

// settlePlace has event ids begin anew where the log was put back, and marks
// where it is now. After a crash in between the next start does it again.
func (p *Plane) settlePlace(ctx context.Context) error {
	if p.opt.NATS != "" {
		return nil
	}
	if p.putBack {
		s, err := p.stream.State(ctx)
		if err != nil {
			return err
		}
		if p.found != nil && p.found.Seq > s.Last {
			return nil // the read model is newer: the start is refused, as ever
		}
		if err := p.beginAnew(ctx, s.Last); err != nil {
			return err
		}
	}
	return streams.MarkPlace(p.natsDir())
}

// beginAnew puts every event id that was ever told below those to come, so that
// each node pulls once. The witness notes it, where it has seen the log.
func (p *Plane) beginAnew(ctx context.Context, last uint64) error {
	known := p.known()
	at, link := p.witness.end()
	for _, l := range p.links {
		known = max(known, l.LastID())
	}
	if err := p.stream.BeginAnew(ctx, known); err != nil {
		return err
	}
	p.log.Warn("the log is not where it was: its files were copied, or put back from a backup; event ids begin anew, and every node pulls once",
		"dir", p.natsDir(), "seq", last)
	if link.Log == "" {
		return nil
	}
	link = streams.Link{Log: link.Log, Base: p.stream.Base(), Seq: link.Seq, Hash: link.Hash, Restored: true}
	n, err := p.witness.chain.Append(ctx, at, link)
	if err != nil {
		return fmt.Errorf("note in the witness that the log was put back: %w", err)
	}
	link.At = n
	p.witness.note(n, []streams.Link{link})
	return nil
}

// watchPlace looks whether the files that the log's server writes to are still
// there, until ctx ends or they are not: what is written then is nowhere.
func (p *Plane) watchPlace(ctx context.Context) error {
	if p.entrance.nats == nil {
		return nil
	}
	every(ctx, disk.LookEvery, func() bool {
		err := p.entrance.nats.Vanished()
		if err == nil {
			return true
		}
		p.disk.Vanish()
		p.guard.raise(err)
		return false
	})
	return nil
}
