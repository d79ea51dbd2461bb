package relay_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

var stormClients = flag.Int("storm.clients", 300, "how many clients come back at once")

// resumes counts where pasts came from.
type resumes struct {
	clients
	ring, others atomic.Int64
}

func (r *resumes) Resumed(source string) {
	if source == relay.SourceRing {
		r.ring.Add(1)
	} else {
		r.others.Add(1)
	}
}

// fleet registers n nodes of one role.
func (p *plane) fleet(n int) {
	p.t.Helper()
	labels, err := policy.NewLabels(map[string]string{"role": "a"}, "")
	require.NoError(p.t, err)
	as := make([]streams.Append, n)
	for i := range as {
		as[i] = streams.Append{Bulk: true, Event: policy.NodeUpdated{
			ID: uuid.New(), Project: project, Node: policy.NodeID("n" + strconv.Itoa(i)), Labels: labels,
		}}
	}
	_, err = p.log.PublishAll(p.t.Context(), as)
	require.NoError(p.t, err)
}

// released waits until w has released what it announced of the log up to seq.
func (p *plane) released(w *worker, seq uint64) {
	p.t.Helper()
	p.ready(w)
	n, _, err := streams.OpenNodes(p.t.Context(), p.conn, streams.NodesOptions{LogID: p.log.ID()})
	require.NoError(p.t, err)
	require.NoError(p.t, w.store.Wait(p.t.Context(), seq))
	p.eventually(func() bool {
		all, err := w.Partitions()
		for _, s := range all {
			if err != nil || s.Mode != relay.Follow || s.Edges > 0 {
				return false
			}
		}
		st, err := n.State(p.t.Context())
		at, ready := w.Position()
		return err == nil && ready == nil && at == st.Last
	}, "everything is announced and released")
}

// hear reads want events after last and returns their ids and envelope ids.
func (w *worker) hear(ctx context.Context, node, last string, want int, each func()) (ids []uint64, events []string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.http.URL+"/"+node, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Last-Event-ID", last)
	resp, err := w.http.Client().Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("node %s: %s", node, resp.Status)
	}
	for lines := bufio.NewReader(resp.Body); len(events) < want; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return ids, events, fmt.Errorf("node %s after %d events: %w", node, len(events), err)
		}
		if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			n, _ := strconv.ParseUint(string(bytes.TrimSpace(id)), 10, 64)
			ids = append(ids, n)
		}
		if data, ok := bytes.CutPrefix(line, []byte(`data: {"id":"`)); ok {
			id, _, _ := bytes.Cut(data, []byte(`"`))
			events = append(events, string(id))
			each()
		}
	}
	return ids, events, nil
}

func TestClientsThatComeBackAtOnceMissNothingAndHearNothingTwice(t *testing.T) {
	const missed = 5
	nodes := *stormClients
	p := newPlane(t)
	p.fleet(nodes)
	count := &resumes{}
	w := p.start(t.TempDir(), relay.Options{Metrics: count})
	p.released(w, p.log.First()+uint64(nodes)-1)
	at, err := w.Position()
	require.NoError(t, err)
	var causes []uint64
	for i := range missed {
		causes = append(causes, p.revise(policyID(byte(i+1)), "role=a", 443))
	}
	p.released(w, causes[missed-1])

	var caughtUp sync.WaitGroup
	caughtUp.Add(nodes * missed)
	var heard atomic.Int64
	var g errgroup.Group
	for i := range nodes {
		g.Go(func() error {
			node := "n" + strconv.Itoa(i)
			ids, events, err := w.hear(t.Context(), node, strconv.FormatUint(at, 10), missed+1, func() {
				if heard.Add(1) <= int64(nodes*missed) {
					caughtUp.Done()
				}
			})
			if err != nil {
				return err
			}
			seen := map[string]bool{}
			for i := range events {
				if seen[events[i]] || !strings.HasPrefix(events[i], node+".") || i > 0 && ids[i] <= ids[i-1] {
					return fmt.Errorf("%s hears %v at %v", node, events, ids)
				}
				seen[events[i]] = true
			}
			for i, seq := range causes {
				if id := fmt.Sprintf("%s.%s.%d", node, policyID(byte(i+1)), seq); !seen[id] {
					return fmt.Errorf("%s does not hear of %s: %v", node, id, events)
				}
			}
			return nil
		})
	}
	caughtUp.Wait()
	p.revise(policyID(9), "role=a", 443) // the next thing anybody hears
	require.NoError(t, g.Wait())
	require.Equal(t, int64(nodes), count.ring.Load(), "all of them are answered from memory")
	require.Zero(t, count.others.Load())
}

func TestReadersThatNeverReadCostLittleAndHoldNobodyUp(t *testing.T) {
	const stalled, policies, rounds = 50, 3, 25
	p := newPlane(t)
	p.fleet(stalled + 1)
	count := &clients{}
	w := p.start(t.TempDir(), relay.Options{Metrics: count, WriteTimeout: time.Hour, Ring: -1})
	p.released(w, p.log.First()+stalled)
	var conns []net.Conn
	for i := range stalled {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.http.URL, "http://"))
		require.NoError(t, err)
		defer conn.Close()
		conns = append(conns, conn)
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
		_, err = fmt.Fprintf(conn, "GET /n%d HTTP/1.1\r\nHost: x\r\n\r\n", i)
		require.NoError(t, err)
	}
	p.eventually(func() bool { return count.n.Load() == stalled }, "open")
	reader := p.follow(w, "n"+strconv.Itoa(stalled), "")
	ports := make([]uint16, 60)
	var seq uint64
	for round := range rounds {
		for i := range ports {
			ports[i] = uint16(1000 + 100*round + i)
		}
		for i := range policies {
			seq = p.revise(policyID(byte(i+1)), "role=a", ports...)
		}
	}
	p.released(w, seq)
	require.Equal(t, int64(stalled+1), count.n.Load(), "nobody is let go yet")
	p.eventually(func() bool {
		return len(reader.seen()) > 0 && strings.HasSuffix(reader.seen()[len(reader.seen())-1], "=60")
	}, "the reader hears")
	for _, what := range reader.seen() {
		require.Regexp(t, `^0[123]=60$`, what)
	}
	with := inUse()
	for _, conn := range conns {
		conn.Close()
	}
	p.eventually(func() bool { return count.n.Load() == 1 }, "they are gone")
	each := (with - inUse()) / stalled
	t.Logf("a connection that never reads holds %d KiB after %d events", each>>10, policies*rounds)
	// The newest of each policy twice, one write under way and the connection are
	// about 120 KiB; the server's caches come and go beside it. A queue that kept
	// everything would be well above.
	const event = 9 << 10
	require.Less(t, each, int64(policies*rounds*event/2))
}

// inUse is the memory that heap and stacks hold.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
