package streams

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Processes that find the stream to be another log's at the same moment all
// remake it. One does, and nobody takes it away again.
func TestProcessesThatRemakeTheStreamAtOnceMakeOne(t *testing.T) {
	t.Parallel()
	t.Run("on one server", func(t *testing.T) {
		s := startServer(t, ServerOptions{Relaxed: true})
		remakeTogether(t, 5, func() *Conn { return connect(t, ConnectOptions{Server: s}) })
	})
	t.Run("on three", func(t *testing.T) {
		_, servers := cluster(t)
		remakeTogether(t, 1, func() *Conn { return connect(t, ConnectOptions{URL: ClusterURL(servers), Replicas: 3}) })
	})
}

func remakeTogether(t *testing.T, rounds int, conn func() *Conn) {
	conns := [6]*Conn{conn(), conn(), conn(), conn(), conn(), conn()}
	old, _, err := OpenNodes(within(t), conns[0], NodesOptions{})
	require.NoError(t, err)
	for range rounds {
		var opened [len(conns)]*Nodes
		var made [len(conns)]bool
		var g sync.WaitGroup
		for i, c := range conns {
			g.Go(func() {
				var err error
				opened[i], made[i], err = RemakeNodes(within(t), c, NodesOptions{}, old.First())
				assert.NoError(t, err)
			})
		}
		g.Wait()
		require.False(t, t.Failed())
		makers := 0
		for i, n := range opened {
			require.Greater(t, n.First(), old.First())
			_, err := n.State(within(t))
			require.NoError(t, err, "the stream that was opened is the one that is there")
			if made[i] {
				makers++
			}
		}
		require.Equal(t, 1, makers)
		old = opened[0]
	}
}

// Who holds the lock may die with it.
func TestALockThatNobodyGivesUpIsTaken(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	b, err := OpenMeta(within(t), c)
	require.NoError(t, err)
	left, err := b.Create(within(t), remakeKey, nil, 0)
	require.NoError(t, err)
	_, revision, err := lockRemake(within(t), b, 10*time.Millisecond)
	require.NoError(t, err)
	require.Greater(t, revision, left)
	require.ErrorIs(t, b.Delete(within(t), remakeKey, left), ErrWrongSequence, "who comes back late gives up nothing")
}
