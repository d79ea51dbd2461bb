package tour

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/policy"
)

// A stream that was cut within an event may bring rows once more that the event left as they
// were: they are no news of it.
func TestARowThatIsHeldIsNoNews(t *testing.T) {
	web, db := uuid.UUID{1}, uuid.UUID{2}
	m := new(member)
	m.holds([]node.Row{{Policy: web, Fingerprint: [32]byte{1}}})
	about := func(seq uint64, p uuid.UUID, fp byte) {
		m.take(node.Event{ID: policy.NewEventID(9, seq, uint32(p[0])), Policy: &artifact.PolicyPayload{PolicyID: p, Fingerprint: [32]byte{fp}}})
	}
	about(40, web, 1)
	about(40, db, 1)
	about(41, web, 2)
	about(41, db, 1)
	for seq, want := range map[uint64]int{40: 1, 41: 1} {
		n, _ := m.heard(9, seq)
		require.Equal(t, want, n, seq)
	}
}
