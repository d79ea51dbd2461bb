package plane

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
)

// spent reports whether a project took its share of the log in the last day.
// JetStream has no such limit: it acknowledges what a client may publish, and the
// log keeps it for good. The fold counts it, so every worker says the same.
func (p *Plane) spent(project uuid.UUID) (so bool) {
	if p.opt.ProjectBytes == 0 {
		return false
	}
	p.store.Read(func(v *projector.View) { so = v.Usage(project).Bytes(time.Now()) >= p.opt.ProjectBytes })
	return so
}

// sharesEvery is how soon it is said that a project has had its share.
const sharesEvery = 2 * time.Second

// watchShares says once of each project that it has had its share, until ctx ends.
func (p *Plane) watchShares(ctx context.Context) error {
	if p.opt.ProjectBytes == 0 {
		return nil
	}
	said := map[uuid.UUID]bool{}
	every(ctx, sharesEvery, func() bool {
		var over map[uuid.UUID]uint64
		p.store.Read(func(v *projector.View) { over = v.OverShare(p.opt.ProjectBytes, time.Now()) })
		for project, bytes := range over {
			if !said[project] {
				p.log.Warn("a project has had its share of the log for a day: its writes are refused, and an embedded server shuts its producers out, until older hours are over",
					"project", project, "bytes", bytes)
			}
		}
		clear(said)
		for project := range over {
			said[project] = true
		}
		return true
	})
	return nil
}
