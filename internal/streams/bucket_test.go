package streams

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/natscluster"
)

// cluster is a connection to three servers that keep everything three times.
func cluster(t testing.TB) (c *Conn, url string) {
	t.Helper()
	url = natscluster.Start(t, 3).URL()
	return connect(t, ConnectOptions{URL: url, Replicas: 3}), url
}

// onBoth runs a test on one server and on three with three replicas.
func onBoth(t *testing.T, f func(t *testing.T, c *Conn)) {
	t.Run("on one server", func(t *testing.T) { f(t, embedded(t)) })
	t.Run("on three", func(t *testing.T) {
		c, _ := cluster(t)
		f(t, c)
	})
}

func TestAKeyIsWrittenByWhoKnowsItsRevision(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c *Conn) {
		ctx := within(t)
		b, err := OpenBucket(ctx, c, BucketOptions{Name: "TEST"})
		require.NoError(t, err)
		_, _, err = b.Get(ctx, "a")
		require.ErrorIs(t, err, ErrNotFound)

		one, err := b.Create(ctx, "a", []byte("1"), 0)
		require.NoError(t, err)
		_, err = b.Create(ctx, "a", []byte("x"), 0)
		require.ErrorIs(t, err, ErrWrongSequence)
		two, err := b.Update(ctx, "a", []byte("2"), one, 0)
		require.NoError(t, err)
		require.Greater(t, two, one)
		_, err = b.Update(ctx, "a", []byte("x"), one, 0)
		require.ErrorIs(t, err, ErrWrongSequence)
		value, revision, err := b.Get(ctx, "a")
		require.NoError(t, err)
		require.Equal(t, "2", string(value))
		require.Equal(t, two, revision)

		require.ErrorIs(t, b.Delete(ctx, "a", one), ErrWrongSequence)
		require.NoError(t, b.Delete(ctx, "a", two))
		_, _, err = b.Get(ctx, "a")
		require.ErrorIs(t, err, ErrNotFound)
		_, err = b.Create(ctx, "a", []byte("3"), 0)
		require.NoError(t, err, "what is gone can be made again")

		for _, key := range []string{"", "a b", "a*", "a..b", ".a", ">"} {
			_, err := b.Create(ctx, key, nil, 0)
			require.ErrorContains(t, err, "a key has", "%q", key)
		}
	})
}

func TestAWatcherSeesEveryKeyAndThatItsTimeIsOver(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	b, err := OpenBucket(ctx, embedded(t), BucketOptions{Name: "TEST", MarkerTTL: time.Minute, Memory: true})
	require.NoError(t, err)
	stays, err := b.Create(ctx, "stays", []byte("s"), 0)
	require.NoError(t, err)
	goes, err := b.Create(ctx, "goes", []byte("g"), time.Second)
	require.NoError(t, err)
	entries, upTo, err := b.List(ctx)
	require.NoError(t, err)
	require.Equal(t, goes, upTo)
	require.Equal(t, []string{"goes", "stays"}, keys(entries))

	seen := watched(t, b, 0, 3)
	require.Equal(t, []string{"stays", "goes", "goes"}, keys(seen))
	require.Equal(t, []bool{false, false, true}, []bool{seen[0].Gone, seen[1].Gone, seen[2].Gone})
	_, _, err = b.Get(ctx, "goes")
	require.ErrorIs(t, err, ErrNotFound)
	_, err = b.Create(ctx, "goes", []byte("again"), time.Minute)
	require.NoError(t, err)
	_, err = b.Update(ctx, "stays", []byte("t"), stays, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"goes", "stays"}, keys(watched(t, b, seen[2].Revision, 2)))
}

func keys(entries []Entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Key
	}
	return out
}

// watched watches until n changes came.
func watched(t *testing.T, b *Bucket, after uint64, n int) (all []Entry) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	for changes, err := range b.Watch(ctx, after) {
		require.NoError(t, err)
		if all = append(all, changes...); len(all) >= n {
			break
		}
	}
	require.Len(t, all, n)
	return all
}

func TestFewerReplicasThanAskedForAreRefused(t *testing.T) {
	t.Parallel()
	c, url := cluster(t)
	one := connect(t, ConnectOptions{URL: url})
	openLog(t, one)
	_, err := OpenBucket(within(t), one, BucketOptions{Name: "TEST"})
	require.NoError(t, err)

	_, err = OpenLog(within(t), c, LogOptions{})
	var config *ConfigError
	require.ErrorAs(t, err, &config)
	require.ErrorContains(t, err, "num_replicas is 1: must be 3 or more, as --replicas says")
	_, err = OpenBucket(within(t), c, BucketOptions{Name: "TEST"})
	require.ErrorAs(t, err, &config)
	_, _, err = CreateNodeStream(within(t), c)
	require.NoError(t, err)
	_, _, err = CreateNodeStream(within(t), one)
	require.NoError(t, err, "more than asked for is fine")
}

// A stream that was just made may drop a question while its servers agree on a
// leader.
func TestAQuestionThatNobodyAnsweredIsAskedAgain(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	asked := 0
	sub, err := c.nc.Subscribe("ask.me", func(m *nats.Msg) {
		if asked++; asked > 1 {
			_ = m.Respond([]byte("yes"))
		}
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, sub.Unsubscribe()) }()
	answer, err := c.askAgain(within(t), &nats.Msg{Subject: "ask.me"})
	require.NoError(t, err)
	require.Equal(t, "yes", string(answer.Data))
}
