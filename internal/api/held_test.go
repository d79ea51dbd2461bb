package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A principal that opens one stream of a node after another keeps the newest, and
// takes none from others.
func TestOneStreamTooManyEndsTheOldest(t *testing.T) {
	const each = 8
	p, tokens := guarded(t, map[string][]string{
		"admin": {"plane#admin"}, "agent": {"node:" + project + "/n1#agent"}, "other-agent": {"node:" + project + "/n1#agent"},
		"operator": {"project:" + project + "#operator"},
	})
	p.want(http.StatusCreated, "", p.do("PUT", nodes+"/n1", `{"labels":{}}`, bearer(tokens["operator"])))
	ctx, cancel := context.WithCancel(t.Context())
	open := func(who string) (ended chan struct{}) {
		ended = make(chan struct{})
		r := httptest.NewRequestWithContext(ctx, "GET", "/v1/nodes/n1/events", nil)
		r.Header.Set("Authorization", "Bearer "+tokens[who])
		go func() {
			defer close(ended)
			p.Handler.ServeHTTP(httptest.NewRecorder(), r)
		}()
		<-p.relay.opened
		return ended
	}
	is := func(ended chan struct{}) bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	all := []chan struct{}{open("other-agent"), open("admin")}
	var own []chan struct{}
	for range 3 * each {
		own = append(own, open("agent"))
	}
	for _, ended := range own[:2*each] {
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			require.Fail(t, "an older stream stays")
		}
	}
	all = append(all, own[2*each:]...)
	for i, ended := range all {
		require.False(t, is(ended), "stream %d", i)
	}
	cancel()
	for _, ended := range all {
		<-ended
	}
}

// What follows the log, or what admission policies decided, is a few streams of a principal,
// whatever they are about: each event has each of them read the log.
func TestAPrincipalFollowsAFewStreamsOfTheLog(t *testing.T) {
	const each = 64
	p, tokens := guarded(t, map[string][]string{"reader": {"project:" + project + "#read", "project:" + other + "#read"}, "watcher": {"plane#read"}})
	open := func(who, path string) (ended chan struct{}) {
		began := make(chan struct{})
		ended = make(chan struct{})
		r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		r.Header.Set("Authorization", "Bearer "+tokens[who])
		go func() {
			defer close(ended)
			p.Handler.ServeHTTP(&beginning{ResponseRecorder: httptest.NewRecorder(), began: began}, r)
		}()
		<-began
		return ended
	}
	foreign := open("watcher", "/v1/events")
	var own []chan struct{}
	for i := range each + 2 {
		own = append(own, open("reader", "/v1/projects/"+[]string{project, other}[i%2]+"/events"))
	}
	for _, ended := range own[:2] {
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			require.Fail(t, "an older stream stays")
		}
	}
	for i, ended := range append(own[2:], foreign) {
		select {
		case <-ended:
			require.Fail(t, "a stream ended that may stay", "%d", i)
		default:
		}
	}
}

// beginning says when an answer begins.
type beginning struct {
	*httptest.ResponseRecorder
	began chan struct{}
}

func (w *beginning) WriteHeader(status int) {
	w.ResponseRecorder.WriteHeader(status)
	close(w.began)
}
