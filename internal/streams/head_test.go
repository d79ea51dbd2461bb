package streams

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheHeadIsNeverOlderThanWhatWasAcknowledged(t *testing.T) {
	for name, c := range map[string]*Conn{
		"embedded":        embedded(t),
		"with a guard":    connect(t, ConnectOptions{Server: startServer(t, ServerOptions{Relaxed: true, Guard: nobody{}})}),
		"by way of a URL": connect(t, ConnectOptions{URL: startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0"}).ClientURL()}),
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, c)
			at, err := l.Head(within(t))
			require.NoError(t, err)
			require.Zero(t, at, "of a log without events")
			for i := range 20 {
				seq, _, err := l.Publish(within(t), Append{Event: node("n1", i)})
				require.NoError(t, err)
				at, err := l.Head(within(t))
				require.NoError(t, err)
				require.Equal(t, seq, at)
			}
			if c.server != nil {
				at, ok := c.server.last(LogStream)
				require.True(t, ok, "without a request")
				require.Equal(t, uint64(20), at)
			}
			require.NoError(t, c.js.DeleteStream(within(t), LogStream))
			_, err = l.Head(within(t))
			require.ErrorIs(t, err, ErrNotFound, "a log that is gone has no head")
		})
	}
}

func TestTheHeadOutlivesARestartAndNotItsServer(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true})
	l := openLog(t, connect(t, ConnectOptions{Server: s}))
	seq, _, err := l.Publish(within(t), Append{Event: node("n1", 1)})
	require.NoError(t, err)
	require.NoError(t, s.Restart())
	at, err := l.Head(within(t))
	require.NoError(t, err)
	require.Equal(t, seq, at)
	s.Close()
	_, err = l.Head(within(t))
	require.Error(t, err, "nobody knows")
}

// nobody lets no guest in.
type nobody struct{}

func (nobody) Admit(Credentials) (Guest, bool) { return Guest{}, false }
