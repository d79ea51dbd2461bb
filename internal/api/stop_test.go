package api_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

// gatedModel gives what tables are made of, but the second time it is asked only when
// the gate opens.
type gatedModel struct {
	snapshot.Enforcer
	calls *atomic.Int64
	asked chan struct{}
	gate  chan struct{}
}

func (m gatedModel) Enforcement(id policy.NodeID) (*projector.Enforcement, bool, error) {
	if m.calls.Add(1) == 2 {
		close(m.asked)
		<-m.gate
	}
	return m.Enforcer.Enforcement(id)
}

// newGatedPlane is a plane with a node db whose table waits at a gate.
func newGatedPlane(t *testing.T) (*plane, gatedModel) {
	m := gatedModel{calls: new(atomic.Int64), asked: make(chan struct{}), gate: make(chan struct{})}
	p := newPlane(t, func(d *api.Deps) {
		m.Enforcer = d.Model
		d.Tables = snapshot.NewTables(m, snapshot.TableOptions{})
	})
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	return p, m
}

// Two wait for a table that never comes: the one to give up first need not wait
// until its making has ended, and gives up long before the grace is over.
func TestATableHasNoGraceWhenTheServerStops(t *testing.T) {
	p, m := newGatedPlane(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served, answers := make(chan error, 1), make(chan int, 2)
	go func() {
		served <- (&api.Server{Handler: p.Handler, Grace: time.Minute}).Run(ctx, l)
	}()
	for range 2 {
		go func() {
			resp, err := http.Get("http://" + l.Addr().String() + tableOfDB)
			if err != nil {
				answers <- 0
				return
			}
			resp.Body.Close()
			answers <- resp.StatusCode
		}()
		<-m.asked // the first has looked whether it is known, and has it made
	}
	require.Eventually(t, func() bool { return p.deps.Tables.Counts().Waiting == 2 }, 10*time.Second, time.Millisecond)
	stop()
	select {
	case code := <-answers:
		require.Equal(t, http.StatusServiceUnavailable, code)
	case <-time.After(10 * time.Second):
		t.Error("a table has a grace")
	}
	close(m.gate)
	<-answers
	require.NoError(t, <-served)
	http.DefaultClient.CloseIdleConnections()
}

// TestNothingIsComputedForNobody: what a request has computed ends with it.
func TestNothingIsComputedForNobody(t *testing.T) {
	for name, path := range map[string]string{
		"a table": tableOfDB, "a flow": "/v1/nodes/db/explain?direction=egress&peer=10.9.9.9&protocol=tcp&port=80",
	} {
		t.Run(name, func(t *testing.T) {
			p, m := newGatedPlane(t)
			p.want(http.StatusCreated, "", p.do("POST", policies, ordered("walls", `,"tier":"admin"`, denyWeb)))
			server := httptest.NewServer(p.Handler)
			defer server.Close()
			ctx, leave := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
			require.NoError(t, err)
			answered := make(chan error, 1)
			go func() {
				resp, err := http.DefaultClient.Do(r)
				if err == nil {
					resp.Body.Close()
				}
				answered <- err
			}()
			<-m.asked // it is being made
			require.Equal(t, 1, p.deps.Tables.Counts().Waiting)
			leave()
			require.ErrorIs(t, <-answered, context.Canceled)
			require.Eventually(t, func() bool { return p.deps.Tables.Counts().Waiting == 0 }, 10*time.Second, time.Millisecond)
			close(m.gate)
			require.Eventually(t, func() bool { return p.deps.Tables.Counts().Outcomes[snapshot.TableCancelled] == 1 }, 10*time.Second, time.Millisecond)
			require.Zero(t, p.deps.Tables.Counts().Outcomes[snapshot.TableComputed])
		})
	}
}
