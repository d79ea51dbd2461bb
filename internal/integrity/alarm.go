package integrity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// Alarm is that of a damaged log. Once raised it stays until the process ends:
// the fold stands where the log was last known to be whole, writes are refused,
// and reads that ask for the log's head get no answer.
type Alarm struct {
	log *slog.Logger

	mu      sync.Mutex
	stop    context.CancelFunc // ends the fold; nil: it has not begun
	damage  error
	restart error // why the process is to end, to be started again
}

// NewAlarm makes one that is not raised.
func NewAlarm(log *slog.Logger) *Alarm { return &Alarm{log: log} }

// Damaged reports whether err says that the log lost or changed its past, or is
// another one.
func Damaged(err error) bool {
	var log *streams.DamagedError
	var store *projector.OtherLogError
	return errors.As(err, &log) || errors.As(err, &store)
}

// Advise adds to an error of a damaged log what to do about it. Any other error
// stays as it is.
func Advise(err error) error {
	if !Damaged(err) {
		return err
	}
	return fmt.Errorf("%w; nothing is folded until that is settled: 'edict log verify' finds the damage, docs/recovery.md says what to do", err)
}

// Raise stops the fold because of err. Only the first one counts.
func (a *Alarm) Raise(err error) {
	a.mu.Lock()
	first, stop := a.damage == nil, a.stop
	if first {
		a.damage = Advise(err)
	}
	a.mu.Unlock()
	if !first {
		return
	}
	var d *streams.DamagedError
	if !errors.As(err, &d) {
		d = &streams.DamagedError{Damage: streams.DamageChanged}
	}
	a.log.Error("the log is damaged: the fold stands still and writes are refused", "damage", d.Damage, "from", d.From, "to", d.To, "error", a.damage)
	if stop != nil {
		stop()
	}
}

// Raised is why the fold stands; nil: it does not.
func (a *Alarm) Raised() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.damage
}

// Check is Raised, for who checks whether a process is ready.
func (a *Alarm) Check(context.Context) error { return a.Raised() }

// requireRestart ends the fold, and with it the process.
func (a *Alarm) requireRestart(err error) {
	a.mu.Lock()
	a.restart = err
	stop := a.stop
	a.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// stopFold has the alarm end the fold by stop; at once, if it was raised before.
func (a *Alarm) stopFold(stop context.CancelFunc) {
	a.mu.Lock()
	a.stop = stop
	over := a.damage != nil || a.restart != nil
	a.mu.Unlock()
	if over {
		stop()
	}
}

// restartRequired is why the process is to end; nil: it is not.
func (a *Alarm) restartRequired() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.restart
}

// RestoredError means that the log was declared to have been put back while this
// process ran, which gives out event ids that are no longer valid.
type RestoredError struct{ Base, Was uint64 }

// Error says what to do.
func (e *RestoredError) Error() string {
	return fmt.Sprintf("the log was declared to have been put back from a backup (edict log accept --restored): event ids count from %d now, not from %d; start this worker again",
		e.Base, e.Was)
}

// OvertakenError means that the log was compacted beyond where this process had folded it.
// A start takes the log's origin.
type OvertakenError struct{ Err error }

// Error says what to do.
func (e *OvertakenError) Error() string {
	return fmt.Sprintf("the log was compacted beyond what this worker has folded: %v; start this worker again, and it goes on from the log's origin", e.Err)
}

// Unwrap is the reason.
func (e *OvertakenError) Unwrap() error { return e.Err }
