package plane

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// TestAWorkerFarBehindRebuildsInBulk takes a worker's read model away and lets
// it start again, once in bulk and once event by event.
func TestAWorkerFarBehindRebuildsInBulk(t *testing.T) {
	opt := Options{Data: t.TempDir(), HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0", Relaxed: true}
	var last uint64
	digest := func() (d projector.Digest) {
		ctx, cancel := context.WithCancel(t.Context())
		p, err := Open(ctx, opt)
		require.NoError(t, err)
		defer func() { // the next start has a log and no read model
			cancel()
			p.Close()
			require.NoError(t, os.RemoveAll(p.opt.dir().Store()))
		}()
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		if last == 0 {
			last = enroll(t, p, 40)
		}
		require.NoError(t, p.store.Wait(ctx, last))
		require.Eventually(t, func() bool { return p.relay.Ready() == nil && p.worker.Unassigned() == nil }, 30*time.Second, time.Millisecond)
		d, err = p.store.Digest(ctx)
		require.NoError(t, err)
		cancel()
		require.NoError(t, <-ended)
		return d
	}
	live := digest()
	require.Equal(t, 40, live.Rows)
	opt.farBehind = 10
	var lines bytes.Buffer
	opt.Log = slog.New(slog.NewTextHandler(&lines, nil))
	require.Equal(t, live, digest())
	require.Contains(t, lines.String(), "rebuilding the read model")
	lines.Reset()
	opt.farBehind = last + 1
	require.Equal(t, live, digest())
	require.NotContains(t, lines.String(), "rebuilding the read model")
}

// enroll publishes a policy and n nodes it matches, and returns the last sequence.
func enroll(t *testing.T, p *Plane, n int) uint64 {
	side, faults := policy.ParseExpr("role=web")
	require.Empty(t, faults)
	cidr := netip.MustParsePrefix("10.0.0.0/8")
	events := []streams.Append{{Event: policy.RevisionCreated{
		ID: uuid.New(), Project: project, Policy: uuid.New(), Slug: "web",
		Revision: policy.Revision{
			ID: uuid.New(), Selector: policy.Selector{Source: side, Destination: side}, CreatedAt: time.Now(),
			Rules: []policy.Rule{{Action: policy.Deny, Protocol: policy.Any, Source: cidr, Destination: cidr}},
		},
	}}}
	labels, err := policy.NewLabels(map[string]string{"role": "web"}, "")
	require.NoError(t, err)
	for i := range n {
		events = append(events, streams.Append{Bulk: true, Event: policy.NodeUpdated{
			ID: uuid.New(), Project: project, Node: policy.NodeID(fmt.Sprintf("n%d", i)), Labels: labels,
		}})
	}
	seqs, err := p.stream.PublishAll(t.Context(), events)
	require.NoError(t, err)
	return seqs[len(seqs)-1]
}
