package streams

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/natscluster"
)

// Whichever server leads a log that was imported says the same of when it was made, which is what
// the log is known by: workers take it for another one otherwise, and stand still.
func TestAnImportedLogIsTheSameOneWhoeverLeadsIt(t *testing.T) {
	t.Parallel()
	servers := natscluster.Start(t, 3)
	c := connect(t, ConnectOptions{URL: servers.URL(), Replicas: 3})
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	l, err := PutBackLog(within(t), c, PutBack{Partitions: 8, Base: 1, First: 1, Last: 3}, func(yield func(Message, error) bool) {
		for seq := uint64(1); seq <= 3 && yield(Message{Seq: seq, Time: at, Subject: "edict.log.p.node.n", Body: []byte("{}")}, nil); seq++ {
		}
	})
	require.NoError(t, err)
	require.NoError(t, l.Finish(within(t)))
	var leader string
	for range 3 {
		require.Eventually(t, func() bool {
			info, err := c.streamInfo(within(t), LogStream)
			if err != nil || info.Cluster.Leader == leader {
				return false
			}
			require.Equal(t, l.Created(), info.Created.UTC(), "led by %s", info.Cluster.Leader)
			require.Equal(t, 3, info.Config.Replicas)
			require.Len(t, info.Cluster.Replicas, 2)
			leader = info.Cluster.Leader
			return true
		}, 30*time.Second, 10*time.Millisecond)
		s, err := l.State(within(t))
		require.NoError(t, err)
		require.EqualValues(t, 3, s.Messages)
		_, err = c.nc.RequestWithContext(within(t), "$JS.API.STREAM.LEADER.STEPDOWN."+LogStream, nil)
		require.NoError(t, err)
	}
}
