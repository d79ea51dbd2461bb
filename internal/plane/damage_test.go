package plane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/natscluster"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// folded is how many events the plane has met whose data the tests damage.
const folded = 2600

// whole is the data of a plane that was stopped: its log, its witness and its
// read model. Nobody writes to it.
var whole = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "edict-whole-"); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := Open(ctx, Options{Data: dir, NoAPI: true, NATSListen: "none", Relaxed: true})
	if err != nil {
		return dir, err
	}
	defer p.Close()
	run, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(run) }()
	if _, err = p.stream.PublishAll(ctx, nodes(1, folded)); err != nil {
		return dir, err
	}
	if err = p.store.Wait(ctx, folded); err != nil {
		return dir, err
	}
	// A stop in the middle of a link leaves its end to the next start.
	for !p.worker.Leads() || p.witness.Last() < folded/1000*1000 {
		time.Sleep(time.Millisecond)
	}
	stop()
	return dir, <-ended
})

func nodes(from, to int) []streams.Append {
	var as []streams.Append
	for i := from; i <= to; i++ {
		labels, _ := policy.NewLabels(map[string]string{"role": fmt.Sprintf("r%d", i%7)}, "")
		as = append(as, streams.Append{Bulk: true, Event: policy.NodeUpdated{
			ID: uuid.NewSHA1(project, fmt.Appendf(nil, "%d", i)), Project: project, Node: policy.NodeID(fmt.Sprintf("node-%d", i)), Labels: labels,
		}})
	}
	return as
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // an eighth of the time of these tests is collecting garbage
	goleak.VerifyTestMain(m, append(natscluster.Forgotten(), goleak.Cleanup(func(code int) {
		if dir, _ := whole(); dir != "" {
			os.RemoveAll(dir)
		}
		os.Exit(code)
	}))...)
}

// data is a copy of the whole plane's, with some parts of it left out.
func data(t *testing.T, without ...string) string {
	from, err := whole()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	for _, part := range without {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, part)))
	}
	require.NoError(t, os.Chmod(datadir.Dir(dir).SigningKey(), 0o600))
	return dir
}

const (
	logMessages   = "nats/jetstream/$G/streams/EDICT_LOG/msgs"
	chainMessages = "nats/jetstream/$G/streams/EDICT_CHAIN"
)

// edit rewrites the one block of a stopped server's log from where it names
// node n on. The server trusts its index unless that is gone.
func edit(t *testing.T, dir string, n int, f func(before, from []byte) []byte) {
	blk := filepath.Join(dir, logMessages, "1.blk")
	text, err := os.ReadFile(blk)
	require.NoError(t, err)
	at := bytes.Index(text, fmt.Appendf(nil, `"node_id":"node-%d"`, n))
	require.Positive(t, at)
	require.NoError(t, os.WriteFile(blk, f(text[:at], text[at:]), 0o600))
}

// flip changes one byte of event n.
func flip(t *testing.T, dir string, n int) {
	edit(t, dir, n, func(before, from []byte) []byte {
		from[13] ^= 1
		return append(before, from...)
	})
}

// cut drops the log's events from n on, as a power failure does.
func cut(t *testing.T, dir string, n int) {
	edit(t, dir, n, func(before, _ []byte) []byte { return before })
	require.NoError(t, os.Remove(filepath.Join(dir, logMessages, "index.db")))
}

func (p *Plane) get(t *testing.T, path string) (status int, body string) {
	resp, err := http.Get("http://" + p.listeners.HTTP.Addr().String() + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, b.String()
}

// running is a plane on dir that runs until the test ends.
func running(t *testing.T, opt Options) *Plane {
	p, _ := runningUntil(t, opt)
	return p
}

// runningUntil is running, until stop or the test ends.
func runningUntil(t *testing.T, opt Options) (p *Plane, stop func()) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	ctx, cancel := context.WithCancel(context.Background())
	opt.HTTP, opt.Relaxed = "127.0.0.1:0", true
	p, err := Open(ctx, opt)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
		p.Close()
	})
	t.Cleanup(stop)
	return p, stop
}

// alarmed waits for the alarm and returns it.
func (p *Plane) alarmed(t *testing.T) error {
	require.Eventually(t, func() bool { return p.alarm.Raised() != nil }, 20*time.Second, time.Millisecond)
	return p.alarm.Raised()
}

func requireDamage(t *testing.T, err error, kind string, from, to uint64) {
	t.Helper()
	var d *streams.DamagedError
	require.ErrorAs(t, err, &d)
	require.Equal(t, [3]any{kind, from, to}, [3]any{d.Damage, d.From, d.To}, "%v", err)
	require.ErrorContains(t, err, "docs/recovery.md")
}

// requireDamageWithin holds damage that the fold finds, or before it the audit of what was
// folded, which may be behind it: above a sequence, up to the last that was folded.
func requireDamageWithin(t *testing.T, err error, kind string, above uint64) {
	t.Helper()
	var d *streams.DamagedError
	require.ErrorAs(t, err, &d)
	requireDamage(t, err, kind, d.From, d.To)
	require.Greater(t, d.From, above, "%v", err)
	require.LessOrEqual(t, d.To, uint64(folded), "%v", err)
}

func TestAWholeLogRaisesNoAlarm(t *testing.T) {
	for _, without := range [][]string{{}, {"store"}, {chainMessages}} {
		p := running(t, Options{Data: data(t, without...), NATSListen: "none", witnessEvery: 5 * time.Millisecond})
		require.NoError(t, p.store.Wait(t.Context(), folded))
		require.Eventually(t, func() bool { return p.witness.Last() == folded }, 20*time.Second, time.Millisecond)
		require.True(t, p.monitor.Audit(t.Context()))
		_, err := p.stream.PublishAll(t.Context(), nodes(folded+1, folded+10))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return p.witness.Last() == folded+10 }, 20*time.Second, time.Millisecond, "the head is witnessed as it moves")
		require.NoError(t, p.alarm.Raised())
	}
}

func TestAStopIsWitnessed(t *testing.T) {
	p := running(t, Options{Data: data(t), NATSListen: "none"})
	var seqs []uint64
	for _, l := range p.witness.Links() {
		seqs = append(seqs, l.Seq)
	}
	require.Equal(t, []uint64{1000, 2000, folded}, seqs)
}

// TestALogThatLostItsTailIsRefused: by the read model, which has seen the tail,
// and by the witness alone.
func TestALogThatLostItsTailIsRefused(t *testing.T) {
	for _, without := range [][]string{{}, {"store"}} {
		dir := data(t, without...)
		cut(t, dir, 2550)
		_, err := Open(t.Context(), Options{Data: dir, NoAPI: true, NATSListen: "none"})
		requireDamage(t, err, streams.DamageTruncated, 2550, folded)
	}
	dir := data(t, chainMessages)
	cut(t, dir, 2550)
	_, err := Open(t.Context(), Options{Data: dir, NoAPI: true, NATSListen: "none"})
	var other *projector.OtherLogError
	require.ErrorAs(t, err, &other)
	require.ErrorContains(t, err, "reaches sequence 2600, which the log lacks")
}

func TestALogThatIsGoneIsNotMadeAnew(t *testing.T) {
	dir := data(t, "store", "nats/jetstream/$G/streams/EDICT_LOG")
	_, err := Open(t.Context(), Options{Data: dir, NoAPI: true, NATSListen: "none"})
	requireDamage(t, err, streams.DamageGone, 0, folded)
}

// TestADamagedEventStopsARebuild: nothing above the last link that agreed is
// folded, not even what the server still reads.
func TestADamagedEventStopsARebuild(t *testing.T) {
	dir := data(t, "store")
	flip(t, dir, 1500)
	p := running(t, Options{Data: dir, NATSListen: "none"})
	requireDamage(t, p.alarmed(t), streams.DamageHole, 1500, 1500)
	require.EqualValues(t, 1000, p.store.Applied())

	status, body := p.get(t, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "lacks sequence 1500")
	status, _ = p.get(t, "/livez")
	require.Equal(t, http.StatusOK, status)
	_, body = p.get(t, "/metrics")
	require.Contains(t, body, "edict_log_damaged 1")
	status, _ = p.get(t, "/v1/nodes/node-2000/state")
	require.Equal(t, http.StatusServiceUnavailable, status, "a node that would be there is not said to be gone")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
		"http://"+p.listeners.HTTP.Addr().String()+"/v1/projects/"+project.String()+"/nodes/a", bytes.NewBufferString(`{"labels":{},"addresses":[]}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
}

// TestADamagedEventThatWasFoldedIsFoundByReading: the fold does not need it any
// more, the next worker will.
func TestADamagedEventThatWasFoldedIsFoundByReading(t *testing.T) {
	dir := data(t)
	flip(t, dir, 1500)
	p := running(t, Options{Data: dir, NATSListen: "none", witnessEvery: 5 * time.Millisecond})
	requireDamage(t, p.alarmed(t), streams.DamageHole, 1500, 1500)
}

// serves waits until the plane answers.
func (p *Plane) serves(t *testing.T) {
	require.Eventually(t, func() bool { return p.Ready(t.Context()) == nil }, 20*time.Second, time.Millisecond)
}

// external is a server that plays the operator's: it can be stopped and damaged
// while a plane runs on it.
type external struct {
	opt    streams.ServerOptions
	server *streams.Server
}

func startExternal(t *testing.T, dir string) *external {
	e := &external{opt: streams.ServerOptions{Dir: datadir.Dir(dir).NATS(), Listen: "127.0.0.1:0", Relaxed: true}}
	e.start(t)
	t.Cleanup(func() { e.server.Close() })
	return e
}

func (e *external) start(t *testing.T) {
	server, err := streams.StartServer(e.opt)
	require.NoError(t, err)
	e.server = server
	e.opt.Listen = server.ClientURL()[len("nats://"):]
}

func (e *external) js(t *testing.T) jetstream.JetStream {
	nc, err := nats.Connect(e.opt.Listen)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}

// worker is a plane on the external server, with the whole plane's read model.
func (e *external) worker(t *testing.T, dir string) Options {
	return Options{HTTP: "127.0.0.1:0", Data: dir, NATS: "nats://" + e.opt.Listen, SigningKey: datadir.Dir(dir).SigningKey(), witnessEvery: 20 * time.Millisecond}
}

func TestATailLostWhileAWorkerRunsIsFound(t *testing.T) {
	dir := data(t)
	e := startExternal(t, dir)
	p := running(t, e.worker(t, dir))
	p.serves(t)
	e.server.Close()
	cut(t, dir, 2550)
	e.start(t)
	requireDamageWithin(t, p.alarmed(t), streams.DamageTruncated, 2549)
	require.EqualValues(t, folded, p.store.Applied(), "the world is not smaller")
}

// TestATailThatGrewAgainIsFound: the sequences that were lost mean something
// else now.
func TestATailThatGrewAgainIsFound(t *testing.T) {
	dir := data(t, chainMessages)
	e := startExternal(t, dir)
	p := running(t, e.worker(t, dir))
	p.serves(t)
	require.Eventually(t, func() bool { return p.witness.Last() == folded }, 20*time.Second, time.Millisecond)
	e.server.Close()
	cut(t, dir, 2550)
	listen := e.opt.Listen
	e.opt.Listen = "" // the worker does not see the log until it has grown
	server, err := streams.StartServer(e.opt)
	require.NoError(t, err)
	conn, err := streams.Connect(t.Context(), streams.ConnectOptions{Server: server})
	require.NoError(t, err)
	log, err := streams.OpenLog(t.Context(), conn, streams.LogOptions{})
	require.NoError(t, err)
	_, err = log.PublishAll(t.Context(), nodes(5000, 5100))
	require.NoError(t, err)
	conn.Close()
	server.Close()
	e.opt.Listen = listen
	e.start(t)
	requireDamageWithin(t, p.alarmed(t), streams.DamageChanged, 2549)
	require.EqualValues(t, folded, p.store.Applied(), "what the sequences mean now is not folded")
}

func TestALogRemadeWhileAWorkerRunsIsFound(t *testing.T) {
	dir := data(t)
	e := startExternal(t, dir)
	p := running(t, e.worker(t, dir))
	p.serves(t)
	js := e.js(t)
	info, err := js.Stream(t.Context(), streams.LogStream)
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), streams.LogStream))
	_, err = js.CreateStream(t.Context(), info.CachedInfo().Config)
	require.NoError(t, err)
	// Whoever looks first finds it: the watch over the log, or the fold as it goes on.
	var other *projector.OtherLogError
	if err := p.alarmed(t); !errors.As(err, &other) {
		var d *streams.DamagedError
		require.ErrorAs(t, err, &d)
		require.Contains(t, []string{streams.DamageOther, streams.DamageGone}, d.Damage, "gone: it looked between the two")
	}
	require.EqualValues(t, folded, p.store.Applied())
}

// A log that goes between a start and its fold raises the alarm; a process that ended would
// only be started again.
func TestALogThatGoesBeforeTheFoldBeginsIsFound(t *testing.T) {
	dir := data(t)
	e := startExternal(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	opt := e.worker(t, dir)
	opt.HTTP, opt.Relaxed = "127.0.0.1:0", true
	p, err := Open(ctx, opt)
	require.NoError(t, err)
	require.NoError(t, e.js(t).DeleteStream(t.Context(), streams.LogStream))
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		p.Close()
	})
	requireDamage(t, p.alarmed(t), streams.DamageGone, 0, 0)
}

// TestARemovedEventIsFound removes one from a log whose settings were made to
// allow that, and put right again.
func TestARemovedEventIsFound(t *testing.T) {
	dir := data(t, "store", "nats/jetstream/$G/streams/EDICT_LOG", chainMessages)
	e := startExternal(t, dir)
	js := e.js(t)
	cfg := jetstream.StreamConfig{
		Name: streams.LogStream, Subjects: []string{"edict.log.*.policy.*", "edict.log.*.node.*"}, Discard: jetstream.DiscardNew,
		Duplicates: 2 * time.Minute, AllowDirect: true, AllowAtomicPublish: true, DenyPurge: true,
		Metadata: map[string]string{"edict.partitions": "64"},
	}
	stream, err := js.CreateStream(t.Context(), cfg)
	require.NoError(t, err)
	for _, a := range nodes(1, 20) {
		_, err := js.Publish(t.Context(), wire.Subject(a.Event), policy.Append(nil, a.Event))
		require.NoError(t, err)
	}
	require.NoError(t, stream.DeleteMsg(t.Context(), 7))
	cfg.DenyDelete = true
	_, err = js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	_, err = Open(t.Context(), e.worker(t, dir))
	requireDamage(t, err, streams.DamageHole, 1, 20)
}

// An event whose producer knows a schema of tomorrow is no damage: to the fold,
// to who reads the log, or to the next start.
func TestAnEventOfTomorrowRaisesNoAlarm(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p, err := Open(ctx, Options{Data: dir, NoAPI: true, NATSListen: "none", Relaxed: true, witnessEvery: 5 * time.Millisecond})
			require.NoError(t, err)
			defer p.Close()
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			nc, err := nats.Connect("", nats.InProcessServer(p.server))
			require.NoError(t, err)
			defer nc.Close()
			js, err := jetstream.New(nc)
			require.NoError(t, err)
			m := nats.NewMsg(fmt.Sprintf("edict.log.%s.node.m", project))
			m.Data = policy.Append(nil, policy.NodeUpdated{ID: uuid.New(), Project: project, Node: "m"})
			m.Header.Set(wire.HeaderDataSchema, "edict/v6")
			ack, err := js.PublishMsg(ctx, m)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return p.witness.Last() == ack.Sequence }, 20*time.Second, time.Millisecond)
			require.True(t, p.monitor.Audit(ctx))
			require.NoError(t, p.alarm.Raised())
			cancel()
			require.NoError(t, <-ended)
		}()
	}
}

// TestAFoldThatStandsAtNothingShowsNoEmptyWorld: the read model is gone and the
// log is not the one that was witnessed.
func TestAFoldThatStandsAtNothingShowsNoEmptyWorld(t *testing.T) {
	dir := data(t, "store", chainMessages)
	server, err := streams.StartServer(streams.ServerOptions{Dir: filepath.Join(dir, "nats"), Relaxed: true})
	require.NoError(t, err)
	conn, err := streams.Connect(t.Context(), streams.ConnectOptions{Server: server})
	require.NoError(t, err)
	log, err := streams.OpenLog(t.Context(), conn, streams.LogOptions{})
	require.NoError(t, err)
	chain, err := streams.OpenChain(t.Context(), conn)
	require.NoError(t, err)
	_, err = chain.Append(t.Context(), 0, streams.Link{Log: log.ID(), Seq: folded, Hash: [32]byte{1}})
	require.NoError(t, err)
	conn.Close()
	server.Close()

	p := running(t, Options{Data: dir, NATSListen: "none"})
	requireDamage(t, p.alarmed(t), streams.DamageChanged, 1, folded)
	require.Zero(t, p.store.Applied())
	status, body := p.get(t, fmt.Sprintf("/v1/projects/%s/nodes", project))
	require.Equal(t, http.StatusServiceUnavailable, status, body)
	require.Contains(t, body, "log_unavailable")
	status, _ = p.get(t, "/v1/status")
	require.Equal(t, http.StatusOK, status, "who operates the plane sees how far it is")
}

// TestBytesOfTheLogThatChangedAreFoundBeforeTheServerReadsThem: one of an event's
// body, and one of a sequence, from which the server would count up to there.
func TestBytesOfTheLogThatChangedAreFoundBeforeTheServerReadsThem(t *testing.T) {
	for name, harm := range map[string]func(before, from []byte) []byte{
		"body": func(before, from []byte) []byte {
			from[13] ^= 1
			return append(before, from...)
		},
		"sequence": func(before, from []byte) []byte {
			before[bytes.LastIndex(before, []byte("edict.log."))-22+4+5] ^= 1
			return append(before, from...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := data(t)
			edit(t, dir, 1500, harm)
			_, err := Open(t.Context(), Options{Data: dir, NoAPI: true, NATSListen: "none"})
			requireDamage(t, err, streams.DamageHole, 1500, 1500)
		})
	}
}
