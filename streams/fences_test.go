package streams

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestManyFencesInOneBatchHoldOnReplicas is what the relay builds on: a batch
// that carries the fences of many partitions, each checked, several such
// batches in flight for other partitions.
func TestManyFencesInOneBatchHoldOnReplicas(t *testing.T) {
	t.Parallel()
	const lanes, each, rounds, told = 4, 16, 10, 100
	c, _ := cluster(t)
	ctx := within(t)
	n := openNodes(t, c)
	var g sync.WaitGroup
	for lane := range lanes {
		g.Go(func() {
			fences := make([]uint64, each)
			for round := range rounds {
				var msgs []Outgoing
				for i, expect := range fences {
					msgs = append(msgs, fence(lane*each+i, expect))
				}
				for i := range told {
					msgs = append(msgs, Outgoing{Subject: fmt.Sprintf("edict.node.n%d-%d.p", lane, i), Body: fmt.Appendf(nil, "%d", round)})
				}
				first, err := n.PublishBatch(ctx, msgs)
				if !assert.NoError(t, err, "lane %d, round %d", lane, round) {
					return
				}
				for i := range fences {
					fences[i] = first + uint64(i)
				}
				if round > 0 {
					msgs[each-1].Expect--
					msgs[0].MsgID = ""
					_, err = n.PublishBatch(ctx, msgs)
					assert.ErrorIs(t, err, ErrWrongSequence, "one of many fences is old")
				}
			}
		})
	}
	g.Wait()
	require.False(t, t.Failed())
	st, err := n.State(ctx)
	require.NoError(t, err)
	require.Equal(t, uint64(lanes*rounds*(each+told)), st.Last+1-n.First(), "no refused batch left anything")
}

// Processes that start at the same moment on a cluster all ask for streams that
// one of them is making, and that have no leader yet.
func TestProcessesThatOpenAStreamAtOnceAgree(t *testing.T) {
	t.Parallel()
	_, servers := cluster(t)
	const processes = 6
	conns := make([]*Conn, processes)
	for i := range conns {
		conns[i] = connect(t, ConnectOptions{URL: ClusterURL(servers), Replicas: 3})
	}
	var g sync.WaitGroup
	firsts := make([]uint64, processes)
	makers := make([]bool, processes)
	for i, c := range conns {
		g.Go(func() {
			_, err := OpenBucket(within(t), c, BucketOptions{Name: "TEST"})
			assert.NoError(t, err)
			n, made, err := OpenNodes(within(t), c, NodesOptions{LogID: "1"})
			if assert.NoError(t, err) {
				firsts[i], makers[i] = n.First(), made
			}
		})
	}
	g.Wait()
	made := 0
	for i := range processes {
		require.Equal(t, firsts[0], firsts[i])
		if makers[i] {
			made++
		}
	}
	require.LessOrEqual(t, made, 1, "one process made it")
}
