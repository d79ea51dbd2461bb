package relay_test

import (
	"fmt"
	"testing"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// BenchmarkFanOut is one revision of a policy that every node has, from the
// log to the last message stored in the node stream.
func BenchmarkFanOut(b *testing.B) {
	const nodes = 20_000
	p := newPlane(b)
	labels, err := policy.NewLabels(map[string]string{"role": "a"}, "")
	require.NoError(b, err)
	var as []streams.Append
	for i := range nodes {
		as = append(as, streams.Append{Bulk: true, Event: policy.NodeUpdated{
			ID: uuid.New(), Project: project, Node: policy.NodeID(fmt.Sprintf("n%d", i)), Labels: labels,
		}})
	}
	_, err = p.log.PublishAll(b.Context(), as)
	require.NoError(b, err)
	told := &counter{left: make(chan int, 1000)}
	w := p.start(b.TempDir(), relay.Options{Metrics: told})
	p.ready(w)
	p.revise(policyID(1), "role=a", 1)
	told.wait(nodes)
	i := 0
	for b.Loop() {
		i++
		p.revise(policyID(1), "role=a", uint16(i%60000+1))
		told.wait(nodes)
	}
	b.ReportMetric(float64(nodes)*float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

// counter counts announcements.
type counter struct {
	clients
	left chan int
}

func (c *counter) Announced(n, _ int) { c.left <- n }

func (c *counter) wait(n int) {
	for n > 0 {
		n -= <-c.left
	}
}
