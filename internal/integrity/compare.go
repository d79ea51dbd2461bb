package integrity

import (
	"fmt"
	"log/slog"

	"github.com/edictdev/edict/internal/streams"
)

// OwnLinks are the fold's own chain hashes; *projector.Projector has them.
type OwnLinks interface {
	Differ(theirs []streams.Link) (seq, agreed uint64)
	Agreed() uint64
}

// Comparer compares the links of other workers with the fold's own.
type Comparer struct {
	Alarm *Alarm
	Fold  OwnLinks
	Name  string // of this worker
	Log   *slog.Logger
}

// Compare holds another worker's links against the own ones. Of two workers that
// differ neither knows who is wrong, so both stand still, but for one that the
// witness has confirmed: it goes on.
func (c Comparer) Compare(worker string, links []streams.Link) {
	seq, agreed := c.Fold.Differ(links)
	if seq == 0 || c.Alarm.Raised() != nil {
		return
	}
	if seq <= c.Fold.Agreed() {
		c.Log.Error("another worker folded another log; the witness agrees with this one", "worker", worker, "seq", seq)
		return
	}
	c.Alarm.Raise(&streams.DamagedError{
		Damage: streams.DamageChanged, From: agreed + 1, To: seq,
		Detail: fmt.Sprintf("workers %s and %s folded different events: their chain hashes differ at %d, and the witness does not say which is right", c.Name, worker, seq),
	})
}
