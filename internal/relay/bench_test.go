//go:build unix

package relay

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
)

const benchStreams = 1000

// crowd reads streams and counts their frames.
type crowd struct {
	frames atomic.Int64
	wanted atomic.Int64
	done   chan struct{}
}

// join opens a stream over a bare connection and counts the frames of it.
func (c *crowd) join(b *testing.B, addr, path, accept string) {
	conn, err := net.Dial("tcp", addr)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n\r\n", path, accept)
	require.NoError(b, err)
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		require.NoError(b, err)
		if line == "\r\n" {
			break
		}
	}
	go func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			if err != nil {
				return
			}
			if k := int64(bytes.Count(buf[:n], []byte("event: p"))); k > 0 && c.frames.Add(k) == c.wanted.Load() {
				c.done <- struct{}{}
			}
		}
	}()
}

// want says how many frames are to come, before they are sent.
func (c *crowd) want(n int64) {
	c.frames.Store(0)
	c.wanted.Store(n)
}

// plainHub is the least that serves event streams: what there is to say goes
// through a channel for each stream, without a signature.
type plainHub struct {
	mu   sync.Mutex
	subs map[string]chan []byte
}

func (h *plainHub) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	sub := make(chan []byte, 16)
	h.mu.Lock()
	h.subs[strings.TrimPrefix(req.URL.Path, "/")] = sub
	h.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	seq := 0
	var buf []byte
	for {
		select {
		case <-req.Context().Done():
			return
		case m := <-sub:
			seq++
			buf = fmt.Appendf(buf[:0], "id: %d\nevent: policy_updated\ndata: %s\n\n", seq, m)
			_, _ = w.Write(buf)
			_ = rc.Flush()
		}
	}
}

// benchRules are as many rules as a row of the benches of the whole has.
func benchRules(l *script, p int, selector string, k int) {
	ports := make([]int, 8)
	for i := range ports {
		ports[i] = 1 + (k*8+i)%65000
	}
	l.revise(p, selector, ports...)
}

// BenchmarkStreams measures events until the last of a thousand streams has its
// own: one event for all, or one for each, in either form; and the same bytes
// from a plain hub.
func BenchmarkStreams(b *testing.B) {
	for name, each := range map[string]bool{"all": false, "each": true} {
		size := 0
		for _, dialect := range []string{"batch", "current"} {
			b.Run(name+"/"+dialect, func(b *testing.B) {
				log := newScript(b)
				for i := range benchStreams {
					log.node(fmt.Sprintf("n%d", i), "role=web", fmt.Sprintf("n=%d", i))
				}
				g := newStage(b, log, Options{})
				g.play()
				c := &crowd{done: make(chan struct{}, 1)}
				for i := range benchStreams {
					c.join(b, g.server.Listener.Addr().String(), fmt.Sprintf("/n%d", i), "text/event-stream;dialect="+dialect)
				}
				used := &cpu{}
				for k := 0; b.Loop(); k++ {
					b.StopTimer()
					c.want(benchStreams)
					if each {
						for i := range benchStreams {
							benchRules(log, i, fmt.Sprintf("n=%d", i), k)
						}
					} else {
						benchRules(log, 0, "role=web", k)
					}
					// Only what the relay does counts: the fold has a bench of its own.
					batch := g.fold()
					b.StartTimer()
					used.start()
					for _, x := range batch {
						g.relay.hub.inbox.Take(x)
					}
					<-c.done
					used.stop()
				}
				if size == 0 {
					r := g.open("n1", "0", "text/event-stream;dialect=batch")
					r.next()
					size = len(r.next().Data) + 300
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchStreams), "ns/frame")
				b.ReportMetric(float64(used.sum.Nanoseconds())/float64(b.N*benchStreams), "cpu-ns/frame")
			})
		}
		b.Run(name+"/plain", func(b *testing.B) {
			h := &plainHub{subs: map[string]chan []byte{}}
			server := httptest.NewServer(h)
			defer server.Close()
			defer server.CloseClientConnections()
			c := &crowd{done: make(chan struct{}, 1)}
			for i := range benchStreams {
				c.join(b, server.Listener.Addr().String(), fmt.Sprintf("/n%d", i), "")
			}
			used := &cpu{}
			body := bytes.Repeat([]byte("x"), size)
			for b.Loop() {
				used.start()
				c.want(benchStreams)
				h.mu.Lock()
				for _, sub := range h.subs {
					sub <- body
				}
				h.mu.Unlock()
				<-c.done
				used.stop()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchStreams), "ns/frame")
			b.ReportMetric(float64(used.sum.Nanoseconds())/float64(b.N*benchStreams), "cpu-ns/frame")
		})
	}
}

// cpu is the time that this process used, the readers' included.
type cpu struct{ from, sum time.Duration }

func (c *cpu) start() { c.from = cpuNow() }
func (c *cpu) stop()  { c.sum += cpuNow() - c.from }

func cpuNow() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fold folds what is new and returns what it hands over, in place of handing it.
func (g *stage) fold() (batches []projector.Batch) {
	kept := &keeper{}
	g.store.Feed(kept)
	g.play()
	g.store.Feed(feeds{g.relay.hub.inbox})
	return kept.batches
}

type keeper struct{ batches []projector.Batch }

func (*keeper) Wanted() bool             { return true }
func (k *keeper) Take(b projector.Batch) { k.batches = append(k.batches, b) }
