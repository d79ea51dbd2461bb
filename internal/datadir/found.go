package datadir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Options say what a start is to find.
type Options struct {
	Dir      Dir
	External bool // the log is on servers of others, not in Dir
	Existing bool // the plane exists: a start that finds no log is refused
	Relaxed  bool // the log's writes are left to the operating system
	Log      *slog.Logger
}

// Found is what a start finds in a data directory.
type Found struct {
	opt   Options
	Store *projector.Identity // the read model's; nil: there is none, or a damaged one

	damaged *projector.CorruptError // what is there cannot be read
	putBack bool                    // the log is not where the last start left it
	unread  bool                    // there is a log of an embedded server, which this worker does not serve
}

// Find looks, and changes nothing. It refuses a read model that a newer binary
// wrote (*projector.SchemaError), or that was folded from another log than the
// one beside it (*projector.OtherLogError), and a directory without the log that
// Options.Existing wants (*UnusableError).
func Find(opt Options) (*Found, error) {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Dir.unfinished() {
		return nil, &UnusableError{"--data", fmt.Errorf("a restore into %s was cut off: run it again; it begins anew", opt.Dir)}
	}
	f := &Found{opt: opt}
	if err := f.findStore(); err != nil {
		return nil, err
	}
	return f, f.findLog()
}

func (f *Found) findStore() error {
	id, found, err := projector.Inspect(f.opt.Dir.Store())
	if errors.As(err, &f.damaged) {
		return f.checkDamaged()
	}
	if err != nil || !found {
		return err
	}
	if id.Schema > projector.SchemaVersion {
		return &projector.SchemaError{Dir: f.opt.Dir.Store(), Have: id.Schema, Know: projector.SchemaVersion}
	}
	f.Store = &id
	if f.opt.External {
		return nil // asked once connected
	}
	created, there, err := streams.StoredLog(f.opt.Dir.NATS())
	if err != nil {
		return &UnusableError{"--data", err}
	}
	return f.checkLog(created, there)
}

// checkDamaged refuses to start on a damaged read model beside no log: there
// is nothing to make it anew from.
func (f *Found) checkDamaged() error {
	if f.opt.External {
		return nil
	}
	_, there, err := streams.StoredLog(f.opt.Dir.NATS())
	if err != nil {
		return &UnusableError{"--data", err}
	}
	if !there {
		return &projector.OtherLogError{Dir: f.opt.Dir.Store(), Detail: "it is damaged, and there is no log here"}
	}
	return nil
}

// checkLog holds the log at hand against the one the store was folded from.
func (f *Found) checkLog(created time.Time, there bool) error {
	if f.Store == nil || there && created.Equal(f.Store.Created) {
		return nil
	}
	detail := "there is no log here"
	if there {
		detail = fmt.Sprintf("this one was created %s", created.Format(time.RFC3339Nano))
	}
	return &projector.OtherLogError{Dir: f.opt.Dir.Store(), Detail: fmt.Sprintf("that was created %s, %s", f.Store.Created.Format(time.RFC3339Nano), detail)}
}

// findLog finds out whether the log is where the last start left it, before
// anything is written there.
func (f *Found) findLog() error {
	nats := f.opt.Dir.NATS()
	_, there, err := streams.StoredLog(nats)
	switch {
	case err != nil:
		return &UnusableError{"--data", err}
	case f.opt.External:
		f.unread = there
		return nil // its servers know where theirs is
	case !there && f.opt.Existing && !streams.Witnessed(nats):
		return noPlane("in " + string(f.opt.Dir) + ": is its volume mounted")
	}
	f.putBack = there && !streams.InPlace(nats)
	return nil
}

// noPlane means that a plane is not where it was said to exist.
func noPlane(where string) error {
	return &UnusableError{"--existing", fmt.Errorf("there is no plane %s? Put it back as docs/recovery.md says. "+
		"A plane that is new is started once with --existing=false (EDICT_EXISTING=false)", where)}
}

// blocksRead bounds what of the log is held against its checksums at a start: a
// second or so, and of most logs everything.
const blocksRead = 1 << 30

// CheckBlocks finds bytes of the log that changed on disk, before the server
// that is to read it makes something of them: *streams.DamagedError. With
// relaxed durability a power failure may leave anything; what is missing then
// the witness says.
func (f *Found) CheckBlocks() error {
	if f.opt.External || f.opt.Relaxed {
		return nil
	}
	known := uint64(0)
	if f.Store != nil {
		known = f.Store.Seq
	}
	return streams.CheckBlocks(f.opt.Dir.NATS(), blocksRead, known)
}

// CheckEnd refuses a log that ends before what the read model reaches, before that is
// opened, which writes to its files: *projector.OtherLogError.
func (f *Found) CheckEnd(ctx context.Context, log *streams.Log) error {
	if f.Store == nil || f.Store.Schema != projector.SchemaVersion {
		return nil
	}
	state, err := log.State(ctx)
	if err != nil || f.Store.Seq <= state.Last {
		return err
	}
	return &projector.OtherLogError{Dir: f.opt.Dir.Store(), Detail: fmt.Sprintf("it reaches sequence %d, which the log lacks", f.Store.Seq), Seq: f.Store.Seq}
}

// CheckFolded refuses external servers whose log is not the one that the read
// model was folded from, before a log is made where there is none.
func (f *Found) CheckFolded(ctx context.Context, conn *streams.Conn) error {
	if f.Store == nil || !f.opt.External {
		return nil
	}
	created, there, err := streams.LogCreated(ctx, conn)
	if err != nil {
		return err
	}
	return f.checkLog(created, there)
}

// CheckExisting refuses to make a log on external servers where there must be one,
// and says when one is left unread for theirs. url is where they are, as messages
// name it.
func (f *Found) CheckExisting(ctx context.Context, conn *streams.Conn, url string) error {
	if !f.opt.External {
		return nil
	}
	if f.unread {
		f.opt.Log.Warn("this is a worker of the servers of --nats (EDICT_NATS where that is set): the log in its own data directory is not served", "dir", f.opt.Dir.NATS())
	}
	if !f.opt.Existing {
		return nil
	}
	_, there, err := streams.LogCreated(ctx, conn)
	if err != nil || there {
		return err
	}
	return noPlane("at " + url + ": do its servers have their stores")
}

// LeastID is an id that no id of a log made now may be below: this data
// directory knows it.
func (f *Found) LeastID() policy.EventID {
	if f.Store == nil {
		return 0
	}
	return policy.EndOf(f.Store.Base, f.Store.Seq)
}

// Witness is what is asked of the log's witness where the log was put back.
type Witness interface {
	// LastID is the highest event id that it knows to have been given out.
	LastID() policy.EventID
	// NotePutBack notes that the log was put back, and counts ids from base now.
	NotePutBack(ctx context.Context, base uint64) error
}

// FinishRestore has event ids begin anew where the log was put back, so that each node
// pulls once, and marks where the log is now. After a crash in between the next
// start does it again.
func (f *Found) FinishRestore(ctx context.Context, log *streams.Log, w Witness) error {
	if f.opt.External {
		return nil
	}
	if f.putBack {
		s, err := log.State(ctx)
		if err != nil {
			return err
		}
		if f.Store != nil && f.Store.Seq > s.Last {
			return nil // the read model is newer: the start is refused, as ever
		}
		if err := log.BeginAnew(ctx, max(f.LeastID(), w.LastID())); err != nil {
			return err
		}
		f.opt.Log.Warn("the log is not where it was: its files were copied, or put back from a backup; event ids begin anew, and every node pulls once",
			"dir", f.opt.Dir.NATS(), "seq", s.Last)
		if err := w.NotePutBack(ctx, log.Base()); err != nil {
			return err
		}
	}
	return streams.MarkPlace(f.opt.Dir.NATS())
}
