package test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/check"
	"github.com/edictdev/edict/internal/test/oracle"
)

// producer appends events to the log itself, while servers come and go: each until
// JetStream acknowledges it. It alone writes about its nodes and its policy. Every
// other event is one that the fold must reject, or has met before.
type producer struct {
	name  string
	nodes []string
	nc    *nats.Conn
	js    jetstream.JetStream
	stop  context.CancelFunc
	done  sync.WaitGroup

	enough atomic.Bool

	mu     sync.Mutex
	count  int
	acks   []check.Ack
	labels map[string]map[string]string // by node, as acknowledged last
	last   map[string][]sent            // by node, what was acknowledged
	policy string
	head   string // its revision
}

// sent is an event that was.
type sent struct {
	subject, id string
	body        []byte
	again       bool // it is in the log, and shall be once more
}

// produce starts one, which ends with the test.
func produce(t *testing.T, servers, name string, nodes ...string) *producer {
	t.Helper()
	nc, err := nats.Connect(servers, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ReconnectBufSize(-1), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	require.NoError(t, err)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	o := &producer{
		name: name, nodes: nodes, nc: nc, js: js, policy: uuid.NewString(),
		labels: map[string]map[string]string{}, last: map[string][]sent{},
	}
	ctx, cancel := context.WithCancel(t.Context())
	o.stop = cancel
	t.Cleanup(o.end)
	o.done.Go(func() {
		for ctx.Err() == nil && !o.enough.Load() {
			o.step(ctx)
			pauseFor(ctx, 10*time.Millisecond)
		}
	})
	return o
}

// step appends one event. What it began it ends, unless ctx does first.
func (o *producer) step(ctx context.Context) {
	o.count++
	node := o.nodes[o.count/2%len(o.nodes)]
	known := !slices.ContainsFunc(o.nodes, func(n string) bool { return len(o.last[n]) == 0 })
	if o.count%2 == 0 && known { // else somebody else would be the first to name one
		o.send(ctx, o.wrong(node))
		return
	}
	if o.count%7 == 0 && known {
		if e, revision := o.revise(o.head); o.send(ctx, e) {
			o.head = revision
		}
		return
	}
	labels := map[string]string{"role": []string{"web", "db"}[o.count/2%2], "n": fmt.Sprint(o.name, "-", o.count)}
	e := o.update(defaultProject, defaultProject, node, fmt.Sprintf(`{"role":%q,"n":%q}`, labels["role"], labels["n"]))
	if o.send(ctx, e) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.labels[node], o.last[node] = labels, append(o.last[node], e)
	}
}

// wrong is an event that changes nothing, whatever becomes of it.
func (o *producer) wrong(node string) sent {
	const other = "0c0ffee0-0000-4000-8000-000000000000"
	e := o.update(defaultProject, defaultProject, node, `{"role":"nothing"}`)
	switch o.count / 2 % 9 {
	case 0:
		return o.update(defaultProject, other, node, `{"role":"nothing"}`) // subject_mismatch
	case 1:
		return o.update(other, other, node, `{"role":"nothing"}`) // node_id_taken
	case 2:
		return o.update(defaultProject, defaultProject, node, `{"-":"nothing"}`) // invalid
	case 3:
		e.body = fmt.Appendf(nil, `{"id":%q,"type":"node_mislaid","node_id":%q}`, e.id, node) // unknown_type
	case 4:
		e.body = fmt.Appendf(nil, `{"id":%q,"type":"node_updated","nodes":7}`, e.id) // undecodable
	case 5:
		e, _ = o.revise(uuid.NewString()) // revision_conflict
	case 6:
		e, _ = o.revise("") // policy_id_used
		if o.head == "" {
			e, _ = o.revise(uuid.NewString())
		}
	default: // stale_event, or met again
		o.mu.Lock()
		defer o.mu.Unlock()
		if all := o.last[node]; len(all) > 0 {
			e = all[max(0, len(all)+6-o.count/2%9)]
			e.again = true
		}
	}
	return e
}

func (o *producer) update(of, says, node, labels string) sent {
	id := uuid.NewString()
	return sent{subject: "edict.log." + of + ".node." + node, id: id, body: fmt.Appendf(nil,
		`{"id":%q,"type":"node_updated","project_id":%q,"node_id":%q,"labels":%s,"addresses":[]}`, id, says, node, labels)}
}

// revise is a revision of its policy, which selects nobody, after a parent.
func (o *producer) revise(parent string) (e sent, revision string) {
	id, revision, after := uuid.NewString(), uuid.NewString(), "null"
	if parent != "" {
		after = strconv.Quote(parent)
	}
	return sent{subject: "edict.log." + defaultProject + ".policy." + o.policy, id: id, body: fmt.Appendf(nil,
		`{"id":%q,"type":"policy_revision_created","project_id":%q,"policy_id":%q,"slug":%q,"display_name":"of a producer","revision":{"id":%q,"parent_id":%s,`+
			`"selector":{"source":"role=nobody","destination":"role=nobody"},"rules":[{"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}],`+
			`"created_at":"2026-11-20T12:00:00Z","created_by":%q,"correlation_id":null}}`,
		id, defaultProject, o.policy, o.name, revision, after, o.name)}, revision
}

// send publishes an event until the log says that it has it.
func (o *producer) send(ctx context.Context, e sent) bool {
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		m := &nats.Msg{Subject: e.subject, Data: e.body}
		if !e.again {
			m.Header = nats.Header{"Nats-Msg-Id": {e.id}}
		}
		ack, err := o.js.PublishMsg(try, m)
		cancel()
		if err != nil {
			pauseFor(ctx, 5*time.Millisecond)
			continue
		}
		o.mu.Lock()
		o.acks = append(o.acks, check.Ack{Seq: ack.Sequence, Subject: e.subject, Event: e.id})
		o.mu.Unlock()
		return true
	}
	return false
}

// facts writes to a plane what its producer knows to stand.
func (o *producer) facts(plane *oracle.Plane) {
	for node, labels := range o.labels {
		plane.SetNode(defaultProject, node, labels)
	}
}

// acked is how many events were acknowledged.
func (o *producer) acked() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.acks)
}

// finish lets it end what it began.
func (o *producer) finish() {
	o.enough.Store(true)
	o.done.Wait()
}

// end cuts it off: what it had begun may be stored, and it never heard so.
func (o *producer) end() {
	o.stop()
	o.done.Wait()
	o.nc.Close()
}
