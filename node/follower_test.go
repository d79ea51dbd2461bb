package node

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	rulesA = `[{"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"any","action":"allow"}]`
	rulesB = `[{"source_cidr":"192.168.0.0/16","destination_cidr":"10.1.0.0/16","protocol":"any","action":"deny"}]`
)

var (
	web = uuid.MustParse("00000000-0000-7000-8000-000000000001")
	db  = uuid.MustParse("00000000-0000-7000-8000-000000000002")
)

// hasty tries again at once.
func hasty(from policy.EventID) Options {
	return Options{From: &from, MinWait: time.Microsecond, MaxWait: time.Microsecond}
}

// follow collects n events.
func follow(t *testing.T, f *Follower, n int) (events []Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for e, err := range f.Events(ctx) {
		require.NoError(t, err)
		if events = append(events, e); len(events) == n {
			break
		}
	}
	require.Len(t, events, n)
	return events
}

func ids(events []Event) (out []policy.EventID) {
	for _, e := range events {
		out = append(out, e.ID)
	}
	return out
}

func TestRowsFollowTheEvents(t *testing.T) {
	p, url := newPlane(t)
	f := NewFollower(url, self, hasty(0))
	p.add(msg{5, db, rulesB}, msg{7, web, rulesA})
	require.Equal(t, []policy.EventID{5, 7}, ids(follow(t, f, 2)))
	rows := f.Rows()
	require.Equal(t, []uuid.UUID{web, db}, []uuid.UUID{rows[0].Policy, rows[1].Policy}, "by policy id")
	require.Equal(t, rulesA[:len(rulesA)-1]+","+rulesB[1:], string(f.Merged().Rules))

	p.add(msg{9, web, "[]"})
	e := follow(t, f, 1)[0]
	require.Equal(t, web, e.Policy.PolicyID)
	require.EqualValues(t, 9, e.ID)
	require.Len(t, f.Rows(), 1)
	require.Equal(t, []string{"0", "7"}, p.connections())
}

func TestWithoutAPlaceToBeginTheStateIsPulledFirst(t *testing.T) {
	p, url := newPlane(t)
	p.position, p.state[web] = 6, rulesA
	p.add(msg{5, web, rulesB}, msg{7, db, rulesB})
	f := NewFollower(url, self, Options{})
	require.Equal(t, []policy.EventID{7}, ids(follow(t, f, 1)))
	require.Len(t, f.Rows(), 2)
	require.Equal(t, rulesA, string(f.Rows()[0].Rules))
	require.Equal(t, []string{"6"}, p.connections())
}

// transport answers requests without a network.
type transport func(r *http.Request) *http.Response

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

var cutEvery = flag.Int("node.cuts", 13, "within lines, TestACutAtAnyByteLosesAndRepeatsNothing cuts at each n-th byte")

// Every cut of the stream, at any byte, must leave exactly the same events. In a line all
// cuts are alike but near its ends.
func TestACutAtAnyByteLosesAndRepeatsNothing(t *testing.T) {
	p, url := newPlane(t)
	p.messages = []msg{{5, web, rulesA}, {6, db, rulesB}, {9, web, "[]"}}
	trust := artifact.NewTrustSet()
	require.NoError(t, trust.Add(artifact.PlanePolicy, p.signer.KeyID(), p.signer.PublicKey(), time.Time{}))
	texts := map[string]string{}
	for _, after := range []policy.EventID{0, 5, 6} {
		texts[after.String()] = p.stream(after, time.Now())
	}
	for cut := range texts["0"] {
		if near := texts["0"][max(0, cut-2):min(len(texts["0"]), cut+2)]; cut%*cutEvery != 0 && !strings.Contains(near, "\n") {
			continue
		}
		connections := 0
		opt := hasty(0)
		opt.Trust = trust
		opt.HTTP = &http.Client{Transport: transport(func(r *http.Request) *http.Response {
			text, end := texts[r.Header.Get("Last-Event-ID")], io.EOF
			if connections++; connections == 1 {
				text = text[:cut]
				if cut%2 == 0 {
					end = io.ErrUnexpectedEOF
				}
			}
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
				Body: io.NopCloser(io.MultiReader(strings.NewReader(text), iotest.ErrReader(end))),
			}
		})}
		f := NewFollower(url, self, opt)
		require.Equal(t, []policy.EventID{5, 6, 9}, ids(follow(t, f, 3)), "cut at byte %d", cut)
		require.Len(t, f.Rows(), 1)
	}
}

func TestAWordToPullBringsTheState(t *testing.T) {
	p, url := newPlane(t)
	p.position, p.state[db] = 12, rulesA
	p.add(msg{5, web, rulesB}, msg{8, uuid.Nil, ""}, msg{11, db, rulesB}, msg{13, web, rulesA})
	f := NewFollower(url, self, hasty(0))
	events := follow(t, f, 3)
	require.Equal(t, []policy.EventID{5, 8, 11}, ids(events))
	require.EqualValues(t, 12, events[1].Pulled.ID)
	require.False(t, events[0].Covered)
	require.True(t, events[2].Covered, "the pull stands after it")
	require.Equal(t, rulesA, string(f.Merged().Rules), "and it does not undo the pull")
	require.EqualValues(t, 12, f.Cursor())
	require.Equal(t, []policy.EventID{13}, ids(follow(t, f, 1)), "resumed after the pull")
	require.Equal(t, []string{"0", "12"}, p.connections())
}

func TestAStreamOfAnotherIncarnationBeginsBelowTheCursor(t *testing.T) {
	p, url := newPlane(t)
	p.position = 40
	p.serve = func(w http.ResponseWriter, r *http.Request, after policy.EventID) {
		if after == 1000 {
			after = 0
		}
		p.live(w, r, after)
	}
	p.add(msg{30, uuid.Nil, ""}, msg{41, web, rulesA})
	f := NewFollower(url, self, hasty(1000))
	require.Equal(t, []policy.EventID{30, 41}, ids(follow(t, f, 2)))
	require.EqualValues(t, 41, f.Cursor())
}

func TestWhatCameBeforeIsNotYieldedAgain(t *testing.T) {
	p, url := newPlane(t)
	p.add(msg{5, web, rulesA}, msg{5, web, rulesA}, msg{4, db, rulesB}, msg{6, db, rulesB})
	require.Equal(t, []policy.EventID{5, 6}, ids(follow(t, NewFollower(url, self, hasty(0)), 2)))
}

func TestAServerThatIsAwayIsAskedAgain(t *testing.T) {
	p, url := newPlane(t)
	var tries atomic.Int32 // a try may begin before the aborted one has ended
	p.serve = func(w http.ResponseWriter, r *http.Request, after policy.EventID) {
		switch tries.Add(1) {
		case 1:
			http.Error(w, `{"code":"starting","detail":"soon"}`, http.StatusServiceUnavailable)
		case 2:
			panic(http.ErrAbortHandler)
		case 3:
			w.WriteHeader(http.StatusOK) // what a proxy's page looks like
		default:
			p.live(w, r, after)
		}
	}
	p.add(msg{5, web, rulesA})
	var heard []string
	opt := hasty(0)
	opt.Trouble = func(err error, _ time.Duration) { heard = append(heard, err.Error()) }
	var log bytes.Buffer
	opt.Log = slog.New(slog.NewTextHandler(&log, nil))
	require.Equal(t, []policy.EventID{5}, ids(follow(t, NewFollower(url, self, opt), 1)))
	require.Equal(t, 1, strings.Count(log.String(), "the event stream goes on"), log.String())
	require.Contains(t, heard[0], "503 Service Unavailable: soon (starting)")
	require.Contains(t, heard[len(heard)-1], "not with an event stream")
}

func TestPauses(t *testing.T) {
	f := NewFollower("http://x", self, Options{})
	for range 100 {
		wait := backoff.Backoff{Least: time.Second, Most: 2 * time.Second}
		first := f.pause(&wait, errors.New("x"))
		require.LessOrEqual(t, first, time.Second)
		require.GreaterOrEqual(t, first, time.Second/2)
		after := f.pause(&wait, &StatusError{Status: 503, RetryAfter: 4 * time.Second})
		require.GreaterOrEqual(t, after, 4*time.Second, "Retry-After is honoured")
		require.LessOrEqual(t, after, 5*time.Second)
		require.GreaterOrEqual(t, f.pause(&wait, errors.New("x")), time.Second, "it has grown meanwhile")
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.Equal(t, 7*time.Second, retryAfter("7", now))
	require.Equal(t, time.Minute, retryAfter("Thu, 01 Jan 2026 00:01:00 GMT", now))
	require.Zero(t, retryAfter("soon", now))
}

// TestAnUnknownNodeIsFinal, and so is what has no such page, which knows nothing of nodes: a proxy, or another address.
func TestAnUnknownNodeIsFinal(t *testing.T) {
	for answer, unknown := range map[string]bool{
		`{"status":404,"code":"node_not_found","detail":"there is no node n2 here"}`: true,
		`{"status":404,"code":"route_not_found","detail":"there is no such route"}`:  false,
		`<h1>404 Not Found</h1>`: false,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, answer)
		}))
		err := NewFollower(server.URL, "n2", hasty(0)).Run(t.Context(), func(Event) error { return nil })
		server.Close()
		var status *StatusError
		require.ErrorAs(t, err, &status)
		require.Equal(t, http.StatusNotFound, status.Status)
		require.Equal(t, unknown, errors.Is(err, ErrUnknownNode), answer)
	}
}

// TestANodeIDThatIsNoneIsRefused: in an address or a subject it would be another, or all nodes.
func TestANodeIDThatIsNoneIsRefused(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p, url := newPlane(t)
	asked := p.connections
	for _, id := range []policy.NodeID{"", ">", "*", "a/b", "..", "A", "n1?x=1"} {
		for _, err := range []error{
			NewFollower(url, id, hasty(0)).Run(ctx, func(Event) error { return nil }),
			NewFollower("", id, Options{NATS: "nats://127.0.0.1:1", Trust: artifact.NewTrustSet()}).Run(ctx, func(Event) error { return nil }),
			FollowArtifacts(ctx, url, id, hasty(0), func(Artifacts) error { return nil }),
			NewReporter(url, id, ReporterOptions{}).Run(ctx),
		} {
			var wrong policy.Violations
			require.ErrorAs(t, err, &wrong, "%q", id)
			require.Equal(t, policy.CodeInvalidNodeID, wrong[0].Code)
		}
	}
	require.Empty(t, asked())
}

func TestASilentStreamIsTakenForDead(t *testing.T) {
	p, url := newPlane(t)
	p.serve = func(w http.ResponseWriter, r *http.Request, after policy.EventID) {
		if len(p.connections()) > 1 {
			p.add(msg{5, web, rulesA})
		}
		p.live(w, r, after)
	}
	opt := hasty(0)
	opt.Silence = 100 * time.Millisecond
	require.Equal(t, []policy.EventID{5}, ids(follow(t, NewFollower(url, self, opt), 1)))
	require.Len(t, p.connections(), 2)
}

// The caller's client need not bound the wait for an answer.
func TestAStreamThatIsNeverAnsweredIsAskedForAgain(t *testing.T) {
	p, url := newPlane(t)
	p.serve = func(w http.ResponseWriter, r *http.Request, after policy.EventID) {
		if len(p.connections()) == 1 {
			<-r.Context().Done()
			return
		}
		p.add(msg{5, web, rulesA})
		p.live(w, r, after)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	opt := hasty(0)
	opt.Silence, opt.HTTP = 100*time.Millisecond, &http.Client{Transport: transport}
	var why error
	opt.Trouble = func(err error, _ time.Duration) { why = err }
	require.Equal(t, []policy.EventID{5}, ids(follow(t, NewFollower(url, self, opt), 1)))
	require.ErrorIs(t, why, errSilent)
	require.Len(t, p.connections(), 2)
}

// swallow passes connections on to an address. Those that are there when it is called
// bring nothing any more, and stay open, as when a host is gone.
func swallow(t *testing.T, address string) (through string, gone func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	var conns []net.Conn
	var lost []*atomic.Bool
	var g sync.WaitGroup
	pass := func(to, from net.Conn, dead *atomic.Bool) {
		defer to.Close()
		b := make([]byte, 32<<10)
		for {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			if dead.Load() {
				continue
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
	}
	g.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				in.Close()
				return
			}
			dead := &atomic.Bool{}
			mu.Lock()
			conns, lost = append(conns, in, out), append(lost, dead)
			mu.Unlock()
			g.Go(func() { pass(out, in, dead) })
			g.Go(func() { pass(in, out, dead) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		g.Wait()
	})
	return l.Addr().String(), func() {
		mu.Lock()
		defer mu.Unlock()
		for _, dead := range lost {
			dead.Store(true)
		}
	}
}

// All requests of HTTP/2 share a connection. One that is dead is not asked again.
func TestADeadConnectionOfHTTP2IsLeft(t *testing.T) {
	p, url := newPlane(t)
	target := strings.TrimPrefix(url, "http://")
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", target },
		FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	})
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	through, gone := swallow(t, server.Listener.Addr().String())
	opt := hasty(0)
	opt.Silence = 200 * time.Millisecond
	p.add(msg{5, web, rulesA})
	f := NewFollower("https://"+through, self, opt)
	f.own.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var seen []policy.EventID
	for e, err := range f.Events(ctx) {
		require.NoError(t, err)
		seen = append(seen, e.ID)
		if len(seen) == 2 {
			break
		}
		gone()
		p.add(msg{6, db, rulesB})
	}
	require.Equal(t, []policy.EventID{5, 6}, seen)
}

func TestWhatDoesNotVerifyIsNeverPassed(t *testing.T) {
	stranger, err := artifact.GenerateSigner()
	require.NoError(t, err)
	good := msg{5, web, rulesA}
	for _, tc := range []struct {
		name string
		make func(p *plane) string
		want string
	}{
		{"a rule changed on the way", func(p *plane) string {
			return strings.Replace(frameText(5, p.notice(good, time.Now())), "10.1.0.0", "10.9.0.0", 1)
		}, "bad signature"},
		{"signed by a stranger", func(p *plane) string {
			p.mu.Lock()
			defer p.mu.Unlock()
			known := p.signer
			defer func() { p.signer = known }()
			p.signer = stranger
			return frameText(5, p.notice(good, time.Now()))
		}, "unknown key"},
		{"another id than was signed", func(p *plane) string {
			return strings.Replace(frameText(5, p.notice(good, time.Now())), "id: 5", "id: 6", 1)
		}, `not "n1.6"`},
		{"meant for another node", func(p *plane) string {
			n := artifact.Notice{ID: "x", Type: TypePolicyUpdated, Scope: "node:n2", IssuedAt: time.Now(), Payload: []byte(`{}`)}
			return frameText(5, p.sign(n))
		}, "scope"},
		{"rules of another fingerprint", func(p *plane) string {
			n := artifact.Notice{ID: "n1.5", Type: TypePolicyUpdated, Scope: "node:n1", IssuedAt: time.Now(), Payload: artifact.PolicyPayload{
				NodeID: self, PolicyID: web, RevisionID: web, Rules: []byte(rulesA),
			}.Append(nil)}
			return frameText(5, p.sign(n))
		}, "fingerprint"},
		{"rules of another node", func(p *plane) string {
			n := artifact.Notice{ID: "n1.5", Type: TypePolicyUpdated, Scope: "node:n1", IssuedAt: time.Now(), Payload: artifact.PolicyPayload{
				NodeID: "n2", PolicyID: web, RevisionID: web, Rules: []byte(rulesA),
			}.Append(nil)}
			return frameText(5, p.sign(n))
		}, `node "n2"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, url := newPlane(t)
			p.serve = func(w http.ResponseWriter, _ *http.Request, _ policy.EventID) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, tc.make(p), frameText(6, p.notice(msg{6, db, rulesB}, time.Now())))
			}
			f := NewFollower(url, self, hasty(0))
			err := f.Run(t.Context(), func(e Event) error { return fmt.Errorf("yielded %d", e.ID) })
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, slices.Repeat([]string{"0"}, refusals), p.connections(), "asked again from the same place, then given up")
			require.Empty(t, f.Rows())
		})
	}
}

// A plane whose stream this client cannot read, or no more: whatever is in between
// may be older, or a clock wrong. The state is pulled then, and nobody is told
// that the events come.
func TestWhatCannotBeReadIsPolledFor(t *testing.T) {
	good := msg{5, web, rulesA}
	const largest = 64 << 10
	for name, garbled := range map[string]func(p *plane) string{
		"an older envelope": func(p *plane) string {
			return "id: 5\ndata: " + string(p.signer.AppendLegacyNotice(nil, artifact.Notice{ID: "n1.5", Type: TypePolicyUpdated, IssuedAt: time.Now(), Payload: []byte("{}")}, "x")) + "\n\n"
		},
		"no notice at all": func(*plane) string { return "id: 5\ndata: hello\n\n" },
		"not numbered": func(p *plane) string {
			return strings.Replace(frameText(5, p.notice(good, time.Now())), "id: 5", "id: five", 1)
		},
		"signed six minutes ago": func(p *plane) string {
			return frameText(5, p.notice(good, time.Now().Add(-6*time.Minute)))
		},
		"without end": func(*plane) string { return "data: " + strings.Repeat("x", largest+1) },
	} {
		t.Run(name, func(t *testing.T) {
			p, url := newPlane(t)
			p.position, p.state[db] = 5, rulesB
			var mended atomic.Bool
			p.serve = func(w http.ResponseWriter, r *http.Request, after policy.EventID) {
				if mended.Load() {
					p.live(w, r, after)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, garbled(p))
			}
			opt := hasty(0)
			opt.AskEvery = time.Millisecond
			var log bytes.Buffer
			opt.Log = slog.New(slog.NewTextHandler(&log, nil))
			var deaf []error // at each connection that is said to be good
			var f *Follower
			opt.Connected = func() { deaf = append(deaf, f.StreamError()) }
			f = NewFollower(url, self, opt)
			require.Equal(t, maxFrame, f.largest)
			f.largest = largest
			require.ErrorIs(t, f.StreamError(), errNotYet)
			next, stop := iter.Pull2(f.Events(t.Context()))
			defer stop()

			e, err, _ := next()
			require.NoError(t, err)
			require.Equal(t, TypeStateUpdated, e.Type)
			require.EqualValues(t, 5, e.ID)
			require.Len(t, e.Pulled.Rows, 1)
			require.EqualValues(t, 5, f.Cursor())
			require.Equal(t, slices.Repeat([]string{"0"}, refusals), p.connections())
			deaf = nil

			p.mu.Lock()
			p.position, p.state[web] = 7, rulesA
			p.mu.Unlock()
			e, err, _ = next()
			require.NoError(t, err)
			require.EqualValues(t, 7, e.ID, "pulled again, and yielded because it is another")
			var garbled *UnreadableError
			require.ErrorAs(t, f.StreamError(), &garbled)
			require.Empty(t, deaf, "a connection that cannot be read is none")

			p.add(good, msg{8, db, "[]"})
			log.Reset()
			mended.Store(true)
			e, err, _ = next()
			require.NoError(t, err)
			require.EqualValues(t, 5, e.ID)
			require.True(t, e.Covered, "what could not be read came again, to show that it can be now")
			require.Equal(t, []error{nil}, deaf)
			require.Equal(t, 1, strings.Count(log.String(), "the event stream goes on"), log.String())
			e, err, _ = next()
			require.NoError(t, err)
			require.EqualValues(t, 8, e.ID)
			require.Len(t, f.Rows(), 1)
			require.NoError(t, f.StreamError())
		})
	}
}

func TestAWordToPullIsHeededWhateverItsID(t *testing.T) {
	p, url := newPlane(t)
	p.position, p.state[db] = 9, rulesA
	p.add(msg{8, web, rulesB}, msg{10, db, rulesB}, msg{3, uuid.Nil, ""}, msg{11, web, rulesB})
	f := NewFollower(url, self, hasty(2))
	events := follow(t, f, 4)
	require.Equal(t, []policy.EventID{8, 10, 3, 11}, ids(events))
	require.Equal(t, "resync", events[2].Reason)
	require.Len(t, events[2].Pulled.Rows, 1)
	require.Equal(t, rulesB[:len(rulesB)-1]+","+rulesA[1:], string(f.Merged().Rules))
}

func TestTheFormIsAskedFor(t *testing.T) {
	p, url := newPlane(t)
	p.add(msg{5, web, rulesA})
	follow(t, NewFollower(url, self, hasty(0)), 1)
	opt := hasty(0)
	opt.Tables = true
	follow(t, NewFollower(url, self, opt), 1)
	require.Equal(t, []string{"text/event-stream;dialect=batch", "text/event-stream;dialect=batch;tables=true"}, p.accepts)
}

// Each notice of a run carries its own proof.
func TestNoticesOfARunAreRead(t *testing.T) {
	p, url := newPlane(t)
	all := []msg{{5, web, rulesA}, {6, db, rulesB}, {7, web, "[]"}}
	now := time.Now()
	p.serve = func(w http.ResponseWriter, _ *http.Request, _ policy.EventID) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, doc := range p.run(all, now) {
			fmt.Fprintf(w, "id: %d\ndata: %s\n\n", all[i].id, doc)
		}
	}
	f := NewFollower(url, self, hasty(0))
	require.Equal(t, []policy.EventID{5, 6, 7}, ids(follow(t, f, 3)))
	require.Len(t, f.Rows(), 1)
}

func TestTheEndOfTheContextIsNoError(t *testing.T) {
	p, url := newPlane(t)
	p.add(msg{5, web, rulesA})
	ctx, cancel := context.WithCancel(t.Context())
	err := NewFollower(url, self, hasty(0)).Run(ctx, func(Event) error { cancel(); return nil })
	require.NoError(t, err)
}
