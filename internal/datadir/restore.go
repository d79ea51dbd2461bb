package datadir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
)

// restoreTo restores a checkpoint to dir: beside it first, and under its name once
// everything is checked and on the disk. A crash leaves no store, or a sound one.
func restoreTo(ctx context.Context, c *snapshot.Checkpoints, m snapshot.Manifest, log snapshot.Getter, dir string, opt projector.Options) error {
	return beside(dir, func(beside string) error { return c.Restore(ctx, m, log, beside, opt) })
}

func placed(beside, dir string) error {
	if err := errors.Join(os.Rename(beside, dir), artifact.SyncDir(filepath.Dir(dir))); err != nil {
		return fmt.Errorf("put the restored read model in place: %w", err)
	}
	return nil
}

// Restore gives a stopped worker the read model of a checkpoint. The one that is
// there is set aside: old is its new name, "" when there was none. It is refused
// while the worker runs.
func (d Dir) Restore(ctx context.Context, c *snapshot.Checkpoints, m snapshot.Manifest, log snapshot.Getter, opt projector.Options) (old string, err error) {
	if absent(d.Store()) {
		return "", restoreTo(ctx, c, m, log, d.Store(), opt)
	}
	id, _, err := projector.Inspect(d.Store())
	if errors.As(err, new(*projector.LockedError)) {
		return "", err
	}
	// Whatever else is wrong with it is a reason to restore, not against it.
	beside := d.Store() + ".restored"
	if err := os.RemoveAll(beside); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	if err := restoreTo(ctx, c, m, log, beside, opt); err != nil {
		return "", err
	}
	return d.swap(beside, id.Schema)
}

// swap puts a read model in the place of the one that is there, which has that layout and
// is set aside as old.
func (d Dir) swap(with string, schema uint32) (old string, err error) {
	if old, err = d.aside(schema); err != nil {
		return "", err
	}
	return old, errors.Join(os.Rename(d.Store(), old), os.Rename(with, d.Store()), artifact.SyncDir(string(d)))
}
