package relay_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

func TestANativeClientAsksForWhatItMissed(t *testing.T) {
	p := newPlane(t)
	p.node("n0", "role=a")
	p.node("n1", "role=a")
	w := p.start(t.TempDir(), relay.Options{})
	p.ready(w)
	p.converged(w)
	p.eventually(func() bool {
		all, err := w.Partitions()
		return err == nil && all[policy.NodeID("n0").Partition(4)].Mode == relay.Follow
	}, "synced")
	nc, err := nats.Connect(p.server.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	ask := func(n uint64) (ids []string, end *nats.Msg) {
		sub, err := nc.SubscribeSync(nc.NewInbox())
		require.NoError(t, err)
		require.NoError(t, nc.PublishRequest("edict.replay.node.n0", sub.Subject, fmt.Appendf(nil, `{"after":%d}`, n)))
		for {
			m, err := sub.NextMsg(5 * time.Second)
			require.NoError(t, err)
			if m.Header.Get("Edict-Up-To") != "" {
				return ids, m
			}
			require.Empty(t, m.Header.Get("Edict-Error"))
			require.NotEmpty(t, m.Header.Get("Nats-Sequence"))
			ids = append(ids, m.Header.Get("Edict-Id"))
		}
	}
	at, err := w.Position()
	require.NoError(t, err)
	seq := p.revise(policyID(1), "role=a", 443)
	p.converged(w)
	var ids []string
	p.eventually(func() bool { ids, _ = ask(at); return len(ids) == 1 }, "told")
	require.Equal(t, fmt.Sprintf("n0.%s.%d", policyID(1), seq), ids[0])
	_, end := ask(0)
	require.Equal(t, "true", end.Header.Get("Edict-Resync"))
	n, _, err := streams.OpenNodes(t.Context(), p.conn, streams.NodesOptions{})
	require.NoError(t, err)
	st, err := n.State(t.Context())
	require.NoError(t, err)
	ids, end = ask(st.Last)
	require.Empty(t, ids)
	require.Empty(t, end.Header.Get("Edict-Resync"))
	require.Equal(t, fmt.Sprint(st.Last), end.Header.Get("Edict-Up-To"))
}

// clients counts live streams.
type clients struct{ n atomic.Int64 }

func (*clients) Announced(int, int)      {}
func (*clients) FenceConflict()          {}
func (c *clients) Clients(delta int)     { c.n.Add(int64(delta)) }
func (*clients) Resumed(string)          {}
func (*clients) Delivered(time.Duration) {}

// It is let go while somebody else, who hears of every change before the next is made, goes on.
func TestAClientThatNeverReadsIsLetGo(t *testing.T) {
	p := newPlane(t)
	p.node("n0", "role=a")
	count := &clients{}
	w := p.start(t.TempDir(), relay.Options{Metrics: count, WriteTimeout: 2 * time.Second})
	p.ready(w)
	reader := p.follow(w, "n0", "")
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.http.URL, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "GET /n0 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	p.eventually(func() bool { return count.n.Load() == 2 }, "both are open")
	hears := func(rules int) {
		ports := make([]uint16, rules)
		for i := range ports {
			ports[i] = uint16(10000 + i*7)
		}
		p.revise(policyID(1), "role=a", ports...)
		p.eventually(func() bool {
			s := reader.seen()
			return len(s) > 0 && s[len(s)-1] == fmt.Sprintf("01=%d", rules)
		}, "nobody else is held up")
	}
	for i := range 10 { // more than the connection holds unread
		hears(policy.MaxRules - i%2)
	}
	p.eventually(func() bool { return count.n.Load() == 1 }, "let go")
	_, err = io.Copy(io.Discard, conn)
	require.ErrorIs(t, err, syscall.ECONNRESET, "the system keeps nothing for it either")
	hears(1)
}
