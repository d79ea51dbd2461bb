package plane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/projector"
)

// rebuild makes the read model anew, where it has the layout of an older
// binary: beside the old one, up to the log's head, and then in its place. The
// old one is kept unless Options.YesDelete says otherwise. A crash leaves the
// old one where it was, or both beside an empty place; the next start goes on.
func (p *Plane) rebuild(ctx context.Context) error {
	fresh := p.storeDir() + ".new"
	if p.found == nil {
		return p.finishSwap(fresh)
	}
	if p.found.Schema == projector.SchemaVersion {
		return nil
	}
	p.log.Info("rebuilding the read model: a newer binary reads another layout",
		"have", p.found.Schema, "want", projector.SchemaVersion, "beside", fresh)
	if err := p.foldInto(ctx, fresh); err != nil {
		return fmt.Errorf("rebuild the read model: %w", err)
	}
	old, err := p.freeName(p.found.Schema)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Rename(p.storeDir(), old), os.Rename(fresh, p.storeDir()), artifact.SyncDir(p.opt.Data)); err != nil {
		return fmt.Errorf("put the rebuilt read model in place: %w", err)
	}
	if !p.opt.YesDelete {
		p.log.Info("the read model is rebuilt; the old one is kept, and may be deleted", "old", old)
		return nil
	}
	p.log.Info("the read model is rebuilt; the old one is deleted (--yes-delete)", "old", old)
	return os.RemoveAll(old)
}

// finishSwap puts a rebuilt store in place whose swap a crash cut in two.
func (p *Plane) finishSwap(fresh string) error {
	if _, err := os.Stat(p.storeDir()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(fresh); err != nil {
		return nil
	}
	return errors.Join(os.Rename(fresh, p.storeDir()), artifact.SyncDir(p.opt.Data))
}

// foldInto folds the log, as far as it goes now, into a store of its own. What
// an earlier try left there is gone on from.
func (p *Plane) foldInto(ctx context.Context, dir string) error {
	state, err := p.stream.State(ctx)
	if err != nil {
		return err
	}
	opt := p.storeOptions()
	opt.Relaxed = true // Close flushes, and the old store is there until then
	store, err := projector.Open(dir, opt)
	var corrupt *projector.CorruptError
	if errors.As(err, &corrupt) { // what an earlier try left
		if err = os.RemoveAll(dir); err == nil {
			store, err = projector.Open(dir, opt)
		}
	}
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	run, done := context.WithCancel(gctx)
	defer done()
	g.Go(func() error { return store.Rebuild(run, p.backpressured(), state.Last) })
	g.Go(func() error {
		defer done()
		if state.Messages == 0 {
			return nil
		}
		return p.progress(gctx, store, state.Last)
	})
	return errors.Join(g.Wait(), store.Close())
}

// progress waits for the fold and tells how far it is.
func (p *Plane) progress(ctx context.Context, store *projector.Projector, last uint64) error {
	const tell = 5 * time.Second
	for {
		step, cancel := context.WithTimeout(ctx, tell)
		err := store.Wait(step, last)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		p.log.Info("rebuilding the read model", "folded", store.Applied(), "of", last)
	}
}

// freeName is where the old store goes: store.old-1, or store.old-1.2 and so on.
func (p *Plane) freeName(schema uint32) (string, error) {
	base := p.storeDir() + ".old-" + strconv.FormatUint(uint64(schema), 10)
	for n, name := 2, base; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
		name = fmt.Sprintf("%s.%d", base, n)
	}
}
