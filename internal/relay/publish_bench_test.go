//go:build unix

package relay_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// cpu is what this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPublish tells 10,000 nodes of a revision of 20 rules, and one
// listener of all of them; "plain" publishes the same bytes to the same
// listener.
func BenchmarkPublish(b *testing.B) {
	const nodes = 10_000
	p := newPlane(b)
	w := p.start(b.TempDir(), relay.Options{Publish: relay.PublishOptions{Share: all()}})
	events := make([]streams.Append, nodes)
	labels, err := policy.NewLabels(map[string]string{"role": "web"}, "")
	require.NoError(b, err)
	for i := range events {
		events[i] = streams.Append{Bulk: true, Event: policy.NodeUpdated{ID: uuid.New(), Project: project, Node: policy.NodeID(fmt.Sprintf("node-%05d", i)), Labels: labels}}
	}
	_, err = p.log.PublishAll(b.Context(), events)
	require.NoError(b, err)
	e := p.listen("edict.node.>")
	require.NoError(b, e.sub.SetPendingLimits(-1, -1))
	var ports []uint16
	for i := range uint16(20) {
		ports = append(ports, 1000+i)
	}
	ports[0] = 2000
	var last []*nats.Msg
	hear := func() {
		last = last[:0]
		for range nodes {
			m, err := e.sub.NextMsgWithContext(b.Context())
			require.NoError(b, err)
			last = append(last, m)
		}
	}
	report := func(b *testing.B, from time.Duration) {
		n := float64(b.N * nodes)
		b.ReportMetric(n/b.Elapsed().Seconds(), "msg/s")
		b.ReportMetric(float64((cpu()-from).Microseconds())/n, "cpu-us/msg")
	}
	b.Run("derived", func(b *testing.B) {
		from := cpu()
		for range b.N {
			ports[0]++
			seq := p.revise(p.policyID(1), "role=web", ports...)
			hear()
			w.at(seq)
		}
		report(b, from)
	})
	b.Run("plain", func(b *testing.B) {
		conn := p.connect(streams.ConnectOptions{Server: p.server})
		same := append([]*nats.Msg(nil), last...)
		from := cpu()
		b.ResetTimer()
		for range b.N {
			for _, m := range same {
				require.NoError(b, conn.Tell(m.Subject, m.Header, m.Data))
			}
			require.NoError(b, conn.Flush(b.Context(), conn.Reconnects()))
			hear()
		}
		report(b, from)
	})
	require.NoError(b, e.sub.Unsubscribe())
	require.NoError(b, e.nc.FlushTimeout(soon))
	b.Run("nobody", func(b *testing.B) {
		from := cpu()
		for range b.N {
			ports[0]++
			w.at(p.revise(p.policyID(1), "role=web", ports...))
		}
		report(b, from)
	})
}
