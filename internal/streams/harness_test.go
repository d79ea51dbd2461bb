package streams

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/internal/test/natscluster"
	"github.com/edictdev/edict/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, natscluster.Forgotten()...) }

var project = uuid.MustParse("00000000-0000-4000-8000-000000000000")

// node is the event with the n-th id about node <name>.
func node(name string, n int) policy.NodeUpdated {
	return policy.NodeUpdated{
		ID:      uuid.NewSHA1(project, fmt.Appendf(nil, "%s %d", name, n)),
		Project: project,
		Node:    policy.NodeID(name),
	}
}

// startServer runs an embedded server for the test's life. Tests that are not
// about durability run it relaxed, because it is faster.
func startServer(t testing.TB, opt ServerOptions) *Server {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	s, err := StartServer(opt)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func connect(t testing.TB, opt ConnectOptions) *Conn {
	t.Helper()
	c, err := Connect(t.Context(), opt)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// embedded is a connection to a server of its own, in process.
func embedded(t testing.TB) *Conn {
	t.Helper()
	return connect(t, ConnectOptions{Server: startServer(t, ServerOptions{Relaxed: true})})
}

func openLog(t testing.TB, c *Conn) *Log {
	t.Helper()
	l, err := OpenLog(t.Context(), c, LogOptions{})
	require.NoError(t, err)
	return l
}

// within bounds what a test waits for.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// collect follows until it has n messages.
func collect(t testing.TB, seq func(yield func([]Message, error) bool), n int) []Message {
	t.Helper()
	var got []Message
	for batch, err := range seq {
		require.NoError(t, err)
		require.NotEmpty(t, batch)
		got = append(got, batch...)
		if len(got) >= n {
			break
		}
	}
	require.Len(t, got, n)
	return got
}

func sequences(msgs []Message) []uint64 {
	out := make([]uint64, len(msgs))
	for i := range msgs {
		out[i] = msgs[i].Seq
	}
	return out
}

const (
	within20s = 20 * time.Second
	tick      = time.Millisecond
)

// fakeMsg is a delivered message as the queue sees it.
type fakeMsg struct {
	jetstream.Msg
	reply string
	data  []byte
}

func (m fakeMsg) Reply() string        { return m.reply }
func (m fakeMsg) Subject() string      { return "s" }
func (m fakeMsg) Data() []byte         { return m.data }
func (m fakeMsg) Headers() nats.Header { return nil }
