package streams

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/natscluster"
)

func TestAServerThatDoesNotListenIsReachedInProcess(t *testing.T) {
	for _, listen := range []string{"", "none"} {
		s := startServer(t, ServerOptions{Listen: listen})
		assert.Empty(t, s.ClientURL())
		c := connect(t, ConnectOptions{Server: s})
		assert.True(t, c.Connected())
		assert.Equal(t, embeddedMaxPayload, c.MaxPayload())
		assert.Equal(t, Strict, c.Durability())
	}
}

func TestAServerListensOnTheAddressGivenAndKeepsAPortItTook(t *testing.T) {
	s := startServer(t, ServerOptions{Listen: "127.0.0.1:0", Relaxed: true})
	url := s.ClientURL()
	assert.Regexp(t, `^nats://127\.0\.0\.1:[1-9][0-9]+$`, url)
	require.NoError(t, s.Restart())
	assert.Equal(t, url, s.ClientURL())
	outside := connect(t, ConnectOptions{URL: url})
	assert.Equal(t, UnknownDurability, outside.Durability(), "a client cannot see it")
	assert.Equal(t, Relaxed, connect(t, ConnectOptions{Server: s}).Durability())
	assert.Equal(t, 1000, outside.maxBatch)
}

// Each connection is an open file, of which the read model and the log need some.
func TestClientsBeyondTheBoundAreRefused(t *testing.T) {
	var out bytes.Buffer
	s := startServer(t, ServerOptions{
		Listen: "127.0.0.1:0", Relaxed: true, Connections: 3,
		Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	own := connect(t, ConnectOptions{Server: s})
	first, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	second, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	defer second.Close()
	for range 5 {
		_, err = nats.Connect(s.ClientURL())
		require.Error(t, err)
	}
	require.True(t, own.Connected())
	first.Close()
	require.Eventually(t, func() bool {
		another, err := nats.Connect(s.ClientURL())
		if err == nil {
			another.Close()
		}
		return err == nil
	}, 10*time.Second, time.Millisecond, "there is room again")
	s.Close()
	require.Equal(t, 1, strings.Count(out.String(), "maximum connections exceeded"), "it is said once a minute: %s", &out)
}

func TestAServerIsRefusedWithOneClearError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	used := startServer(t, ServerOptions{Relaxed: true}).opt.Dir
	cases := map[string]struct {
		opt  ServerOptions
		want string
	}{
		"no directory":                    {ServerOptions{}, "no store directory"},
		"a directory in use":              {ServerOptions{Dir: used}, "is in use by another process; stop it or choose another directory"},
		"a file in place of a directory":  {ServerOptions{Dir: "server_test.go"}, "make the store directory"},
		"an address in use":               {ServerOptions{Dir: t.TempDir(), Listen: taken.Addr().String()}, "free the address or choose another"},
		"an address without port":         {ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1"}, "is not host:port"},
		"an address with a strange port":  {ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:x"}, "the port must be 0..65535"},
		"an address that is not our own":  {ServerOptions{Dir: t.TempDir(), Listen: "192.0.2.1:4222"}, "cannot listen on 192.0.2.1:4222"},
		"a port that is one bit too long": {ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:65536"}, "the port must be 0..65535"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := StartServer(c.opt)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestADirectoryIsFreeAgainAfterAServerThatDidNotStart(t *testing.T) {
	dir := t.TempDir()
	_, err := StartServer(ServerOptions{Dir: dir, Listen: "127.0.0.1:x"})
	require.Error(t, err)
	startServer(t, ServerOptions{Dir: dir}).Close()
	startServer(t, ServerOptions{Dir: dir})
}

func TestCloseMayBeCalledTwiceAndRestartNotAfterIt(t *testing.T) {
	s := startServer(t, ServerOptions{})
	s.Close()
	s.Close()
	assert.Error(t, s.Restart())
	_, err := s.InProcessConn()
	assert.Error(t, err)
	_, err = Connect(within(t), ConnectOptions{Server: s})
	assert.ErrorContains(t, err, "the embedded server")
}

func TestTheServersLinesReachTheLogAtTheirLevel(t *testing.T) {
	var out bytes.Buffer
	l := newServerLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	l.Noticef("starting %d", 1)
	l.Debugf("detail")
	l.Tracef("wire")
	assert.Empty(t, out.String())
	assert.NoError(t, l.failure())
	l.Warnf("slow %s", "consumer")
	l.Errorf("bad block")
	l.Fatalf("cannot %s", "listen")
	l.Fatalf("nor this")
	assert.Contains(t, out.String(), `level=WARN msg="the NATS server reports" detail="slow consumer" component=nats-server`)
	assert.Equal(t, 3, strings.Count(out.String(), "level=ERROR"))
	assert.EqualError(t, l.failure(), "cannot listen")
}

func TestAServerThatWillNotDoIsRefusedOnConnect(t *testing.T) {
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	ns.Start()
	defer ns.WaitForShutdown()
	defer ns.Shutdown()
	require.True(t, ns.ReadyForConnections(within20s))
	_, err = Connect(within(t), ConnectOptions{URL: ns.ClientURL()})
	assert.ErrorContains(t, err, "JetStream is off; start the server with -js")

	_, err = Connect(within(t), ConnectOptions{URL: "nats://user:secret@127.0.0.1:1"})
	assert.ErrorContains(t, err, "connect to NATS at nats://127.0.0.1:1")
	assert.NotContains(t, err.Error(), "secret")
	_, err = Connect(within(t), ConnectOptions{})
	assert.ErrorContains(t, err, "neither")
}

func TestServersBeforeAtomicBatchesAreRefused(t *testing.T) {
	for v, ok := range map[string]bool{
		"2.12.0": true, "2.15.2": true, "3.0.0": true, "2.12.0-RC.1": true, "v2.14.1": true,
		"2.11.9": false, "2.9.25": false, "1.4.1": false, "": false, "2": false, "dev.x": false,
	} {
		err := checkVersion(v)
		if ok {
			assert.NoError(t, err, v)
		} else {
			assert.ErrorContains(t, err, "2.12 or newer", v)
		}
	}
}

func TestRequestsAreServedSideBySideUntilTheEnd(t *testing.T) {
	c := embedded(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	serving := make(chan struct{})
	var both sync.WaitGroup
	both.Add(2)
	go func() {
		ended <- c.Serve(ctx, "edict.replay.node.*", func() { close(serving) }, func(subject string, body []byte, reply func(map[string][]string, []byte) error) {
			both.Done()
			both.Wait() // two at once, or never
			assert.NoError(t, reply(map[string][]string{"Nats-Sequence": {"7"}}, body))
			assert.NoError(t, reply(map[string][]string{"Edict-Up-To": {"9"}}, nil))
		})
	}()
	<-serving
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	require.NoError(t, err)
	require.NoError(t, c.nc.PublishRequest("edict.replay.node.a", inbox, []byte("a")))
	require.NoError(t, c.nc.PublishRequest("edict.replay.node.b", inbox, []byte("b")))
	for range 4 {
		m, err := sub.NextMsgWithContext(within(t))
		require.NoError(t, err)
		if len(m.Data) == 0 {
			assert.Equal(t, "9", m.Header.Get("Edict-Up-To"))
		}
	}
	cancel()
	assert.NoError(t, <-ended)
}

// A hostile node may ask as often as it likes, and as fast.
func TestWhoAsksTooOftenTakesNoTurnFromOthers(t *testing.T) {
	c := embedded(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	serving := make(chan struct{})
	held := make(chan struct{})
	go func() {
		ended <- c.Serve(ctx, "edict.replay.node.*", func() { close(serving) }, func(subject string, _ []byte, reply func(map[string][]string, []byte) error) {
			if subject == "edict.replay.node.a" {
				<-held
			}
			_ = reply(nil, nil)
		})
	}()
	<-serving
	for range 2 * serveAtOnce {
		require.NoError(t, c.nc.PublishRequest("edict.replay.node.a", "nowhere", nil))
	}
	_, err := c.nc.RequestWithContext(within(t), "edict.replay.node.b", nil)
	assert.NoError(t, err)
	close(held)
	_, err = c.nc.RequestWithContext(within(t), "edict.replay.node.c", nil)
	assert.NoError(t, err)
	cancel()
	assert.NoError(t, <-ended)
}

// visitor is let in for a while.
type visitor struct{ until time.Time }

func (v visitor) Admit(s Credentials) (Guest, bool) {
	return Guest{Name: s.Token, Account: AccountNodes, Hear: []string{"_INBOX.x.>"}, Until: v.until}, true
}

func TestAGuestWhoseTimeIsOverGoes(t *testing.T) {
	for name, until := range map[string]time.Time{"stays": {}, "stays, too": time.Now().Add(time.Hour), "goes": time.Now().Add(-time.Second)} {
		t.Run(name, func(t *testing.T) {
			s, err := StartServer(ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", Relaxed: true, Guard: visitor{until}})
			require.NoError(t, err)
			defer s.Close()
			gone := make(chan struct{})
			nc, err := nats.Connect(s.ClientURL(), nats.Token(name), nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(gone) }))
			require.NoError(t, err)
			defer nc.Close()
			s.Expel(func(string) bool { return true })
			if name == "goes" {
				select {
				case <-gone:
				case <-within(t).Done():
					t.Fatal("the connection stands")
				}
			} else {
				require.NoError(t, nc.FlushTimeout(within20s))
			}
		})
	}
}

// A leaf node lets no request to JetStream through: a worker there is told whom to name.
func TestAWorkerAtALeafNodeIsTold(t *testing.T) {
	t.Parallel()
	start := func(opt server.Options) *server.Server {
		opt.Host, opt.Port, opt.NoLog, opt.NoSigs = "127.0.0.1", server.RANDOM_PORT, true, true
		s, err := server.NewServer(&opt)
		require.NoError(t, err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		require.True(t, s.ReadyForConnections(20*time.Second))
		return s
	}
	joins := natscluster.Free(t, 1)[0]
	hub := start(server.Options{JetStream: true, StoreDir: t.TempDir(), LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: joins.Port}})
	openLog(t, connect(t, ConnectOptions{URL: hub.ClientURL()}))
	leaf := start(server.Options{LeafNode: server.LeafNodeOpts{Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats-leaf", Host: joins.String()}}}}}})
	require.Eventually(t, func() bool { return leaf.NumLeafNodes() == 1 }, 30*time.Second, 10*time.Millisecond)
	_, err := Connect(within(t), ConnectOptions{URL: leaf.ClientURL()})
	require.ErrorContains(t, err, "if it is a leaf node, name the servers that keep the log")
}
