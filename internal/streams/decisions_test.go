package streams

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/wire"
)

func TestDecisionsAreReadInOrderAndTheOldestGoFirst(t *testing.T) {
	c := embedded(t)
	_, err := FindDecisions(within(t), c)
	require.ErrorIs(t, err, ErrNotFound)
	d, err := OpenDecisions(within(t), c, DecisionsOptions{MaxAge: time.Hour, MaxBytes: 40 << 10})
	require.NoError(t, err)
	var lot []Decision
	for i := range MaxDecisions {
		lot = append(lot, Decision{Outcome: "approved", Body: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	require.NoError(t, d.Write(within(t), lot))
	require.NoError(t, d.Write(within(t), []Decision{{Outcome: "rejected", Body: make([]byte, 32<<10)}}))

	found, err := FindDecisions(within(t), c)
	require.NoError(t, err)
	s, err := found.State(within(t))
	require.NoError(t, err)
	require.Equal(t, uint64(MaxDecisions+1), s.Last)
	require.Greater(t, s.First, uint64(1), "the stream is full")
	want := s.First
	for batch, err := range found.Read(within(t), 1, s.Last) {
		require.NoError(t, err)
		for _, m := range batch {
			require.Equal(t, want, m.Seq)
			if m.Seq < s.Last {
				require.Equal(t, wire.PrefixDecision+"approved", m.Subject)
				require.Equal(t, fmt.Sprintf(`{"n":%d}`, m.Seq-1), string(m.Body))
			}
			want++
		}
	}
	require.Equal(t, s.Last+1, want, "the read ends by itself")
	require.ErrorIs(t, d.Write(within(t), []Decision{{Outcome: "approved", Body: make([]byte, c.MaxPayload())}}), ErrMessageTooLarge)
	require.Less(t, d.MaxDecision(), c.MaxPayload())
}

func TestDecisionsThatComeAreFollowed(t *testing.T) {
	c := embedded(t)
	d, err := OpenDecisions(within(t), c, DecisionsOptions{})
	require.NoError(t, err)
	write := func(n int) {
		require.NoError(t, d.Write(within(t), []Decision{{Outcome: "approved", Body: fmt.Appendf(nil, `{"n":%d}`, n)}}))
	}
	write(1)
	write(2)
	next := uint64(2)
	for batch, err := range d.Follow(within(t), next) {
		require.NoError(t, err)
		for _, m := range batch {
			require.Equal(t, next, m.Seq)
			require.Equal(t, fmt.Sprintf(`{"n":%d}`, m.Seq), string(m.Body))
			next++
		}
		if next > 4 {
			break
		}
		write(int(next))
	}
	require.Equal(t, uint64(5), next)
}

func TestADecisionLogThatGrowsForEverIsRefused(t *testing.T) {
	c := embedded(t)
	_, err := c.js.CreateStream(within(t), jetstream.StreamConfig{
		Name: DecisionsStream, Subjects: []string{wire.PrefixDecision + ">"}, Discard: jetstream.DiscardNew, NoAck: true, AllowDirect: true,
	})
	require.NoError(t, err)
	_, err = OpenDecisions(within(t), c, DecisionsOptions{})
	var refused *ConfigError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Faults, 4, "max_bytes, discard, no_ack, allow_atomic: %v", err)
}
