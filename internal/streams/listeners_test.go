package streams

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/natscluster"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

const subjectOfA = "edict.node.a.p"

func TestAnEmbeddedServerKnowsWhoListens(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0"})
	c := connect(t, ConnectOptions{Server: s})
	l := NewListeners(c)
	require.True(t, l.None())
	require.False(t, l.Any("a", subjectOfA))
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	for subject, want := range map[string]struct{ any, b, all bool }{
		"edict.node.a.>":  {any: true},
		"edict.node.a.p":  {any: true},
		"edict.node.*.p":  {any: true, b: false, all: true},
		"edict.node.>":    {any: true, b: true, all: true},
		">":               {any: true, b: true, all: true},
		"edict.node.a.q":  {},
		"edict.replay.>":  {},
		"edict.node.*.>":  {any: true, b: true, all: true},
		"*.node.a.p":      {any: true, all: true},
		"edict.nodes.a.p": {},
	} {
		t.Run(subject, func(t *testing.T) {
			sub, err := nc.SubscribeSync(subject)
			require.NoError(t, err)
			require.NoError(t, nc.FlushTimeout(within20s))
			assert.Equal(t, want.any, l.Any("a", subjectOfA))
			assert.Equal(t, want.b, l.Any("b", "edict.node.b.q"))
			nodes, all := l.Who()
			assert.Equal(t, want.all, all)
			assert.Equal(t, !all && len(nodes) == 0, l.None())
			require.NoError(t, sub.Unsubscribe())
			require.NoError(t, nc.FlushTimeout(within20s))
			assert.False(t, l.Any("a", subjectOfA))
			_, all = l.Who()
			assert.False(t, all)
		})
	}
}

func TestAStreamOverTheSubjectsListens(t *testing.T) {
	c := embedded(t)
	l := NewListeners(c)
	require.True(t, l.None())
	n, made, err := CreateNodeStream(within(t), c)
	require.NoError(t, err)
	require.True(t, made)
	assert.Zero(t, n.Messages)
	assert.False(t, l.None())
	assert.True(t, l.Any("a", subjectOfA))
	_, made, err = CreateNodeStream(within(t), c)
	require.NoError(t, err)
	assert.False(t, made, "it is there already")
	require.NoError(t, DeleteNodeStream(within(t), c))
	assert.True(t, l.None())
	require.ErrorIs(t, DeleteNodeStream(within(t), c), ErrNotFound)
}

// TestANodeStreamIsKeptByAsManyServersAsTheLog: the first loss of a server takes neither.
func TestANodeStreamIsKeptByAsManyServersAsTheLog(t *testing.T) {
	url := natscluster.Start(t, 3).URL()
	_, err := OpenLog(within(t), connect(t, ConnectOptions{URL: url, Replicas: 3}), LogOptions{})
	require.NoError(t, err)
	for asked, want := range map[int]int{0: 3, 1: 1} {
		c := connect(t, ConnectOptions{URL: url, Replicas: asked})
		_, made, err := CreateNodeStream(within(t), c)
		require.NoError(t, err)
		require.True(t, made)
		info, err := c.streamInfo(within(t), NodeEventsStream)
		require.NoError(t, err)
		assert.Equal(t, want, info.Config.Replicas)
		require.NoError(t, DeleteNodeStream(within(t), c))
	}
}

func TestAGuestListens(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0", Guard: hearer{}})
	c := connect(t, ConnectOptions{Server: s})
	l := NewListeners(c)
	nc, err := nats.Connect(s.ClientURL(), nats.Token("a"))
	require.NoError(t, err)
	defer nc.Close()
	sub, err := nc.SubscribeSync("edict.node.a.>")
	require.NoError(t, err)
	require.NoError(t, nc.FlushTimeout(within20s))
	assert.True(t, l.Any("a", subjectOfA))
	assert.False(t, l.Any("b", "edict.node.b.p"))
	nodes, all := l.Who()
	assert.False(t, all)
	assert.Equal(t, map[policy.NodeID]bool{"a": true}, nodes)
	require.NoError(t, c.Tell(subjectOfA, map[string][]string{"Edict-Id": {"a.1"}}, []byte("x")))
	m, err := sub.NextMsgWithContext(within(t))
	require.NoError(t, err)
	assert.Equal(t, subjectOfA, m.Subject)
	assert.Equal(t, "a.1", m.Header["Edict-Id"][0])
}

// hearer lets a node hear its own.
type hearer struct{}

func (hearer) Admit(s Credentials) (Guest, bool) {
	return Guest{Name: s.Token, Account: AccountNodes, Hear: []string{"_INBOX.x.>", "edict.node." + s.Token + ".>"}}, true
}

// overhearing runs listeners that cannot look into the server.
func overhearing(t *testing.T, s *Server) (*Listeners, *Conn) {
	c := connect(t, ConnectOptions{URL: s.ClientURL()})
	l := NewListeners(c)
	l.most = 0 // nobody asked before
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	require.Eventually(t, l.None, within20s, tick)
	l.mu.Lock()
	l.most = within20s
	l.since = l.since.Add(-within20s)
	l.mu.Unlock()
	return l, c
}

func TestWhoAsksOtherServersIsOverheard(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0"})
	l, _ := overhearing(t, s)
	require.False(t, l.Any("a", subjectOfA))
	other := connect(t, ConnectOptions{URL: s.ClientURL()})
	require.NoError(t, other.Tell(wire.ReplaySubject("a"), nil, []byte(`{"after":"0"}`)))
	<-l.Wake()
	assert.Equal(t, Fresh{Nodes: []policy.NodeID{"a"}}, l.Fresh())
	assert.Equal(t, Fresh{}, l.Fresh())
	assert.True(t, l.Any("a", subjectOfA))
	assert.False(t, l.Any("b", subjectOfA))
	assert.False(t, l.None())
	nodes, all := l.Who()
	assert.False(t, all)
	assert.Equal(t, map[policy.NodeID]bool{"a": true}, nodes)
}

func TestAStreamOfOtherServersIsFound(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0"})
	l, c := overhearing(t, s)
	_, err := c.js.CreateStream(within(t), jetstream.StreamConfig{Name: "MINE", Subjects: []string{"edict.node.a.>"}})
	require.NoError(t, err)
	<-l.Wake()
	assert.Equal(t, Fresh{All: true}, l.Fresh())
	assert.True(t, l.Any("b", subjectOfA))
}

func TestWhoeverAskedBeforeALossMayListen(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0"})
	l, _ := overhearing(t, s)
	require.NoError(t, s.Restart())
	require.Eventually(t, func() bool { return l.Any("b", subjectOfA) }, within20s, tick)
	assert.False(t, l.None())
}
