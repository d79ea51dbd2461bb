package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
)

var project = uuid.MustParse("00000000-0000-4000-8000-000000000000")

// server answers as told and remembers the last request.
type server struct {
	*client.Client
	last   *http.Request
	asked  atomic.Int32
	answer func(w http.ResponseWriter, r *http.Request, n int)
}

func newServer(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int)) *server {
	t.Helper()
	s := &server{answer: answer}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.last = r
		s.answer(w, r, int(s.asked.Add(1)))
	}))
	t.Cleanup(h.Close)
	c, err := client.New(h.URL, client.Options{HTTP: h.Client(), Principal: "ann"})
	require.NoError(t, err)
	s.Client = c
	return s
}

func TestAProblemIsTypedAndListsItsFaults(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.WriteHeader(422)
		_, _ = w.Write([]byte(`{"status":422,"code":"invalid_slug","detail":"no","errors":[{"pointer":"/slug","code":"invalid_slug","detail":"no"}]}`))
	})
	_, err := s.Policies.Create(t.Context(), project, resource.Draft{}, client.Key("k"), client.Correlation("c"))
	var p *client.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, 422, p.Status)
	require.Equal(t, "invalid_slug", p.Code)
	require.Len(t, p.Errors, 1)
	require.Equal(t, "/slug: no (invalid_slug)", err.Error(), "once, where it is")
	p.Errors = append(p.Errors, resource.Fault{Pointer: "/rules", Code: "missing", Detail: "none"})
	require.Equal(t, "/slug: no (invalid_slug)\n/rules: none (missing)", err.Error(), "each once")
	require.Equal(t, "k", s.last.Header.Get("Idempotency-Key"))
	require.Equal(t, "c", s.last.Header.Get("X-Correlation-Id"))
	require.Equal(t, "ann", s.last.Header.Get("X-Edict-Principal"))
}

func TestAConditionIsTheETagOfWhatWasRead(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusNoContent) })
	for want, etag := range map[string]string{`"` + project.String() + `"`: client.HeadTag(project), `"4711"`: client.VersionTag(4711), "*": "*"} {
		require.NoError(t, s.Nodes.Delete(t.Context(), project, "n1", client.IfMatch(etag)))
		require.Equal(t, want, s.last.Header.Get("If-Match"))
	}
}

func TestAnErrorOfSomethingBetweenKeepsItsStatus(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		http.Error(w, "<html>bad gateway", http.StatusBadGateway)
	})
	_, err := s.Keys.List(t.Context())
	var p *client.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, 502, p.Status)
}

func TestReadsWaitForAWorkerThatIsBehind(t *testing.T) {
	behind := func(w http.ResponseWriter, r *http.Request, n int) {
		if n < 3 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(503)
			_, _ = w.Write([]byte(`{"status":503,"code":"projection_behind"}`))
			return
		}
		_, _ = w.Write([]byte(`{"items":[]}`))
	}
	s := newServer(t, behind)
	_, err := s.Keys.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, int32(3), s.asked.Load())

	t.Run("writes do not", func(t *testing.T) {
		s := newServer(t, behind)
		require.Error(t, s.Nodes.Delete(t.Context(), project, "n1"))
		require.Equal(t, int32(1), s.asked.Load())
	})
	t.Run("readiness is asked once", func(t *testing.T) {
		s := newServer(t, behind)
		_, err := s.Ready(t.Context())
		require.Error(t, err)
		require.Equal(t, int32(1), s.asked.Load())
	})
	for advised, most := range map[string]int32{"9300000000": 1, "99999999999999999999": 1, "-1": 20, "NaN": 20, "0": 20} {
		t.Run("whatever is advised: "+advised, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := newServer(t, func(w http.ResponseWriter, _ *http.Request, n int) {
				if n > 20 {
					cancel()
				}
				w.Header().Set("Retry-After", advised)
				w.WriteHeader(503)
			})
			c, err := client.New(s.Server(), client.Options{Patience: 500 * time.Millisecond})
			require.NoError(t, err)
			_, err = c.Keys.List(ctx)
			var p *client.Problem
			require.ErrorAs(t, err, &p)
			require.NotErrorIs(t, err, context.Canceled, "it is not asked without a pause")
			require.LessOrEqual(t, s.asked.Load(), most)
		})
	}
	t.Run("and nobody waits longer than the caller", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Retry-After", "5")
			w.WriteHeader(503)
			cancel()
		})
		_, err := s.Keys.List(ctx)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// Who sends many requests has them all made, each whole, as fast as he may.
func TestARequestThatCameTooSoonIsSentAgain(t *testing.T) {
	refusing := func(code, advised string, times int) *server {
		return newServer(t, func(w http.ResponseWriter, r *http.Request, n int) {
			body, err := io.ReadAll(r.Body)
			if err != nil || !strings.Contains(string(body), `n1`) {
				t.Errorf("the body came as %q: %v", body, err)
			}
			if n <= times {
				w.Header().Set("Retry-After", advised)
				w.WriteHeader(429)
				_, _ = w.Write([]byte(`{"status":429,"code":"` + code + `"}`))
				return
			}
			_, _ = w.Write([]byte(`{"id":"n1"}`))
		})
	}
	put := func(c *client.Client) error {
		_, _, err := c.Nodes.Put(t.Context(), project, "n1", resource.Facts{Labels: map[string]string{"name": "n1"}})
		return err
	}
	patient := func(s *server) *client.Client {
		c, err := client.New(s.Server(), client.Options{Turn: 10 * time.Second})
		require.NoError(t, err)
		return c
	}
	for _, code := range []string{"too_many_requests", "quota_exceeded"} {
		s := refusing(code, "0", 2)
		require.NoError(t, put(patient(s)))
		require.Equal(t, int32(3), s.asked.Load())
	}
	once := func(s *server, err error) {
		t.Helper()
		require.Error(t, err)
		require.Equal(t, int32(1), s.asked.Load())
	}
	s := refusing("too_many_requests", "0", 1)
	once(s, put(s.Client)) // who does not wait
	s = refusing("quota_exceeded", "60", 1)
	once(s, put(patient(s))) // it has too much of something
	s = refusing("too_many_failures", "0", 1)
	once(s, put(patient(s)))
	s = refusing("too_many_requests", "0", 1)
	_, err := patient(s).Nodes.Import(t.Context(), project, io.MultiReader(strings.NewReader(`{"id":"n1"}`)))
	once(s, err) // the body cannot be read again
}

func TestPathsAreEscaped(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = w.Write([]byte(`{"items":[]}`)) })
	for id, want := range map[string]string{"a b": "a%20b", "a/b": "a%2Fb", ".": "%2E", "..": "%2E%2E", "a>": "a%3E", "": ""} {
		_, err := s.Nodes.Rulesets(t.Context(), id)
		require.NoError(t, err, id)
		require.Equal(t, "/v1/nodes/"+want+"/rulesets", s.last.URL.EscapedPath())
	}
}

func TestListsAreWalkedToTheirEnd(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request, n int) {
		switch r.URL.Query().Get("cursor") {
		case "":
			_, _ = w.Write([]byte(`{"items":[{"id":"a"},{"id":"b"}],"next_cursor":"x"}`))
		case "x":
			_, _ = w.Write([]byte(`{"items":[{"id":"c"}],"next_cursor":null}`))
		}
	})
	var got []string
	for n, err := range s.Nodes.All(t.Context(), project, "role=web") {
		require.NoError(t, err)
		got = append(got, n.ID)
	}
	require.Equal(t, "a b c", strings.Join(got, " "))
	require.Equal(t, "role=web", s.last.URL.Query().Get("label_selector"))
}

func TestNobodyThereIsSaid(t *testing.T) {
	h := httptest.NewServer(http.NotFoundHandler())
	h.Close()
	c, err := client.New(h.URL, client.Options{})
	require.NoError(t, err)
	_, err = c.Keys.List(t.Context())
	var gone *client.UnavailableError
	require.ErrorAs(t, err, &gone)
	require.Contains(t, err.Error(), h.URL)
	for _, bad := range []string{"", "127.0.0.1:80", "ftp://x", "http://"} {
		_, err := client.New(bad, client.Options{})
		require.Error(t, err, bad)
	}
}

// A 304 that nobody asked for, as of a cache that is set up wrongly, says nothing about the state.
func TestNotModifiedIsNoAnswerToWhoHasNothing(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Edict-Event-Id", "7")
		w.WriteHeader(http.StatusNotModified)
	})
	var gone *client.UnavailableError
	_, err := s.Datapath.Table(t.Context(), "web-1", client.TableQuery{})
	require.ErrorAs(t, err, &gone)
	require.ErrorContains(t, err, "304")
	_, err = s.Nodes.State(t.Context(), "web-1", client.StateQuery{})
	require.ErrorAs(t, err, &gone)
	table, err := s.Datapath.Table(t.Context(), "web-1", client.TableQuery{StateQuery: client.StateQuery{ETag: `"x"`}})
	require.NoError(t, err)
	require.True(t, table.NotModified)
}

// What is cut off is no state, and what has no end must not fill the memory.
func TestAnAnswerThatIsTooLargeIsRefused(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Edict-Event-Id", "7")
		w.Header().Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		_, _ = io.WriteString(z, `{"items":[{"id":"`)
		more := bytes.Repeat([]byte("a"), 1<<20)
		for range 8 {
			if _, err := z.Write(more); err != nil {
				return
			}
		}
		_, _ = io.WriteString(z, `"}]}`)
		_ = z.Close()
	})
	s.Bound(4 << 20)
	_, err := s.Nodes.State(t.Context(), "web-1", client.StateQuery{})
	require.ErrorContains(t, err, "larger than 4 MiB")
	_, err = s.Datapath.Table(t.Context(), "web-1", client.TableQuery{})
	require.ErrorContains(t, err, "larger than 4 MiB")
	_, err = s.Nodes.Rulesets(t.Context(), "web-1")
	require.ErrorContains(t, err, "larger than 4 MiB")
}
