package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/snapshot"
)

// RestoreStore puts a checkpoint in place of a store that is not there: beside
// it first, and under its name once everything is checked and on the disk. A
// crash leaves no store, or a sound one.
func RestoreStore(ctx context.Context, c *snapshot.Checkpoints, m snapshot.Manifest, log snapshot.Getter, dir string, opt projector.Options) error {
	beside := dir + ".restoring"
	if err := os.RemoveAll(beside); err != nil { // of a crash
		return fmt.Errorf("restore: %w", err)
	}
	if err := c.Restore(ctx, m, log, beside, opt); err != nil {
		return err
	}
	if err := errors.Join(os.Rename(beside, dir), artifact.SyncDir(filepath.Dir(dir))); err != nil {
		return fmt.Errorf("put the restored read model in place: %w", err)
	}
	return nil
}

// RestoreInto gives a stopped worker the read model of a checkpoint. The one
// that is there is set aside: old is its new name, "" when there was none. It
// is refused while the worker runs.
func RestoreInto(ctx context.Context, c *snapshot.Checkpoints, m snapshot.Manifest, log snapshot.Getter, data string, opt projector.Options) (old string, err error) {
	p := &Plane{opt: Options{Data: data}}
	if absent(p.storeDir()) {
		return "", RestoreStore(ctx, c, m, log, p.storeDir(), opt)
	}
	id, _, err := projector.Inspect(p.storeDir())
	var locked *projector.LockedError
	if errors.As(err, &locked) {
		return "", err
	}
	// Whatever else is wrong with it is a reason to restore, not against it.
	beside := p.storeDir() + ".restored"
	if err := os.RemoveAll(beside); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	if err := RestoreStore(ctx, c, m, log, beside, opt); err != nil {
		return "", err
	}
	if old, err = p.freeName(id.Schema); err != nil {
		return "", err
	}
	err = errors.Join(os.Rename(p.storeDir(), old), os.Rename(beside, p.storeDir()), artifact.SyncDir(data))
	return old, err
}

// LogDir is where the embedded server of a worker keeps the log.
func LogDir(data string) string { return (&Plane{opt: Options{Data: data}}).natsDir() }
