package tour

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/edict/demodata"
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

// After a worker was killed NATS may carry rows of an event once more that it left as they were:
// nobody who follows hears of them, and nothing differs.
func TestWhatNATSCarriesAfterAKillIsNoDifference(t *testing.T) {
	web, db := uuid.UUID{1}, uuid.UUID{2}
	tour := &tour{tap: newTap(), crowd: newCrowd("", 9), world: &world{nodes: []demodata.Facts{{ID: "away"}}}}
	m := &member{held: map[uuid.UUID][32]byte{db: {1}}}
	tour.crowd.members["moved"], tour.crowd.members["other"] = m, new(member)
	changed := map[pair]bool{{"moved", web}: true}
	tour.tap.note(pair{"moved", web}, 40, false)
	m.take(node.Event{ID: policy.NewEventID(9, 40, 1), Policy: &artifact.PolicyPayload{PolicyID: web, Fingerprint: [32]byte{1}}})
	tour.shown(40, changed)
	require.NoError(t, tour.tellsNobodyElse())
	tour.tap.note(pair{"moved", db}, 40, false)
	require.NoError(t, tour.tellsNobodyElse())
	m.take(node.Event{ID: policy.NewEventID(9, 40, 2), Policy: &artifact.PolicyPayload{PolicyID: db, Fingerprint: [32]byte{2}}})
	require.ErrorIs(t, tour.tellsNobodyElse(), errDiffers, "that was another row")
}
