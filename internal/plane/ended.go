package plane

import (
	"errors"
	"time"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/keyring"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// reasonOf is why a run ended with an error.
func reasonOf(err error) string {
	switch {
	case errors.As(err, new(*integrity.RestoredError)):
		return api.EndedRestored
	case errors.As(err, new(*integrity.OvertakenError)), errors.As(err, new(*streams.CompactedError)):
		return api.EndedOvertaken
	case errors.As(err, new(*projector.CorruptError)):
		return api.EndedReadModel
	case errors.As(err, new(*streams.DamagedError)):
		return api.EndedDamaged
	case errors.As(err, new(*projector.OtherLogError)):
		return api.EndedOtherLog
	case errors.As(err, new(*keyring.OtherKeyError)):
		return api.EndedKey
	}
	return api.EndedOther
}

// noteEnd keeps why a run ends by itself.
func (p *Plane) noteEnd(err error) error {
	if err != nil {
		// A directory that takes no note may be why: the error at hand says more.
		_ = p.opt.dir().NoteEnd(datadir.Ended{Time: time.Now().UTC(), Reason: reasonOf(err), Error: err.Error()})
	}
	return err
}

// sayEnd says why the run before this one ended, if it did by itself.
func (p *Plane) sayEnd() error {
	e, err := p.opt.dir().TakeEnd()
	if err != nil || e == nil {
		return err
	}
	p.log.Warn("the run before this one ended by itself", "reason", e.Reason, "error", e.Error)
	p.metrics.Ended(e.Reason, e.Time)
	return nil
}
