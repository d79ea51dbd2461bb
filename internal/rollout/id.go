package rollout

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// version8 is that of a UUID made as its maker likes (RFC 9562).
const version8 = 8

// eventID is that of the event of a type that follows the newest wave of a rollout:
// the same for every controller, and however often one tries, so that repeats are
// duplicates. The sequences tell a rollout from another of the same revision.
func eventID(e policy.Event, r projector.Rollout) uuid.UUID {
	b := append([]byte(e.EventType()), 0)
	b = append(policy.AppendKey(b, e), r.Revision[:]...)
	b = binary.BigEndian.AppendUint64(b, r.First)
	b = binary.BigEndian.AppendUint64(b, r.Seq)
	return uuid.NewHash(sha256.New(), uuid.Nil, b, version8)
}
