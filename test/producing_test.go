package test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/test/check"
)

// producer appends events to the log itself, while servers come and go: each until
// JetStream acknowledges it. It alone writes about its nodes. Every third event is
// one that the fold must reject.
type producer struct {
	nodes []string
	nc    *nats.Conn
	js    jetstream.JetStream
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu     sync.Mutex
	count  int
	acks   []check.Ack
	labels map[string]map[string]string // by node, as acknowledged last
}

// produce starts one, which ends with the test.
func produce(t *testing.T, servers string, nodes ...string) *producer {
	t.Helper()
	nc, err := nats.Connect(servers, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ReconnectBufSize(-1), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	require.NoError(t, err)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	o := &producer{nodes: nodes, nc: nc, js: js, labels: map[string]map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	o.stop = cancel
	t.Cleanup(o.end)
	o.done.Go(func() {
		for ctx.Err() == nil {
			o.step(ctx)
			pauseFor(ctx, 3*time.Millisecond)
		}
	})
	return o
}

// step appends one event. What it began it ends, unless ctx does first.
func (o *producer) step(ctx context.Context) {
	o.count++
	node, id := o.nodes[o.count%len(o.nodes)], uuid.NewString()
	subject := "edict.log." + defaultProject + ".node." + node
	labels := map[string]string{"role": []string{"web", "db"}[o.count%2], "n": fmt.Sprint("producer-", o.count)}
	body := fmt.Appendf(nil, `{"id":%q,"type":"node_updated","project_id":%q,"node_id":%q,"labels":{"role":%q,"n":%q},"addresses":[]}`,
		id, defaultProject, node, labels["role"], labels["n"])
	bad := o.count%3 == 0
	if bad { // it says that it is about another project than its subject
		body = fmt.Appendf(nil, `{"id":%q,"type":"node_updated","project_id":%q,"node_id":%q,"labels":{"role":"nothing"},"addresses":[]}`,
			id, uuid.NewString(), node)
	}
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		ack, err := o.js.PublishMsg(try, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{"Nats-Msg-Id": {id}}})
		cancel()
		if err != nil {
			pauseFor(ctx, 5*time.Millisecond)
			continue
		}
		o.mu.Lock()
		o.acks = append(o.acks, check.Ack{Seq: ack.Sequence, Subject: subject, Event: id})
		if !bad {
			o.labels[node] = labels
		}
		o.mu.Unlock()
		return
	}
}

// acked is how many events were acknowledged.
func (o *producer) acked() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.acks)
}

// end cuts it off: what it had begun is not acknowledged any more.
func (o *producer) end() {
	o.stop()
	o.done.Wait()
	o.nc.Close()
}
