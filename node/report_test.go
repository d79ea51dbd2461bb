package node

import (
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

// reports is where a node's reports go: each waits for an answer.
type reports struct {
	got    chan policy.Report
	answer chan int
}

func newReports(t *testing.T) (*reports, *Reporter, func()) {
	x := &reports{got: make(chan policy.Report), answer: make(chan int)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/nodes/n1/applied" || r.Method != http.MethodPost {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		rep, err := policy.DecodeReport(body)
		if err != nil {
			t.Error(err)
		}
		select {
		case x.got <- rep:
			w.WriteHeader(<-x.answer)
		case <-t.Context().Done(): // one more, whose answer the end of the test cut off
		}
	}))
	t.Cleanup(server.Close)
	r := NewReporter(server.URL, self, ReporterOptions{Wait: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return x, r, func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// at is a follower that stands somewhere.
func followerAt(id policy.EventID, rules string) *Follower {
	f := NewFollower("http://127.0.0.1:1", self, Options{})
	s := State{ID: id}
	if rules != "" {
		s.Rows = []Row{{uuid.UUID{15: 1}, uuid.UUID{15: 2}, sha256.Sum256([]byte(rules)), []byte(rules)}}
	}
	f.take(s)
	return f
}

func TestAReportThatDoesNotArriveIsSentAgainOrReplaced(t *testing.T) {
	x, r, stop := newReports(t)
	defer stop()
	r.Applied(followerAt(0, "")) // knows nothing yet
	r.Applied(followerAt(3, ""))
	require.Equal(t, policy.Report{Event: 3, Fingerprint: sha256.Sum256([]byte("[]"))}, <-x.got)
	x.answer <- http.StatusServiceUnavailable
	require.EqualValues(t, 3, (<-x.got).Event, "again")
	r.Applied(followerAt(4, "[1]"))
	r.Applied(followerAt(5, "[2]"))
	x.answer <- http.StatusServiceUnavailable
	require.Equal(t, policy.Report{Event: 5, Fingerprint: sha256.Sum256([]byte("[2]"))}, <-x.got, "the newest alone")
	x.answer <- http.StatusNotFound
	r.Applied(followerAt(6, "[2]"))
	require.EqualValues(t, 6, (<-x.got).Event, "what was refused is not sent again")
	x.answer <- http.StatusAccepted
}

func TestWhatIsLeftToReportIsSentAtTheEnd(t *testing.T) {
	x, r, stop := newReports(t)
	ended := make(chan struct{})
	r.Applied(followerAt(3, ""))
	require.EqualValues(t, 3, (<-x.got).Event)
	r.Applied(followerAt(4, ""))
	go func() {
		stop()
		close(ended)
	}()
	x.answer <- http.StatusAccepted
	require.EqualValues(t, 4, (<-x.got).Event)
	x.answer <- http.StatusAccepted
	<-ended
}

// Who says what a node applied hears that the plane does not know it, and whether it will.
func TestAReportThatThePlaneDoesNotTakeIsTold(t *testing.T) {
	x := make(chan int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(<-x) }))
	t.Cleanup(server.Close)
	type told struct {
		status int
		again  bool
	}
	heard := make(chan told)
	r := NewReporter(server.URL, self, ReporterOptions{Wait: time.Millisecond, Trouble: func(err error, again bool) {
		var status *StatusError
		require.ErrorAs(t, err, &status)
		heard <- told{status.Status, again}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.Send(policy.Report{Event: 3})
	x <- http.StatusServiceUnavailable
	require.Equal(t, told{http.StatusServiceUnavailable, true}, <-heard)
	x <- http.StatusForbidden
	require.Equal(t, told{http.StatusForbidden, false}, <-heard)
	cancel()
	require.NoError(t, <-ended)
}

// A follower knows up to where it was told from its first pull on.
func TestAFollowerKnowsUpToWhereItWasTold(t *testing.T) {
	p, url := newPlane(t)
	p.position = 10
	p.add(msg{12, uuid.UUID{15: 1}, "[1]"}, msg{15, uuid.UUID{15: 2}, "[2]"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var told []policy.EventID
	f := NewFollower(url, self, Options{})
	require.Zero(t, f.Position())
	require.NoError(t, f.Run(ctx, func(Event) error {
		if told = append(told, f.Position()); len(told) == 2 {
			cancel()
		}
		return nil
	}))
	require.Equal(t, []policy.EventID{12, 15}, told)

	from := policy.EventID(0)
	f = NewFollower(url, self, Options{From: &from})
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	require.NoError(t, f.Run(ctx, func(Event) error { cancel(); return nil }))
	require.Zero(t, f.Position(), "its rows may not be complete")
}

// A log that was made anew may count from below.
func TestAPullOfAnotherLogSetsBackUpToWhereItWasTold(t *testing.T) {
	f := followerAt(9, "[1]")
	f.take(State{ID: 4})
	require.EqualValues(t, 4, f.Position())
}
