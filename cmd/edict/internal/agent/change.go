package agent

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/backoff"
)

// changeFile holds the fingerprint of the installed set that OnChange was last
// called for with success.
const changeFile = "on-change.done"

// wake has onChange look whether there is something to do.
func (a *Agent) wake() {
	select {
	case a.change <- struct{}{}:
	default:
	}
}

// onChange calls OnChange until ctx ends.
func (a *Agent) onChange(ctx context.Context) error {
	if a.opt.OnChange == nil {
		return nil
	}
	again := backoff.Backoff{Least: a.opt.Retry, Most: time.Minute}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.change:
		}
		err := a.changed(ctx)
		if ctx.Err() != nil {
			return nil // called again at the next start
		}
		if err == nil {
			again.Reset()
			continue
		}
		a.opt.Metrics.changeFailures.Inc()
		pause := again.Next()
		a.opt.Log.Warn("the command on a change failed; it is run again", "node", a.opt.Node, "pause_seconds", pause.Round(time.Millisecond).Seconds(), "error", err)
		a.wakeAfter(ctx, pause)
	}
}

// wakeAfter wakes after a pause, or at once when a set is installed.
func (a *Agent) wakeAfter(ctx context.Context, pause time.Duration) {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.change:
	case <-ctx.Done():
	}
	a.wake()
}

// changed calls OnChange if the installed set is another than it was called for.
func (a *Agent) changed(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.store.SetFingerprint()
	if now == "" {
		return nil
	}
	installed, err := a.root.documents()
	if err != nil || artifact.Fingerprint(installed) != now {
		return err // it will be installed again
	}
	path := a.root.path(changeFile)
	done, err := a.opt.FS.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(done) == now+"\n" {
		return nil
	}
	if err := a.opt.OnChange(ctx, a.store.Version()); err != nil {
		return err
	}
	return artifact.ReplaceFile(a.opt.FS, path, []byte(now+"\n"))
}
