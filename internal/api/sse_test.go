package api

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// slowLog is a log of which each reading takes slowLogPace and finds one event that nobody
// asked for.
type slowLog struct {
	feedLog
	applied, grows uint64 // it is folded up to applied, and will be up to grows
}

const slowLogPace = sseKeepAlive * 2 / 5

var errLogEnds = errors.New("the log ends here")

func (l *slowLog) Applied() uint64 { return l.applied }

func (l *slowLog) Wait(ctx context.Context, _ uint64) error {
	if l.applied == l.grows {
		return errLogEnds
	}
	time.Sleep(slowLogPace)
	l.applied++
	return ctx.Err()
}

func (*slowLog) Slugs(uuid.UUID, []uuid.UUID) map[uuid.UUID]string { return nil }

func (*slowLog) Rejections(uint64, int) ([]streams.Rejection, error) { return nil, nil }

func (*slowLog) State(context.Context) (streams.State, error) {
	return streams.State{First: 1, Last: 100}, nil
}

func (l *slowLog) Read(_ context.Context, from, _ uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		time.Sleep(slowLogPace)
		yield([]streams.Message{{Seq: from, Body: []byte(`{"user_id":"ben"}`)}}, nil)
	}
}

// streamTo is a stream, and what it said so far.
func streamTo(t *testing.T) (s sse, said *httptest.ResponseRecorder) {
	said = httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	return beginSSE(&call{w: &response{ResponseWriter: said}, r: r}), said
}

func keepAlives(said *httptest.ResponseRecorder) int {
	return strings.Count(said.Body.String(), ":keep-alive\n\n")
}

func TestALogStreamThatFindsNothingSaysThatItIsThere(t *testing.T) {
	for name, l := range map[string]*slowLog{
		"what there is":  {applied: 9, grows: 9},
		"what is folded": {grows: 9},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trail := func(_ context.Context, after uint64, _ int) ([]Trailed, error) {
					if name == "what there is" {
						time.Sleep(slowLogPace)
					}
					return []Trailed{{Message: streams.Message{Seq: after + 1}}}, nil
				}
				h := &logEventHandlers{model: l, audit: &auditHandlers{model: l, trail: trail}}
				out, said := streamTo(t)
				s := &logEventStream{sse: out, h: h, w: wantedEvents{node: "n1"}}
				require.ErrorIs(t, s.run(t.Context()), errLogEnds)
				require.Equal(t, 3, keepAlives(said), said.Body)
			})
		})
	}
}

// A log may begin anywhere: what is folded then is all before its first event.
func TestALogStreamWaitsForTheFoldOfALogThatBeginsLater(t *testing.T) {
	l, reads := &slowLog{applied: 6, grows: 6}, 0
	trail := func(context.Context, uint64, int) ([]Trailed, error) {
		if reads++; reads > 1 {
			return nil, errors.New("it is read over and over")
		}
		return []Trailed{{Message: streams.Message{Seq: 7}}}, nil
	}
	out, said := streamTo(t)
	s := &logEventStream{sse: out, h: &logEventHandlers{model: l, audit: &auditHandlers{model: l, trail: trail}}}
	require.ErrorIs(t, s.run(t.Context()), errLogEnds)
	require.Contains(t, said.Body.String(), "id: 6\nevent: caught_up\n")
}

func TestADecisionStreamThatFindsNothingSaysThatItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &slowLog{feedLog: feedLog{came: make(chan []streams.Message)}}
		h := &decisionHandlers{log: l, feed: decisionFeed{log: l}}
		out, said := streamTo(t)
		s := &decisionStream{sse: out, w: wanted{q: map[string][]string{"user": {"ana"}}}}
		for range 9 {
			require.NoError(t, h.catchUp(s, s.last+1))
		}
		require.Equal(t, 3, keepAlives(said), "of the log")

		live := h.feed.join(s.last)
		defer live.leave()
		for s.last < 18 {
			time.Sleep(slowLogPace)
			l.add(s.last + 1)
			require.NoError(t, h.tell(t.Context(), s, live))
		}
		require.Equal(t, 6, keepAlives(said), "of what comes")
		require.NoError(t, h.tell(t.Context(), s, live))
		require.Equal(t, 7, keepAlives(said), "of nothing")
	})
}
