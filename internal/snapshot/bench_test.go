package snapshot_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// benchEvents is the length of the log that is replayed and restored: three
// facts of each node one after the other.
const benchEvents = 150_000

// BenchmarkRecovery sets a restore of a checkpoint beside the replay that it
// saves, both from an embedded server on the disk, complete to the digest.
func BenchmarkRecovery(b *testing.B) {
	ctx := b.Context()
	server, err := streams.StartServer(streams.ServerOptions{Dir: b.TempDir(), Relaxed: true})
	require.NoError(b, err)
	defer server.Close()
	conn, err := streams.Connect(ctx, streams.ConnectOptions{Server: server})
	require.NoError(b, err)
	defer conn.Close()
	log, err := streams.OpenLog(ctx, conn, streams.LogOptions{})
	require.NoError(b, err)
	fill(b, log)
	opt := projector.Options{Partitions: log.Partitions(), Created: log.Created(), First: log.First()}
	c, err := snapshot.OpenCheckpoints(ctx, conn, log.Created(), true)
	require.NoError(b, err)

	r, err := snapshot.Begin(log, filepath.Join(b.TempDir(), "store"), opt)
	require.NoError(b, err)
	require.NoError(b, r.FoldTo(ctx, benchEvents, nil))
	want, err := r.Result(ctx)
	require.NoError(b, err)
	var m snapshot.Manifest
	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			m, err = c.Create(ctx, r.Store(), filepath.Join(b.TempDir(), "scratch"), "bench", 1)
			require.NoError(b, err)
		}
		b.ReportMetric(float64(m.Bytes)/(1<<20), "MiB")
	})
	require.Equal(b, want.Digest, m.Digest)
	require.NoError(b, r.Close())
	b.Run("replay", func(b *testing.B) {
		for b.Loop() {
			got, err := snapshot.Replay(ctx, log, filepath.Join(b.TempDir(), "new"), opt, nil)
			require.NoError(b, err)
			require.Equal(b, want, got)
		}
	})
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, c.Restore(ctx, m, log, filepath.Join(b.TempDir(), "new"), opt))
		}
	})
}

func fill(b *testing.B, log *streams.Log) {
	b.Helper()
	const batch = 1000
	var as []streams.Append
	for i := range benchEvents {
		n := i % (benchEvents / 3)
		as = append(as, streams.Append{Bulk: true, Event: policy.NodeUpdated{
			ID: uuid.New(), Project: uuid.MustParse(project), Node: policy.NodeID(fmt.Sprint("n", n)),
			Labels: policy.Labels{{Key: "group", Value: fmt.Sprint(n % 500)}, {Key: "turn", Value: fmt.Sprint(i / (benchEvents / 3))}},
		}})
		if len(as) == batch || i == benchEvents-1 {
			_, err := log.PublishAll(b.Context(), as)
			require.NoError(b, err)
			as = as[:0]
		}
	}
}

const project = "00000000-0000-4000-8000-000000000000"
