package plane

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Whose project has had its share of the log is shut out over NATS and refused over
// HTTP, and stays so, after a restart as well; others are not.
func TestAProducerBeyondItsShareIsShutOut(t *testing.T) {
	g := startGuarded(t, false, func(o *Options) { o.ProjectBytes = 2 << 20 })
	operator, author := who{g, "operator"}, who{g, "author"}
	nc, err := operator.nats()
	require.NoError(t, err)
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	for range 5 {
		_, err := nc.Request("edict.log."+theirs+".node.junk", make([]byte, 500<<10), 10*time.Second)
		require.NoError(t, err)
	}
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		require.Fail(t, "the producer goes on")
	}
	_, err = operator.nats()
	require.ErrorIs(t, err, nats.ErrAuthorization)
	require.Eventually(t, func() bool { return strings.Contains(g.log.String(), "has had its share") }, 20*time.Second, time.Millisecond)
	other, err := author.nats()
	require.NoError(t, err)
	_, err = other.Request("edict.log."+ours+".node.a", []byte("x"), 10*time.Second)
	require.NoError(t, err)
	require.NoError(t, who{g, "author"}.http("PUT", "/v1/projects/"+ours+"/nodes/a", `{"labels":{}}`))
	refused := func() {
		t.Helper()
		require.ErrorContains(t, who{g, "stranger"}.http("PUT", "/v1/projects/"+theirs+"/nodes/b", `{"labels":{}}`), "project_over_share")
	}
	refused()
	require.NoError(t, who{g, "root"}.http("PUT", "/v1/projects/"+theirs+"/nodes/b", `{"labels":{}}`), "administrators are not held to it")
	require.NoError(t, who{g, "stranger"}.http("DELETE", "/v1/projects/"+theirs+"/nodes/b", ""))
	g.again(t)
	refused()
	_, err = operator.nats()
	require.ErrorIs(t, err, nats.ErrAuthorization)
}

// exceeds has a producer go on sending what its project's quota refuses, until the server
// ends its connection.
func (w who) exceeds(t *testing.T, opts ...nats.Option) {
	t.Helper()
	require.NoError(t, who{w.guarded, "root"}.http("PUT", "/v1/projects/"+theirs+"/quota", `{"events_per_second":5}`))
	down, once := make(chan struct{}), new(sync.Once) // it is told again when the test closes it
	nc, err := w.nats(append(opts, nats.DisconnectErrHandler(func(*nats.Conn, error) { once.Do(func() { close(down) }) }))...)
	require.NoError(t, err)
	for i := 0; err == nil; i++ {
		require.Less(t, i, 10_000, "it goes on")
		id, body := facts(theirs, "n", `{}`)
		m := &nats.Msg{Subject: "edict.log." + theirs + ".node.n", Header: nats.Header{"Nats-Msg-Id": {id}}, Data: body}
		if i%10 > 0 {
			err = nc.PublishMsg(m)
		} else if _, err = nc.RequestMsg(m, 20*time.Second); nc.IsReconnecting() {
			err = nats.ErrConnectionClosed
		}
	}
	select {
	case <-down:
	case <-time.After(30 * time.Second):
		require.Fail(t, "its connection does not end", err)
	}
}

// Who goes on sending what its quota refuses is shut out over NATS for a while. Others are
// not held up.
func TestAProducerThatKeepsToNoQuotaIsShutOut(t *testing.T) {
	g := startGuarded(t, false, func(o *Options) { o.firstShutOut = time.Hour })
	root, operator, author := who{g, "root"}, who{g, "operator"}, who{g, "author"}
	operator.exceeds(t)
	_, err := operator.nats()
	require.ErrorIs(t, err, nats.ErrAuthorization)
	require.Equal(t, 1, strings.Count(g.log.String(), "shuts its producers out"), "it is said once")
	text, err := root.body("GET", "/v1/status", "")
	require.NoError(t, err)
	require.Contains(t, string(text), `"shut_out_until"`)
	text, err = root.body("GET", "/metrics", "")
	require.NoError(t, err)
	require.Contains(t, string(text), "edict_projects_shut_out 1\n")
	require.NoError(t, author.http("PUT", "/v1/projects/"+ours+"/nodes/a", `{"labels":{}}`))
	seq, _ := author.appendTo("edict.log."+ours+".node.a", "", []byte("x"))
	require.Equal(t, "undecodable", author.learns(ours, seq, "").Code)
}

// What the API appended and a quota refused is not the doing of the project's producers.
func TestAnImportBeyondAQuotaShutsNobodyOut(t *testing.T) {
	g := startGuarded(t, false, func(o *Options) { o.firstShutOut = time.Hour })
	root, operator := who{g, "root"}, who{g, "operator"}
	require.NoError(t, root.http("PUT", "/v1/projects/"+theirs+"/quota", `{"nodes":1}`))
	var lines strings.Builder
	for i := range 300 {
		fmt.Fprintf(&lines, `{"id":"n%d","labels":{},"addresses":[]}`+"\n", i)
	}
	text, err := root.body("POST", "/v1/projects/"+theirs+"/nodes:batch", lines.String())
	require.NoError(t, err)
	require.Contains(t, string(text), `"applied":1,`)
	require.Equal(t, 299, strings.Count(string(text), `"quota_exceeded"`))
	require.NotContains(t, g.log.String(), "shuts its producers out")
	seq, _ := operator.appendTo("edict.log."+theirs+".node.a", "", []byte("x"))
	require.Equal(t, "undecodable", operator.learns(theirs, seq, "").Code)
}

// It is let in again, with a client that has nats.go's defaults.
func TestAProducerThatWasShutOutComesBack(t *testing.T) {
	g := startGuarded(t, false)
	up, once := make(chan struct{}), new(sync.Once)
	who{g, "operator"}.exceeds(t, func(o *nats.Options) error {
		o.AllowReconnect = true
		return nil
	}, nats.ReconnectHandler(func(*nats.Conn) { once.Do(func() { close(up) }) }))
	select {
	case <-up:
	case <-time.After(30 * time.Second):
		require.Fail(t, "it is not let in again")
	}
}
