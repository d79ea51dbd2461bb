package streams

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// TestASourceTakesNoTurnFromOthers: what one asks beyond its bound is refused while
// its first question is answered, and another is answered meanwhile.
func TestASourceTakesNoTurnFromOthers(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0"})
	c := connect(t, ConnectOptions{Server: s})
	ctx, stop := context.WithCancel(t.Context())
	begun, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	bounds := Bounds{
		AtOnce: 2, Each: 1,
		Source: func(subject string) string { return strings.Split(subject, ".")[1] },
		Refuse: func(_ string, reply Reply) { _ = reply(nil, []byte("refused")) },
	}
	go func() {
		ended <- c.ServeWithin(ctx, "ask.*.*", bounds, func(subject string, _ []byte, reply Reply) {
			if subject == "ask.a.1" {
				close(begun)
				<-release
			}
			_ = reply(nil, []byte(subject))
		})
	}()
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	require.Eventually(t, func() bool { _, err := nc.Request("ask.b.0", nil, within20s); return err == nil }, within20s, within20s/1000, "it serves")
	first := nc.NewInbox()
	answers, err := nc.SubscribeSync(first)
	require.NoError(t, err)
	require.NoError(t, nc.PublishRequest("ask.a.1", first, nil))
	<-begun
	for subject, want := range map[string]string{"ask.a.2": "refused", "ask.b.1": "ask.b.1"} {
		m, err := nc.Request(subject, nil, within20s)
		require.NoError(t, err)
		require.Equal(t, want, string(m.Data))
	}
	close(release)
	m, err := answers.NextMsg(within20s)
	require.NoError(t, err)
	require.Equal(t, "ask.a.1", string(m.Data))
	stop()
	require.NoError(t, <-ended)
}
