package convergence

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// kept are reports in memory, each of them the last one of its subject.
type kept struct{ msgs []streams.Message }

func (k *kept) State(context.Context) (streams.State, error) {
	s := streams.State{Messages: uint64(len(k.msgs))}
	if len(k.msgs) > 0 {
		s.First, s.Last = k.msgs[0].Seq, k.msgs[len(k.msgs)-1].Seq
	}
	return s, nil
}

func (k *kept) Follow(context.Context, uint64) iter.Seq2[[]streams.Message, error] {
	msgs := slices.Clone(k.msgs)
	return func(yield func([]streams.Message, error) bool) { yield(msgs, nil) }
}

func (*kept) Publish(context.Context, policy.NodeID, policy.Report) (uint64, error) { return 0, nil }

func (k *kept) Forget(_ context.Context, subject string, upTo uint64) error {
	k.msgs = slices.DeleteFunc(k.msgs, func(m streams.Message) bool { return m.Subject == subject && m.Seq <= upTo })
	return nil
}

// Of nodes that are gone, or never were, nothing is kept for ever.
func TestReportsOfNodesThatAreGoneAreRemoved(t *testing.T) {
	w := newWorld(t, 1)
	w.publish(policy.NodeUpdated{ID: w.id(), Project: home, Node: "here", Labels: policy.Labels{{Key: "role", Value: "web"}}})
	w.publish(policy.NodeUpdated{ID: w.id(), Project: home, Node: "gone", Labels: policy.Labels{{Key: "role", Value: "web"}}})
	w.publish(policy.NodeRemoved{ID: w.id(), Project: home, Node: "gone"})
	now := at(100).Add(24 * time.Hour)
	k := &kept{}
	for i, r := range []struct {
		node policy.NodeID
		age  time.Duration
	}{{"gone", 25 * time.Hour}, {"here", 24 * time.Hour}, {"made-up", 2 * time.Hour}, {"soon", time.Minute}, {"last", 2 * time.Hour}} {
		k.msgs = append(k.msgs, streams.Message{Seq: uint64(10 + i), Subject: streams.ReportSubject(r.node), Time: now.Add(-r.age)})
	}
	x := sweeper{w.tracker()}
	_, err := x.sweep(t.Context(), now)
	require.ErrorAs(t, err, new(*NotReadyError))
	x.reports = k
	forgotten, err := x.sweep(t.Context(), now)
	require.NoError(t, err)
	require.Equal(t, 2, forgotten)
	var left []string
	for _, m := range k.msgs {
		left = append(left, m.Subject)
	}
	require.Equal(t, []string{
		streams.ReportSubject("here"), streams.ReportSubject("soon"),
		streams.ReportSubject("last"), // a start would wait for its sequence
	}, left)
}
