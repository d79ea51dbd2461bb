package streams

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/wire"
)

func TestALogThatWouldTakeNoEventSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*jetstream.StreamConfig)
		says string
	}{
		"other subjects": {func(cfg *jetstream.StreamConfig) { cfg.Subjects = []string{"elsewhere.>"} }, "subjects is elsewhere.>, without edict.log.*.policy.* edict.log.*.node.*"},
		"one family of events less": {func(cfg *jetstream.StreamConfig) {
			cfg.Subjects = slices.DeleteFunc(cfg.Subjects, func(s string) bool { return s == "edict.log.*.artifact.*" })
		}, "without edict.log.*.artifact.*"},
		"a limit of messages": {func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 1 }, "max_msgs is 1, and it holds 1"},
		"a limit of bytes":    {func(cfg *jetstream.StreamConfig) { cfg.MaxBytes = 10 }, "max_bytes is 10, and it holds "},
		"no acknowledgements": {func(cfg *jetstream.StreamConfig) { cfg.NoAck = true }, "no_ack is true"},
		"sealed":              {func(cfg *jetstream.StreamConfig) { cfg.Sealed = true }, "sealed is true"},
		"no batches":          {func(cfg *jetstream.StreamConfig) { cfg.AllowAtomicPublish = false }, "allow_atomic is false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := embedded(t)
			l := openLog(t, conn)
			_, _, err := l.Publish(within(t), Append{Event: node("a", 1)})
			require.NoError(t, err)
			require.NoError(t, l.Writable(within(t)))
			cfg := logOpener.settings(t, conn)
			c.edit(&cfg)
			_, err = conn.js.UpdateStream(within(t), cfg)
			require.NoError(t, err)
			require.ErrorContains(t, l.Writable(within(t)), c.says)
			s, err := l.State(within(t))
			require.NoError(t, err)
			require.EqualValues(t, 1, s.Messages, "nothing was written to find out")
			require.EqualValues(t, max(cfg.MaxBytes, 0), s.MaxBytes)
		})
	}
}

// Of a log that one server alone keeps, that server's disk takes all with it.
func TestFewerReplicasThanThePlaneWasToldAreNamedWhileItRuns(t *testing.T) {
	t.Parallel()
	conn := embedded(t)
	l := openLog(t, conn)
	require.NoError(t, l.Settings(within(t)))
	conn.replicas = 3 // as it is where three servers kept the log, and somebody took two away
	require.ErrorContains(t, l.Settings(within(t)), "num_replicas is 1: must be 3 or more, as --replicas says")
}

// The account has no limit here, so nothing but an attempt tells.
func TestALogOnAServerWithoutRoomSaysSoUntilThereIsSome(t *testing.T) {
	t.Parallel()
	ns := elsewhere(t)
	patient := func() *Conn {
		c := connect(t, ConnectOptions{URL: ns.ClientURL()})
		c.patience = within20s
		return c
	}
	conn := patient()
	l := openLog(t, conn)
	_, _, err := l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	heard, err := conn.nc.SubscribeSync(wire.PrefixLog + ">")
	require.NoError(t, err)
	require.NoError(t, l.Writable(within(t)))

	_, err = conn.js.CreateStream(within(t), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other"}})
	require.NoError(t, err)
	for err == nil {
		_, err = conn.js.Publish(within(t), "other", make([]byte, 100<<10))
	}
	_, _, err = l.Publish(within(t), Append{Event: node("a", 2)})
	require.ErrorIs(t, err, ErrStorage)
	for range 2 { // once is not enough to forget it
		err = l.Writable(within(t))
		require.ErrorIs(t, err, ErrStorage)
		require.ErrorContains(t, err, "raise max_file_store of the server that leads EDICT_LOG")
	}
	require.ErrorIs(t, openLog(t, patient()).Writable(within(t)), ErrStorage, "a plane that has not written yet asks, too")

	require.NoError(t, conn.js.DeleteStream(within(t), "OTHER"))
	require.NoError(t, l.Writable(within(t)))
	asked := pendingOf(t, heard)
	require.NoError(t, l.Writable(within(t)))
	require.Equal(t, asked, pendingOf(t, heard), "nothing is sent while nothing was refused")
	s, err := l.State(within(t))
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Messages, "nothing was written to find out")
	_, _, err = l.Publish(within(t), Append{Event: node("a", 2)})
	require.NoError(t, err)
}

// A server may say that it leads the log, and take no event for it: one whose group it moved and
// never finished to. Only an attempt tells, so one that got no answer is tried again.
func TestALogWhoseServerAnswersNoWriteSaysSo(t *testing.T) {
	t.Parallel()
	conn := connect(t, ConnectOptions{URL: elsewhere(t).ClientURL()})
	conn.patience = within20s
	l := openLog(t, conn)
	_, _, err := l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	require.NoError(t, l.Writable(within(t)))
	request := conn.request
	conn.request = func(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
		if !strings.HasPrefix(m.Subject, wire.PrefixLog) {
			return request(ctx, m)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	require.NoError(t, l.Writable(within(t)), "nobody wrote")
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, _, err = l.Publish(short, Append{Event: node("a", 2)})
	require.ErrorIs(t, err, ErrUnknown)
	conn.patience = time.Millisecond
	for range 2 {
		require.ErrorContains(t, l.Writable(within(t)), "answers no event")
	}
	conn.request, conn.patience = request, within20s
	require.NoError(t, l.Writable(within(t)))
	heard, err := conn.nc.SubscribeSync(wire.PrefixLog + ">")
	require.NoError(t, err)
	require.NoError(t, l.Writable(within(t)))
	require.Zero(t, pendingOf(t, heard), "nothing is sent while all is answered")
}

// elsewhere is a server that is not embedded, with room for a MiB.
func elsewhere(t *testing.T) *server.Server {
	t.Helper()
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 1 << 20,
	})
	require.NoError(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	require.True(t, ns.ReadyForConnections(within20s))
	return ns
}

// pendingOf is how many messages sub has, with all that the server had for it.
func pendingOf(t *testing.T, sub *nats.Subscription) int {
	t.Helper()
	n, _, err := sub.Pending()
	require.NoError(t, err)
	return n
}

func TestASubjectThatNothingServesIsNamedOnce(t *testing.T) {
	t.Parallel()
	conn := embedded(t)
	_, err := conn.ask(within(t), nats.NewMsg("edict.nowhere"), requestTimeout)
	require.ErrorIs(t, err, ErrBusy)
	require.EqualError(t, err, "not taken now: nothing serves subject edict.nowhere")
}

func TestAConsumerSaysWhoseItIs(t *testing.T) {
	t.Parallel()
	conn := connect(t, ConnectOptions{Server: startServer(t, ServerOptions{Relaxed: true}), Name: "edict w.1 *"})
	l := openLog(t, conn)
	_, _, err := l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	for _, err := range l.Follow(within(t), 1) {
		require.NoError(t, err)
		s, err := conn.js.Stream(within(t), LogStream)
		require.NoError(t, err)
		var seen []*jetstream.ConsumerInfo
		for info := range s.ListConsumers(within(t)).Info() {
			seen = append(seen, info)
		}
		require.Len(t, seen, 1)
		require.Regexp(t, `^edict-w-1---[A-Z2-7]+$`, seen[0].Name)
		require.Equal(t, "edict w.1 * follows EDICT_LOG from 1; it goes by itself", seen[0].Config.Description)
		break
	}
}

// Who was asked to stop while the server was waited for is not told to look after the server.
func TestWhoStopsWhileItConnectsIsNotToldThatTheServerIsAway(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Connect(ctx, ConnectOptions{URL: "nats://127.0.0.1:1"})
	require.ErrorIs(t, err, context.Canceled)
	_, err = Connect(t.Context(), ConnectOptions{URL: "nats://127.0.0.1:1"})
	require.ErrorAs(t, err, new(*ConnectError))
}
