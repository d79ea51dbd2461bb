package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

const (
	clients       = 1_000
	stagePolicies = 10 // that every node matches
	stageOwn      = 10 // policies that one node alone matches, for each
	stageRules    = 1
	stuffedRules  = 24 // of an event that is to fill buffers
	publishers    = 8
)

// stage is a server in a process of its own and a crowd before it, in which
// client i is the i-th of clients.
type stage struct {
	*child
	crowd *crowd
	// toAll has one event sent to every client and returns the cause they will
	// hear of.
	toAll func(ctx context.Context) (cause uint64, err error)
	// toEach prepares n events, event i for client i mod clients; send may be
	// called from many goroutines.
	toEach func(n int) (send func(ctx context.Context, i int) (cause uint64, err error))
	// quiet returns when nothing that was sent is under way any more.
	quiet func(ctx context.Context) error
	close func() error
	// stuffed is toAll with a larger event; of the product alone.
	stuffed func(ctx context.Context) (cause uint64, err error)

	mu    sync.Mutex
	want  [][]uint64           // of each client, the causes to be heard of
	began map[uint64]time.Time // when each was published
}

func (s *stage) forget() {
	s.want, s.began = make([][]uint64, clients), map[uint64]time.Time{}
}

// expect notes that clients, or one of them, will hear of cause.
func (s *stage) expect(cause uint64, began time.Time, members ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began[cause] = began
	for _, i := range members {
		s.want[i] = append(s.want[i], cause)
	}
}

// sendAll sends n events to every client, one after the other.
func (s *stage) sendAll(ctx context.Context, n int) error { return s.toEveryone(ctx, n, s.toAll) }

// stuff is sendAll with larger events.
func (s *stage) stuff(ctx context.Context, n int) error { return s.toEveryone(ctx, n, s.stuffed) }

func (s *stage) toEveryone(ctx context.Context, n int, send func(context.Context) (uint64, error)) error {
	everyone := make([]int, clients)
	for i := range everyone {
		everyone[i] = i
	}
	for range n {
		at := time.Now()
		cause, err := send(ctx)
		if err != nil {
			return err
		}
		s.expect(cause, at, everyone...)
	}
	return nil
}

// sendEach sends n events to one client each, from several publishers.
func (s *stage) sendEach(ctx context.Context, n int, send func(context.Context, int) (uint64, error)) error {
	g, ctx := errgroup.WithContext(ctx)
	for p := range publishers {
		g.Go(func() error {
			for i := p; i < n; i += publishers {
				at := time.Now()
				cause, err := send(ctx, i)
				if err != nil {
					return err
				}
				s.expect(cause, at, i%clients)
			}
			return nil
		})
	}
	return g.Wait()
}

// planeStage is the product, with a node for each client. All nodes match
// stagePolicies of its policies; with own, each also matches stageOwn that are
// its alone. An event is a revision of one of them, and no policy is revised
// twice at a time: a node that is slow would be sent the newer alone.
func planeStage(ctx context.Context, e *env, own bool, flags ...string) (*stage, error) {
	s, err := serveEdict(ctx, e, flags...)
	if err != nil {
		return nil, err
	}
	st := &stage{child: s.child, close: s.close}
	st.forget()
	w := &stageWorld{a: newAuthor(4)}
	st.quiet = func(ctx context.Context) error {
		_, err := s.settled(ctx)
		return err
	}
	publish := func(ctx context.Context, e policy.Event) (uint64, error) {
		seq, _, err := s.log.Publish(ctx, streams.Append{Event: e})
		return place(s.log, seq), err
	}
	st.toAll = func(ctx context.Context) (uint64, error) { return publish(ctx, w.forAll(stageRules)) }
	st.stuffed = func(ctx context.Context) (uint64, error) { return publish(ctx, w.forAll(stuffedRules)) }
	st.toEach = func(n int) func(context.Context, int) (uint64, error) {
		events := make([]policy.Event, n)
		for i := range events {
			events[i] = w.forOne(i)
		}
		return func(ctx context.Context, i int) (uint64, error) { return publish(ctx, events[i]) }
	}
	var paths []string
	for i := range clients {
		paths = append(paths, "/v1/nodes/"+string(nodeName(i))+"/events")
	}
	st.crowd = newCrowd(s.addr, paths)
	st.crowd.trust, st.crowd.accept = s.trust, inRuns
	if err = s.publish(ctx, w.beginning(own)); err == nil {
		err = st.quiet(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return st, nil
}

// stageWorld writes the events of a product's stage.
type stageWorld struct {
	a    *author
	said int
}

// beginning registers the nodes and publishes every policy once.
func (w *stageWorld) beginning(own bool) (events []policy.Event) {
	for i := range clients {
		events = append(events, w.a.node(i, labelled("env", "prod", "host", string(nodeName(i)))))
	}
	for range stagePolicies {
		events = append(events, w.forAll(stageRules))
	}
	for i := range clients * stageOwn {
		if own {
			events = append(events, w.forOne(i))
		}
	}
	return events
}

func (w *stageWorld) forAll(rules int) policy.Event {
	w.said++
	return w.a.revise(w.said%stagePolicies, selecting("env=prod"), rules, w.said)
}

func (w *stageWorld) forOne(i int) policy.Event {
	w.said++
	return w.a.revise(stagePolicies+i%(clients*stageOwn), selecting("host="+string(nodeName(i%clients))), stageRules, w.said)
}

// hubProcess starts a plain hub.
func hubProcess(ctx context.Context, e *env, command string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(e.dir, "hub.ready")
	return start(ctx, e.dir, "hub", file, self, command, file)
}

// hubStage is the plain hub. size is asked before events are sent, so that they
// are as long as the product's.
func hubStage(ctx context.Context, e *env, size func() int) (*stage, error) {
	c, err := hubProcess(ctx, e, hubCommand)
	if err != nil {
		return nil, err
	}
	st := &stage{child: c, close: c.stop, quiet: func(context.Context) error { return nil }}
	st.forget()
	var paths []string
	for i := range clients {
		paths = append(paths, "/events/"+string(nodeName(i)))
	}
	st.crowd = newCrowd(c.addr, paths)
	poster := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: publishers}}
	var said atomic.Uint64
	post := func(ctx context.Context, path string, bytes int) (uint64, error) {
		n := said.Add(1)
		return n, post(ctx, poster, "http://"+c.addr+"/publish"+path, padded(n, bytes))
	}
	st.toAll = func(ctx context.Context) (uint64, error) { return post(ctx, "", size()) }
	st.toEach = func(int) func(context.Context, int) (uint64, error) {
		bytes := size()
		return func(ctx context.Context, i int) (uint64, error) {
			return post(ctx, "/"+string(nodeName(i%clients)), bytes)
		}
	}
	return st, nil
}

// padded is an event's data of a size, that names its cause.
func padded(cause uint64, size int) []byte {
	const end = `"}`
	b := fmt.Appendf(nil, `{"cause":"%d","pad":"`, cause)
	b = append(b, bytes.Repeat([]byte("x"), max(0, size-len(b)-len(end)))...)
	return append(b, end...)
}

func post(ctx context.Context, c *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("POST %s: %s", url, resp.Status)
	}
	return nil
}

// stages opens the product's and, as its floor, the hub's. The hub is not
// durable at all, so the product is as little as it can be.
func stages(ctx context.Context, e *env, own bool) (plane, plain *stage, err error) {
	if plane, err = planeStage(ctx, e, own, "--durability", "relaxed"); err != nil {
		return nil, nil, err
	}
	if plain, err = hubStage(ctx, e, func() int { return plane.crowd.eventBytes() }); err != nil {
		return nil, nil, errors.Join(err, plane.close())
	}
	return plane, plain, nil
}
