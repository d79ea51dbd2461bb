package archive

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plane is a log on a server of its own, in process.
type plane struct {
	*streams.Log
	t    testing.TB
	conn *streams.Conn
	nc   *nats.Conn
}

// empty is a server without a log.
func empty(t testing.TB) *plane {
	t.Helper()
	server, err := streams.StartServer(streams.ServerOptions{Dir: filepath.Join(t.TempDir(), "nats"), Relaxed: true})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	p := &plane{t: t}
	p.conn, err = streams.Connect(t.Context(), streams.ConnectOptions{Server: server})
	require.NoError(t, err)
	t.Cleanup(p.conn.Close)
	p.nc, err = nats.Connect("", nats.InProcessServer(server))
	require.NoError(t, err)
	t.Cleanup(p.nc.Close)
	return p
}

// world is a log of generated events.
func world(t testing.TB, seed uint64, n int) *plane {
	t.Helper()
	p := empty(t)
	var err error
	p.Log, err = streams.OpenLog(t.Context(), p.conn, streams.LogOptions{Partitions: 8})
	require.NoError(t, err)
	p.grow(seed, n)
	return p
}

// grow appends events as a producer would.
func (p *plane) grow(seed uint64, n int) {
	p.t.Helper()
	g := gen.New(seed)
	events := gen.NewScribe("00000000-0000-4000-8000-000000000000", seed).WriteAll(g.History(g.World(6, 8), n))
	for _, e := range events[:n] {
		p.publish(e.Subject, e.Body, "Nats-Msg-Id", e.ID, "ce-type", e.Type, "Edict-Principal", "ana")
	}
}

// publish appends a message whatever it says; headers are alternating names and values.
func (p *plane) publish(subject string, body []byte, headers ...string) {
	p.t.Helper()
	m := nats.NewMsg(subject)
	m.Data = body
	for i := 0; i < len(headers); i += 2 {
		m.Header[headers[i]] = append(m.Header[headers[i]], headers[i+1])
	}
	ack, err := p.nc.RequestMsg(m, 20*time.Second)
	require.NoError(p.t, err)
	require.Contains(p.t, string(ack.Data), `"seq"`)
}

// folded is what a fold of the log comes to.
func folded(t testing.TB, log snapshot.Log, opt projector.Options) snapshot.Result {
	t.Helper()
	r, err := snapshot.Replay(t.Context(), log, filepath.Join(t.TempDir(), "store"), opt, nil)
	require.NoError(t, err)
	return r
}

func (p *plane) folded() snapshot.Result {
	return folded(p.t, p.Log, projector.Options{Partitions: p.Partitions(), Created: p.Created(), First: p.First(), Base: p.Base()})
}

// messages are all that the log has.
func (p *plane) messages() (all []streams.Message) {
	p.t.Helper()
	state, err := p.State(p.t.Context())
	require.NoError(p.t, err)
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	for msgs, err := range p.Follow(ctx, 0) {
		require.NoError(p.t, err)
		if all = append(all, msgs...); all[len(all)-1].Seq >= state.Last {
			break
		}
	}
	return all
}

// export appends to an archive in segments of 10 events.
func (p *plane) export(dir string) Extent {
	p.t.Helper()
	e, err := Export(p.t.Context(), p.Log, ExportOptions{Dir: dir, events: 10})
	require.NoError(p.t, err)
	return e
}

func opened(t testing.TB, dir string) *Archive {
	t.Helper()
	a, err := Open(t.Context(), dir)
	require.NoError(t, err)
	return a
}
