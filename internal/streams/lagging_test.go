package streams

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/natscluster"
)

// lagging has every direct get answered by a replica that does not have what is asked for, as one
// that was away, and whose server stands nearest.
func lagging(c *Conn) {
	request := c.request
	c.request = func(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
		if strings.HasPrefix(m.Subject, directGetSubject) {
			return &nats.Msg{Header: nats.Header{statusHeader: {"404"}, statusText: {"Message Not Found"}}}, nil
		}
		return request(ctx, m)
	}
}

// What a replica lacks that lags is not taken for lost: whoever folded it would stand still for
// good.
func TestAReplicaThatLagsLosesNothing(t *testing.T) {
	t.Parallel()
	servers := natscluster.Start(t, 3)
	c := connect(t, ConnectOptions{URL: servers.URL(), Replicas: 3})
	l := openLog(t, c)
	e := node("n1", 1)
	for n := range 3 {
		_, _, err := l.Publish(within(t), Append{Event: node("n1", n+1)})
		require.NoError(t, err)
	}
	want, err := l.Get(within(t), 2)
	require.NoError(t, err)
	lagging(c)

	got, err := l.Get(within(t), 2)
	require.NoError(t, err)
	require.Equal(t, want, got)
	first, err := l.NextOf(within(t), e, 1)
	require.NoError(t, err)
	require.Equal(t, uint64(1), first.Seq)
	for _, seq := range []uint64{0, 4} {
		_, err = l.Get(within(t), seq)
		require.ErrorIs(t, err, ErrNotFound, "the leader counts from one to three")
	}
	_, err = l.NextOf(within(t), node("n2", 9), 1)
	require.ErrorIs(t, err, ErrNotFound)
	for batch, err := range l.Follow(within(t), 3) { // what stands before it is held against the log
		require.NoError(t, err)
		require.Equal(t, uint64(3), batch[0].Seq)
		break
	}

	natscluster.Stop(servers[0])
	natscluster.Stop(servers[1])
	briefly := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	require.Eventually(t, func() bool {
		_, err := l.State(briefly())
		return err != nil
	}, 30*time.Second, 10*time.Millisecond)
	_, err = l.Get(briefly(), 2)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrNotFound, "nobody can know")
}
