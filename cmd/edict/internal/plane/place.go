package plane

import (
	"context"

	"github.com/edictdev/edict/internal/disk"
)

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
		p.alarm.Raise(err)
		return false
	})
	return nil
}
