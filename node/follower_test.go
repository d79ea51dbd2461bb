package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/artifact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	rulesA = `[{"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"any","action":"allow"}]`
	rulesB = `[{"source_cidr":"10.2.0.0/16","destination_cidr":"10.1.0.0/16","protocol":"any","action":"deny"}]`
)

var (
	web = uuid.MustParse("00000000-0000-7000-8000-000000000001")
	db  = uuid.MustParse("00000000-0000-7000-8000-000000000002")
)

// hasty tries again at once.
func hasty(from uint64) Options {
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

func seqs(events []Event) (out []uint64) {
	for _, e := range events {
		out = append(out, e.Seq)
	}
	return out
}

func TestRowsFollowTheEvents(t *testing.T) {
	p, url := newPlane(t)
	f := NewFollower(url, self, hasty(0))
	p.add(msg{5, db, rulesB}, msg{7, web, rulesA})
	require.Equal(t, []uint64{5, 7}, seqs(follow(t, f, 2)))
	rows := f.Rows()
	require.Equal(t, []uuid.UUID{web, db}, []uuid.UUID{rows[0].Policy, rows[1].Policy}, "by policy id")
	require.Equal(t, rulesA[:len(rulesA)-1]+","+rulesB[1:], string(f.Merged().Rules))

	p.add(msg{9, web, "[]"})
	e := follow(t, f, 1)[0]
	require.Equal(t, web, e.Policy.PolicyID)
	require.EqualValues(t, 9, e.Version)
	require.Len(t, f.Rows(), 1)
	require.Equal(t, []string{"0", "7"}, p.connections())
}

func TestWithoutAPlaceToBeginTheStateIsPulledFirst(t *testing.T) {
	p, url := newPlane(t)
	p.position, p.state[web] = 6, rulesA
	p.add(msg{5, web, rulesB}, msg{7, db, rulesB})
	f := NewFollower(url, self, Options{})
	require.Equal(t, []uint64{7}, seqs(follow(t, f, 1)))
	require.Len(t, f.Rows(), 2)
	require.Equal(t, rulesA, string(f.Rows()[0].Rules))
	require.Equal(t, []string{"6"}, p.connections())
}

// transport answers requests without a network.
type transport func(r *http.Request) *http.Response

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// Every cut of the stream, at any byte, must leave exactly the same events.
func TestACutAtAnyByteLosesAndRepeatsNothing(t *testing.T) {
	p, url := newPlane(t)
	p.messages = []msg{{5, web, rulesA}, {6, db, rulesB}, {9, web, "[]"}}
	trust := artifact.NewTrustSet()
	require.NoError(t, trust.Add(artifact.PlanePolicy, p.signer.KeyID(), p.signer.PublicKey(), time.Time{}))
	texts := map[string]string{}
	for _, after := range []uint64{0, 5, 6} {
		texts[strconv.FormatUint(after, 10)] = p.stream(after, time.Now())
	}
	for cut := range texts["0"] {
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
		require.Equal(t, []uint64{5, 6, 9}, seqs(follow(t, f, 3)), "cut at byte %d", cut)
		require.Len(t, f.Rows(), 1)
	}
}

func TestAWordToPullBringsTheState(t *testing.T) {
	p, url := newPlane(t)
	p.position, p.state[db] = 12, rulesA
	p.add(msg{5, web, rulesB}, msg{8, uuid.Nil, ""}, msg{11, db, rulesB}, msg{13, web, rulesA})
	f := NewFollower(url, self, hasty(0))
	events := follow(t, f, 3)
	require.Equal(t, []uint64{5, 8, 11}, seqs(events))
	require.EqualValues(t, 12, events[1].Pulled.Seq)
	require.False(t, events[0].Covered)
	require.True(t, events[2].Covered, "the pull stands after it")
	require.Equal(t, rulesA, string(f.Merged().Rules), "and it does not undo the pull")
	require.EqualValues(t, 12, f.Cursor())
	require.Equal(t, []uint64{13}, seqs(follow(t, f, 1)), "resumed after the pull")
	require.Equal(t, []string{"0", "12"}, p.connections())
}

func TestAStreamOfAnotherIncarnationBeginsBelowTheCursor(t *testing.T) {
	p, url := newPlane(t)
	p.position = 40
	p.serve = func(w http.ResponseWriter, r *http.Request, after uint64) {
		if after == 1000 {
			after = 0
		}
		p.live(w, r, after)
	}
	p.add(msg{30, uuid.Nil, ""}, msg{41, web, rulesA})
	f := NewFollower(url, self, hasty(1000))
	require.Equal(t, []uint64{30, 41}, seqs(follow(t, f, 2)))
	require.EqualValues(t, 41, f.Cursor())
}

func TestWhatCameBeforeIsNotYieldedAgain(t *testing.T) {
	p, url := newPlane(t)
	p.add(msg{5, web, rulesA}, msg{5, web, rulesA}, msg{4, db, rulesB}, msg{6, db, rulesB})
	require.Equal(t, []uint64{5, 6}, seqs(follow(t, NewFollower(url, self, hasty(0)), 2)))
}

func TestAServerThatIsAwayIsAskedAgain(t *testing.T) {
	p, url := newPlane(t)
	var tries atomic.Int32 // a try may begin before the aborted one has ended
	p.serve = func(w http.ResponseWriter, r *http.Request, after uint64) {
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
	require.Equal(t, []uint64{5}, seqs(follow(t, NewFollower(url, self, opt), 1)))
	require.Contains(t, heard[0], "503 Service Unavailable: soon (starting)")
	require.Contains(t, heard[len(heard)-1], "not with an event stream")
}

func TestPauses(t *testing.T) {
	f := NewFollower("http://x", self, Options{})
	for range 100 {
		require.Less(t, f.pause(time.Second, errors.New("x")), time.Second+1)
		require.GreaterOrEqual(t, f.pause(time.Second, errors.New("x")), time.Second/2)
		after := f.pause(time.Second, &StatusError{Status: 503, RetryAfter: 4 * time.Second})
		require.GreaterOrEqual(t, after, 4*time.Second, "Retry-After is honoured")
		require.LessOrEqual(t, after, 5*time.Second)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.Equal(t, 7*time.Second, retryAfter("7", now))
	require.Equal(t, time.Minute, retryAfter("Thu, 01 Jan 2026 00:01:00 GMT", now))
	require.Zero(t, retryAfter("soon", now))
}

func TestAnUnknownNodeIsFinal(t *testing.T) {
	_, url := newPlane(t)
	err := NewFollower(url, "n2", hasty(0)).Run(t.Context(), func(Event) error { return nil })
	require.ErrorIs(t, err, ErrUnknownNode)
}

func TestASilentStreamIsTakenForDead(t *testing.T) {
	p, url := newPlane(t)
	p.serve = func(w http.ResponseWriter, r *http.Request, after uint64) {
		if len(p.connections()) > 1 {
			p.add(msg{5, web, rulesA})
		}
		p.live(w, r, after)
	}
	opt := hasty(0)
	opt.Silence = 100 * time.Millisecond
	require.Equal(t, []uint64{5}, seqs(follow(t, NewFollower(url, self, opt), 1)))
	require.Len(t, p.connections(), 2)
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
		{"signed six minutes ago", func(p *plane) string {
			return frameText(5, p.notice(good, time.Now().Add(-6*time.Minute)))
		}, "stale notice"},
		{"no notice at all", func(*plane) string { return "id: 5\ndata: hello\n\n" }, "malformed"},
		{"not numbered", func(p *plane) string {
			return strings.Replace(frameText(5, p.notice(good, time.Now())), "id: 5", "id: five", 1)
		}, "not a sequence number"},
		{"meant for another node", func(p *plane) string {
			n := artifact.Notice{ID: "x", Type: TypePolicyUpdated, Scope: "node:n2", IssuedAt: time.Now(), Payload: []byte(`{}`)}
			return frameText(5, p.sign(n))
		}, "scope"},
		{"rules of another fingerprint", func(p *plane) string {
			n := artifact.Notice{ID: "x", Type: TypePolicyUpdated, Scope: "node:n1", IssuedAt: time.Now(), Payload: artifact.PolicyPayload{
				NodeID: self, PolicyID: web, RevisionID: web, Rules: []byte(rulesA),
			}.Append(nil)}
			return frameText(5, p.sign(n))
		}, "fingerprint"},
		{"rules of another node", func(p *plane) string {
			n := artifact.Notice{ID: "x", Type: TypePolicyUpdated, Scope: "node:n1", IssuedAt: time.Now(), Payload: artifact.PolicyPayload{
				NodeID: "n2", PolicyID: web, RevisionID: web, Rules: []byte(rulesA),
			}.Append(nil)}
			return frameText(5, p.sign(n))
		}, `node "n2"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, url := newPlane(t)
			p.serve = func(w http.ResponseWriter, _ *http.Request, _ uint64) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, tc.make(p), frameText(6, p.notice(msg{6, db, rulesB}, time.Now())))
			}
			f := NewFollower(url, self, hasty(0))
			err := f.Run(t.Context(), func(e Event) error { return fmt.Errorf("yielded %d", e.Seq) })
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, slices.Repeat([]string{"0"}, refusals), p.connections(), "asked again from the same place, then given up")
			require.Empty(t, f.Rows())
		})
	}
}

func TestAVersionThatFallsIsNotApplied(t *testing.T) {
	p, url := newPlane(t)
	f := NewFollower(url, self, hasty(0))
	p.serve = func(w http.ResponseWriter, r *http.Request, _ uint64) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, frameText(8, p.notice(msg{8, web, rulesA}, time.Now())), frameText(9, p.notice(msg{7, web, rulesB}, time.Now())))
	}
	follow(t, f, 2)
	require.Equal(t, rulesA, string(f.Merged().Rules))
}

func TestTheEndOfTheContextIsNoError(t *testing.T) {
	p, url := newPlane(t)
	p.add(msg{5, web, rulesA})
	ctx, cancel := context.WithCancel(t.Context())
	err := NewFollower(url, self, hasty(0)).Run(ctx, func(Event) error { cancel(); return nil })
	require.NoError(t, err)
}
