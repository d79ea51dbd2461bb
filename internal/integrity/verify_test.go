package integrity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

func TestVerifyReadsAWholeLogAndItsWitness(t *testing.T) {
	w := newWorld(t)
	w.grow(t, 7)
	stop, ended := w.run(t)
	require.NoError(t, w.fold.Wait(t.Context(), 7))
	stop()
	require.NoError(t, <-ended)
	w.Finish(t.Context())

	var last int64
	r, err := Verify(t.Context(), w.conn, func(_, _ string, total int64) (func(int64), func()) {
		require.EqualValues(t, 7, total)
		return func(done int64) { last = done }, func() {}
	})
	require.NoError(t, err)
	require.Nil(t, r.Damage)
	require.Equal(t, [4]uint64{7, 7, 1, 7}, [4]uint64{r.Last, r.Verified, uint64(r.Links), r.Witnessed})
	require.EqualValues(t, 7, last)
}

// TestAReadModelThatIsAheadShowsALoss that nobody witnessed, and what is accepted
// then is above it.
func TestAReadModelThatIsAheadShowsALoss(t *testing.T) {
	w := newWorld(t)
	w.grow(t, 7)
	r, err := Verify(t.Context(), w.conn, nil)
	require.NoError(t, err)
	store := projector.Identity{Seq: 9}
	r.CompareReadModel(store, "store")
	require.Equal(t, [3]any{streams.DamageTruncated, uint64(8), uint64(9)}, [3]any{r.Damage.Kind, r.Damage.From, r.Damage.To})
	require.NoError(t, r.Accept(t.Context(), w.conn, store, false))
	require.Nil(t, r.Damage)
	require.EqualValues(t, 9, r.Last)
	require.Len(t, r.Accepted, 1)
}

func TestAcceptMakesWayForAWorkerThatRuns(t *testing.T) {
	w := newWorld(t)
	w.grow(t, 7)
	r, err := Verify(t.Context(), w.conn, nil)
	require.NoError(t, err)
	chain, at, _ := w.opt.Witness.end()
	_, err = chain.Append(t.Context(), at, streams.Link{Log: w.log.ID(), Base: w.log.Base(), Seq: 7})
	require.NoError(t, err)
	require.ErrorIs(t, r.Accept(t.Context(), w.conn, projector.Identity{}, true), ErrWitnessInUse)
}

func TestAServerWithoutALogIsSaidToHaveNone(t *testing.T) {
	server, err := streams.StartServer(streams.ServerOptions{Dir: t.TempDir(), Relaxed: true})
	require.NoError(t, err)
	defer server.Close()
	conn, err := streams.Connect(t.Context(), streams.ConnectOptions{Server: server})
	require.NoError(t, err)
	defer conn.Close()
	_, err = Verify(t.Context(), conn, nil)
	require.ErrorIs(t, err, ErrNoLog)
}
