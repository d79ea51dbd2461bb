package snapshot

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

const drawnProject = "00000000-0000-4000-8000-000000000000"

// drawnHistory is a log of so many events at least, every one of which the fold
// accepts. Some follow each other within one instant.
func drawnHistory(t testing.TB, r *rand.Rand, n int) []streams.Message {
	t.Helper()
	seed := r.Uint64()
	g := gen.New(seed)
	var msgs []streams.Message
	at := time.Unix(1_700_000_000, 0).UTC()
	for i, e := range gen.NewScribe(drawnProject, seed).WriteAll(g.WithRollouts(g.History(g.World(6, 8), n))) {
		at = at.Add(time.Duration(r.IntN(3)) * time.Second)
		msgs = append(msgs, streams.Message{Seq: uint64(i + 1), Subject: e.Subject, Body: e.Body, Time: at})
	}
	return msgs
}

var replayEvery = flag.Uint64("replay.every", uint64(gen.Every(3)), "of the sequences of a history, every which one is replayed to")

// At every sequence of a history the replay shows what a fold of nothing but
// the facts of then shows, of every node there ever was; and its digest is that
// of a worker that stood there.
func TestAReplayUntilAnySequenceIsTheStateOfThen(t *testing.T) {
	base := rand.Uint64()
	for seed := base; seed < base+uint64(gen.Worlds(2)); seed++ {
		msgs := drawnHistory(t, rand.New(rand.NewPCG(seed, 0)), 40)
		log := &sliceLog{msgs: msgs, cut: 1 + int(seed%11)}
		nodes := map[policy.NodeID]bool{}
		for _, m := range msgs {
			if s, ok := wire.ParseSubject(m.Subject); ok && s.Family == "node" {
				nodes[policy.NodeID(s.ID)] = true
			}
		}
		live, err := projector.Open("live", options.On(vfs.NewMem()))
		require.NoError(t, err)
		var then oracle.Plane
		for until := uint64(0); until <= uint64(len(msgs)); until++ {
			if until > 0 {
				require.NoError(t, then.Apply(msgs[until-1].Body))
				require.NoError(t, live.Apply(msgs[until-1:until]))
			}
			if (seed+until)%*replayEvery != 0 {
				continue
			}
			r, err := begin(log, "then", options.On(vfs.NewMem()))
			require.NoError(t, err)
			if seed%2 == 0 {
				r.farBehind = 1 // in bulk
			}
			require.NoError(t, r.FoldTo(t.Context(), until, nil))
			for id := range nodes {
				want, there := then.State(string(id))
				got, ok, err := r.StateOf(t.Context(), id)
				require.NoError(t, err)
				require.Equal(t, there, ok, "seed %d: node %s at %d", seed, id, until)
				if s, resolved, err := NewBlocks(NewTables(live, TableOptions{})).Of(t.Context(), id); resolved {
					want = string(s.Body)
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, want, string(got.Body), "seed %d: node %s at %d", seed, id, until)
			}
			res, err := r.Result(t.Context())
			require.NoError(t, err)
			d, err := live.Digest(t.Context())
			require.NoError(t, err)
			require.Equal(t, Result{Seq: until, Rows: d.Rows, Digest: fmt.Sprintf("%x", d.Sum)}, res, "seed %d", seed)
			require.NoError(t, r.Close())
		}
		require.NoError(t, live.Close())
	}
}

func TestAReplayDoesNotGoBackNorBeyondTheLog(t *testing.T) {
	log := &sliceLog{msgs: nodeEvents(9), cut: 4}
	r, err := begin(log, "store", options.On(vfs.NewMem()))
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	var past *PastError
	require.ErrorAs(t, r.FoldTo(t.Context(), 10, nil), &past)
	require.NoError(t, r.FoldTo(t.Context(), 5, nil))
	require.NoError(t, r.FoldTo(t.Context(), 5, nil))
	require.ErrorAs(t, r.FoldTo(t.Context(), 4, nil), &past)
	require.ErrorContains(t, r.FoldTo(t.Context(), 4, nil), "stands at 5, beyond 4")
	require.NoError(t, r.FoldTo(t.Context(), 9, nil))
}

// The search is held against a walk, over times that stand still now and then.
func TestTheMomentOfATimeIsTheLastEventNotAfterIt(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		log := &sliceLog{msgs: drawnHistory(t, r, 1+r.IntN(40))}
		last := log.msgs[len(log.msgs)-1].Time
		for at := log.msgs[0].Time.Add(-time.Second); !at.After(last.Add(time.Second)); at = at.Add(time.Second / 2) {
			want := uint64(0)
			for _, m := range log.msgs {
				if !m.Time.After(at) {
					want = m.Seq
				}
			}
			got, err := SeqAt(t.Context(), log, at)
			require.NoError(t, err)
			require.Equal(t, want, got, "seed %d at %v", seed, at)
		}
	}
	got, err := SeqAt(t.Context(), &sliceLog{}, time.Now())
	require.NoError(t, err)
	require.Zero(t, got, "an empty log")
	_, err = SeqAt(t.Context(), &sliceLog{fail: errors.New("away")}, time.Now())
	require.ErrorContains(t, err, "away")
}
