package streams

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/natscluster"
	"github.com/edictdev/edict/internal/test/output"
)

func TestALeaderIsBelievedThatAMajorityFollows(t *testing.T) {
	const lately, long, never = 900 * time.Millisecond, 2001 * time.Millisecond, 0
	for _, c := range []struct {
		active []time.Duration // of the other replicas
		want   bool
	}{
		{nil, true}, // alone
		{[]time.Duration{lately, lately}, true},
		{[]time.Duration{lately, long}, true},
		{[]time.Duration{lately, never}, true},
		{[]time.Duration{long, long}, false},
		{[]time.Duration{never, never}, false},
		{[]time.Duration{lately}, true},
		{[]time.Duration{long}, false}, // one of two is no majority
		{[]time.Duration{lately, lately, long, long}, true},
		{[]time.Duration{lately, long, long, long}, false},
	} {
		info := &jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{Leader: "edict-1"}}
		for _, a := range c.active {
			info.Cluster.Replicas = append(info.Cluster.Replicas, &jetstream.PeerInfo{Active: a})
		}
		require.Equal(t, c.want, followed(info), "%v", c.active)
		info.Cluster.Leader = ""
		require.False(t, followed(info), "a server that leads no more, %v", c.active)
	}
	require.True(t, followed(&jetstream.StreamInfo{}), "a server without a cluster")
}

// doubted answers once without followers, and then not at all.
type doubted struct {
	jetstream.JetStream
	asked bool
}

func (d *doubted) Stream(ctx context.Context, _ string) (jetstream.Stream, error) {
	if d.asked {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	d.asked = true
	return doubtedStream{}, nil
}

type doubtedStream struct{ jetstream.Stream }

func (doubtedStream) CachedInfo() *jetstream.StreamInfo {
	return &jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{Leader: "edict-1", Replicas: []*jetstream.PeerInfo{{}, {}}}}
}

func TestWhoAsksInVainHearsWhatTheLastAnswerLacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := infoOf(within(t), &doubted{}, LogStream)
		require.ErrorIs(t, err, errNotFollowed)
		require.ErrorContains(t, err, "(leader edict-1)")
		require.Equal(t, "it has no leader now", leaderText(""))
	})
}

// TestALeaderWithoutFollowersGivesNoHead: it answers all the same, for ten seconds as the
// leader, and later as a server without one. Who is away is named before, while one of them is.
func TestALeaderWithoutFollowersGivesNoHead(t *testing.T) {
	t.Parallel()
	servers := natscluster.Start(t, 3)
	c := connect(t, ConnectOptions{URL: servers.URL(), Replicas: 3})
	l := openLog(t, c)
	_, _, err := l.Publish(within(t), Append{Event: node("n1", 1)})
	require.NoError(t, err)
	head, err := l.Head(within(t))
	require.NoError(t, err)
	require.Equal(t, uint64(1), head)
	head, err = l.Reached(within(t), 2)
	require.NoError(t, err)
	require.Equal(t, uint64(1), head, "after some asking")

	s, err := c.js.Stream(within(t), LogStream)
	require.NoError(t, err)
	lead := slices.IndexFunc(servers, func(one *server.Server) bool { return one.Name() == s.CachedInfo().Cluster.Leader })
	l = openLog(t, connect(t, ConnectOptions{URL: servers[lead].ClientURL(), Replicas: 3}))
	require.NoError(t, l.Replicas(within(t)))
	var away *ReplicaError
	for i, other := range servers {
		if i == lead {
			continue
		}
		natscluster.Stop(other)
		if away == nil {
			require.Eventually(t, func() bool { return errors.As(l.Replicas(within(t)), &away) }, 30*time.Second, 10*time.Millisecond)
			require.Equal(t, &ReplicaError{Away: []string{other.Name()}, Replicas: 3}, away)
			_, _, err := l.Publish(within(t), Append{Event: node("n2", 2)})
			require.NoError(t, err, "two of three are a majority")
		}
	}
	require.Eventually(t, func() bool {
		_, err = l.Head(within(t))
		return err != nil
	}, 30*time.Second, 10*time.Millisecond, "it is believed")
	require.ErrorIs(t, err, errNotFollowed)
	require.ErrorIs(t, err, ErrNoAnswer)
}

// Servers may stay without a majority for hours.
func TestAStartThatWaitsForALeaderSaysSoOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out output.Buffer
		began, tries := time.Now(), 0
		err := AwaitLeader(t.Context(), slog.New(slog.NewTextHandler(&out, nil)), func() error {
			tries++
			if time.Since(began) < 5*time.Minute {
				return ErrNoAnswer
			}
			return nil
		})
		require.NoError(t, err)
		require.Greater(t, tries, 100)
		lines := strings.Count(out.String(), "JetStream does not answer, and the start waits for it")
		require.GreaterOrEqual(t, lines, 4)
		require.LessOrEqual(t, lines, 6)
	})
}

func TestWhoIsAwayIsSaidWithWhatFollows(t *testing.T) {
	for _, c := range []struct {
		of   ReplicaError
		says string
	}{
		{ReplicaError{Away: []string{"n2"}, Replicas: 3}, "of the 3 servers that keep EDICT_LOG, n2 cannot be heard: start them again, or replace them; nothing can be written once one more goes"},
		{ReplicaError{Away: []string{"n2"}, Replicas: 5}, "nothing can be written once more than 1 go besides"},
		{ReplicaError{Away: []string{"n2", "n4"}, Replicas: 5}, "n2, n4 cannot be heard: start them again, or replace them; nothing can be written once one more goes"},
	} {
		require.ErrorContains(t, &c.of, c.says)
	}
}

// A server may have been told to keep the log and have no copy: as it is where a stream with one
// replica is to have three, and the servers never came to it.
func TestServersThatHaveNoCopyAreSaid(t *testing.T) {
	info := &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: 3}, Cluster: &jetstream.ClusterInfo{Leader: "n0"}}
	var lacking *ReplicaError
	require.ErrorAs(t, replicasOf(info), &lacking)
	require.ErrorContains(t, lacking, "2 of the 3 servers that are to keep EDICT_LOG have no copy")
	info.Cluster.Replicas = []*jetstream.PeerInfo{{Name: "n1"}}
	require.ErrorContains(t, replicasOf(info), "1 of the 3")
	info.Cluster.Replicas = append(info.Cluster.Replicas, &jetstream.PeerInfo{Name: "n2"})
	require.NoError(t, replicasOf(info))
	info.Cluster.Replicas[1].Offline = true
	require.ErrorAs(t, replicasOf(info), &lacking)
	require.Equal(t, &ReplicaError{Away: []string{"n2"}, Replicas: 3}, lacking)
}
