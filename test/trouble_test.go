package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/check"
	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/internal/test/watch"
)

// What the promises must survive (docs/protocol.md): faults that real processes
// meet while authors write and nodes follow, over SSE, over NATS and by agents
// of the field. What every node met is judged by package check at the end of each.
var long = flag.Bool("trouble.long", false, "faults as long and as large as make test-faults has them")

// upTo is the first, or with -trouble.long the second.
func upTo[T any](short, full T) T {
	if *long {
		return full
	}
	return short
}

// trouble is a plane under load, whose nodes are recorded.
type trouble struct {
	t       *testing.T
	workers []*process
	nodes   []string
	at      []atomic.Int64 // of each node, the worker that it follows
	turns   int            // how often authors began
	writing *writing
	before  []*writing // whose writes still stand
	rec     *recorder
}

// inTrouble starts authors, with two nodes each, and whoever follows those.
func inTrouble(t *testing.T, servers string, workers []*process, authors int) *trouble {
	t.Helper()
	if *long { // much is recorded, and kept until it is judged
		debug.SetGCPercent(100)
	}
	x := &trouble{t: t, workers: workers, at: make([]atomic.Int64, 2*authors)}
	for i := range x.at {
		x.nodes = append(x.nodes, fmt.Sprintf("n%d", i))
		x.at[i].Store(int64(i % len(workers)))
	}
	x.write()
	x.rec = record(t, servers, watch.Keys(workers[0].publicKeys()), x.nodes, x.base)
	return x
}

// write has authors begin who know nothing of those before.
func (x *trouble) write() {
	x.turns++
	var all []*author
	for i := 0; i < len(x.nodes); i += 2 {
		name := fmt.Sprintf("author-%d-%d", x.turns, i)
		all = append(all, newAuthor(name, *crashSeed+uint64(x.turns*100+i), x.nodes[i:i+2], func() string { return x.base(0) }))
	}
	x.writing = startWriting(x.t.Context(), upTo(10*time.Millisecond, 3*time.Millisecond), all...)
}

// base is where a node follows now. Authors write where the first one does.
func (x *trouble) base(node int) string { return "http://" + x.workers[x.at[node].Load()].http }

// moves has every node go on at a worker.
func (x *trouble) moves(worker int) {
	for i := range x.at {
		x.at[i].Store(int64(worker))
	}
}

// goesOn waits for so many more acknowledged writes.
func (x *trouble) goesOn(writes int64) {
	x.t.Helper()
	from := x.writing.acked.Load()
	patience := time.Minute + time.Duration(writes)*100*time.Millisecond
	require.True(x.t, waitFor(patience, func() bool { return x.writing.acked.Load() >= from+writes }), "writing goes on")
}

// judged ends the writing, waits until everybody has heard of everything, and
// judges what was met.
func (x *trouble) judged() *check.Run {
	x.t.Helper()
	x.writing.end()
	x.writing.mark(x.t.Context())
	facts := &oracle.Plane{}
	for _, l := range append(x.before, x.writing) {
		l.add(x.t, facts)
	}
	run := x.rec.judge(facts, x.workers, x.writing.lost)
	x.t.Logf("%d events, %d writes acknowledged, %d sessions, %d messages on NATS", len(run.Log), x.writing.acked.Load(), sessions(run), len(run.Heard))
	return run
}

// twoWorkers are a cluster of one NATS server with two workers of the built binary.
func twoWorkers(t *testing.T, args ...string) *cluster {
	c := newCluster(t, 1, 2*time.Second)
	c.work(args...)
	c.work(args...)
	return c
}

// TestAWorkerIsKilledInTheMiddleOfARound kills one worker after the other at
// moments at which it has just begun to tell a policy to all its nodes.
func TestAWorkerIsKilledInTheMiddleOfARound(t *testing.T) {
	t.Parallel()
	c := twoWorkers(t)
	c.workers[0].divided(2)
	x := inTrouble(t, c.url, c.workers, upTo(2, 4))
	c.workers[0].labelMany("c", upTo(150, 1000), `{"host":"h"}`) // so that a round takes a while
	for i := range upTo(2, 30) {
		dies, stays := i%2, 1-i%2
		x.moves(stays)
		x.goesOn(20)
		x.at[1].Store(int64(dies)) // and some follow the one that dies
		x.at[2].Store(int64(dies))
		c.workers[stays].authorFor(fmt.Sprintf("round-%d", i), "host", tcp(1+i))
		pauseFor(t.Context(), time.Duration(i%7)*time.Millisecond)
		c.workers[dies].kill()
		x.goesOn(20)
		c.workers[dies].start()
	}
	x.judged()
}

// TestAWorkerSleepsThroughTheEndOfItsLease stops one worker of two for longer
// than its lease, with streams open at it. What it says when it wakes up is as
// true as what the other said meanwhile.
func TestAWorkerSleepsThroughTheEndOfItsLease(t *testing.T) {
	t.Parallel()
	c := twoWorkers(t)
	c.workers[0].divided(2)
	tr := watchTrail(t, c.conn)
	x := inTrouble(t, c.url, c.workers, upTo(2, 4))
	x.at[0].Store(0)
	for range upTo(1, 3) {
		x.goesOn(upTo[int64](20, 50))
		c.workers[1].signal(syscall.SIGSTOP)
		require.True(t, waitFor(30*time.Second, func() bool { return c.workers[0].even(1) }), "the other publishes everything")
		pauseFor(t.Context(), upTo(0, time.Minute))
		x.goesOn(upTo[int64](20, 100))
		c.workers[1].signal(syscall.SIGCONT)
		c.workers[0].divided(2)
	}
	x.goesOn(upTo[int64](20, 50))
	x.judged()
	tr.sound(t)
}

// TestTwoPublishersOfOnePartition has two workers that were both asked to publish
// everything. Both say the same, and who listens drops what it knows.
func TestTwoPublishersOfOnePartition(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2*time.Second)
	c.work("--partitions", "0-63")
	c.work("--partitions", "0-63")
	tr := watchTrail(t, c.conn)
	x := inTrouble(t, c.url, c.workers, upTo(2, 4))
	began := time.Now()
	for time.Since(began) < upTo(time.Second, 10*time.Second) {
		x.goesOn(upTo[int64](20, 50))
	}
	require.True(t, waitFor(20*time.Second, func() bool { return tr.again() > 50 }), "both publish: %d messages twice", tr.again())
	x.judged()
	tr.sound(t)
}

// again is how many messages were heard twice.
func (tr *trail) again() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.twice
}

// TestAHubThatCannotKeepUp has as many streams that read nothing as streams that
// read, and a hub that may hold next to nothing. It drops what it holds, and
// nobody misses anything.
func TestAHubThatCannotKeepUp(t *testing.T) {
	t.Parallel()
	p := serve(t, "--hub-bytes", "16KiB")
	x := inTrouble(t, "nats://"+p.nats, []*process{p}, upTo(2, 4))
	n := upTo(16, 1000)
	p.labelMany("n", n, `{"n":"h1"}`)
	for i := range n {
		p.opened(fmt.Sprintf("n-%d", i)) // and never read
		reads := p.opened(fmt.Sprintf("n-%d", i))
		go func() { _, _ = io.Copy(io.Discard, reads) }() // until it is closed
	}
	dropped := func() float64 { return p.scrape().values["edict_hub_dropped_total{}"] }
	large := newAuthor("large", *crashSeed, nil, func() string { return x.base(0) })
	x.before = []*writing{{authors: []*author{large}}}
	for i := range upTo(4, 50) { // each is more than the hub may hold, and for every node
		large.write(t.Context(), "large", "n", manyRules(200+i))
		x.goesOn(5)
	}
	require.NotZero(t, dropped(), "it drops what it holds")
	x.goesOn(upTo[int64](20, 100))
	x.judged()
	t.Logf("%v events dropped", dropped())
}

// authorFor makes a policy for the nodes of a selector, none of which is recorded.
func (p *process) authorFor(slug, source string, rules ...oracle.Rule) {
	p.t.Helper()
	p.do("POST", "/v1/projects/"+defaultProject+"/policies", map[string]any{
		"slug": slug, "display_name": slug, "selector": map[string]string{"source": source, "destination": "role=nobody"}, "rules": spelled(rules),
	}, 201)
}

// opened is a node's stream of which nothing is read but the first line.
func (p *process) opened(node string) net.Conn {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.http)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { conn.Close() })
	require.NoError(p.t, conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = fmt.Fprintf(conn, "GET /v1/nodes/%s/events HTTP/1.1\r\nHost: %s\r\n\r\n", node, p.http)
	require.NoError(p.t, err)
	line, err := bufio.NewReaderSize(conn, 64).ReadString('\n')
	require.NoError(p.t, err)
	require.Contains(p.t, line, "200")
	return conn
}

// TestAWindowThatIsOver has a node come back from before the kept past, because
// time has passed or because there was no room: it is asked to pull. Who comes back
// from within it is sent what it missed.
func TestAWindowThatIsOver(t *testing.T) {
	windows := map[string][]string{"a MiB": {"--past-bytes", "1MiB"}}
	if *long {
		windows["a minute"] = []string{"--past", time.Minute.String()}
	}
	for name, flags := range windows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, flags...)
			x := inTrouble(t, "nats://"+p.nats, []*process{p}, upTo(1, 3))
			keys := p.publicKeys()
			_, left := p.state(x.nodes[0])
			from := p.status("").Head
			i := 0
			require.True(t, waitFor(3*time.Minute, func() bool {
				if flags[0] == "--past-bytes" {
					p.relabelMany(i)
				}
				i++
				x.goesOn(20)
				return p.status("").Past.From > from
			}), "the past reaches back to %d, %d is left", p.status("").Past.From, from)
			require.True(t, p.frames(x.nodes[0], left.String(), 1, keys)[0].Pull, "before the window: a word, not silence")
			if flags[0] == "--past-bytes" {
				require.NotZero(t, p.status("").Past.Dropped)
			}
			past := p.status("").Past.From
			p.kill()
			p.start()
			require.GreaterOrEqual(t, p.status("").Past.From, past, "the past does not grow back")
			require.True(t, p.frames(x.nodes[0], left.String(), 1, keys)[0].Pull)
			x.judged()
		})
	}
}

// relabelMany gives many nodes other labels, which are long.
func (p *process) relabelMany(round int) {
	p.t.Helper()
	labels := map[string]string{"round": strconv.Itoa(round)}
	for i := range 10 {
		labels[fmt.Sprint("fill-", i)] = strings.Repeat("x", 100)
	}
	text, err := json.Marshal(labels)
	require.NoError(p.t, err)
	p.labelMany("m", upTo(200, 1000), string(text))
}

// labelMany gives nodes labels, all the same.
func (p *process) labelMany(name string, n int, labels string) {
	p.t.Helper()
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `{"id":"%s-%d","labels":%s,"addresses":[]}`+"\n", name, i, labels)
	}
	p.batch(&b)
}

// TestALogThatLostItsTail puts the log back to what it was a while ago, as a
// lying disk does, while nodes know of what came after. Once that is accepted,
// ids of what was lost mean nothing, and everybody pulls.
func TestALogThatLostItsTail(t *testing.T) {
	t.Parallel()
	p := serve(t)
	x := inTrouble(t, "nats://"+p.nats, []*process{p}, upTo(1, 3))
	x.goesOn(upTo[int64](20, 50))
	x.writing.end()
	p.terminate()
	logs, kept := filepath.Join(p.data, "nats"), filepath.Join(t.TempDir(), "nats")
	require.NoError(t, os.CopyFS(kept, os.DirFS(logs)))
	p.start()
	stands := x.writing
	x.before = []*writing{stands}
	x.write()
	x.goesOn(upTo[int64](20, 50))
	x.judged()
	p.kill()
	require.NoError(t, os.RemoveAll(logs))
	require.NoError(t, os.CopyFS(logs, os.DirFS(kept)))
	p.launch()
	require.True(t, waitFor(30*time.Second, p.ended), "nobody is served from such a log")
	_, code := p.run("log", "accept", "--log", p.data, "--yes")
	require.Zero(t, code)
	p.start()
	x.before = []*writing{stands}
	x.write()
	x.rec.begin()
	x.goesOn(upTo[int64](20, 50))
	x.pulled(x.judged())
}

// TestABackupThatIsPutBack puts the whole data directory back to what it was a
// while ago. Nothing is damaged and nobody is asked, and yet ids of what came
// after mean nothing, and everybody pulls.
func TestABackupThatIsPutBack(t *testing.T) {
	t.Parallel()
	p := serve(t)
	x := inTrouble(t, "nats://"+p.nats, []*process{p}, upTo(1, 3))
	x.goesOn(upTo[int64](20, 50))
	x.writing.end()
	p.terminate()
	backup := filepath.Join(t.TempDir(), "backup")
	copyData(t, p.data, backup)
	p.start()
	stands := x.writing
	x.before = []*writing{stands}
	x.write()
	x.goesOn(upTo[int64](20, 50))
	x.judged()
	p.kill()
	copyData(t, backup, p.data)
	p.start()
	x.before = []*writing{stands}
	x.write()
	x.rec.begin()
	x.goesOn(upTo[int64](20, 50))
	x.pulled(x.judged())
}

// pulled wants everybody who came with an id to have pulled first.
func (x *trouble) pulled(run *check.Run) {
	x.t.Helper()
	pulls := 0
	for _, w := range run.Records {
		for _, s := range w.Sessions {
			if s.Pull || len(s.Frames) > 0 && s.Frames[0].Pull {
				pulls++
				break
			}
		}
	}
	require.GreaterOrEqual(x.t, pulls, 2*len(x.nodes), "over SSE and over NATS")
}

// TestALogThatIsMadeAnew wipes everything but the key, while clients keep their
// ids: of those the new log knows nothing, and everybody pulls.
func TestALogThatIsMadeAnew(t *testing.T) {
	t.Parallel()
	p := serve(t)
	x := inTrouble(t, "nats://"+p.nats, []*process{p}, upTo(1, 3))
	x.goesOn(upTo[int64](20, 50))
	before := x.judged()
	p.kill()
	for _, name := range []string{"nats", "store"} {
		require.NoError(t, os.RemoveAll(filepath.Join(p.data, name)))
	}
	p.start()
	x.write()
	x.rec.begin()
	x.goesOn(upTo[int64](20, 50))
	after := x.judged()
	x.pulled(after)
	require.Greater(t, after.Base, before.Base+uint64(len(before.Log)), "ids of the two logs never meet")
}

// TestAWorkerThatIsFarBehind stops a worker, has the log grow, and asks the worker
// to resume from beyond what it has folded, once it runs again. It waits for
// its fold, or says that it is behind: it never takes the id for one of another
// log, and never stays silent about what comes.
func TestAWorkerThatIsFarBehind(t *testing.T) {
	t.Parallel()
	c := twoWorkers(t)
	leads, lags := c.workers[0], c.workers[1]
	leads.divided(2)
	x := inTrouble(t, c.url, c.workers, 2)
	x.moves(0)
	keys := leads.publicKeys()
	x.goesOn(20)
	lags.signal(syscall.SIGSTOP)
	for i := range upTo(2, 100) {
		leads.relabelMany(i)
	}
	_, at := leads.state(x.nodes[0])
	lags.signal(syscall.SIGCONT)
	x.moves(1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for met := false; !met; {
		err := stream(ctx, lags, x.nodes[0], at.String(), keys, func(m received) bool {
			require.False(t, m.Pull, "the id is one of this log's")
			met = true
			return false
		})
		require.NoError(t, ctx.Err(), "the last answer: %v", err)
	}
	x.goesOn(upTo[int64](20, 50))
	x.judged()
}

// TestAKeyIsRotatedInAStorm rotates the plane's key while authors write and all
// streams are cut and opened again and again.
func TestAKeyIsRotatedInAStorm(t *testing.T) {
	t.Parallel()
	p := serve(t)
	x := inTrouble(t, "nats://"+p.nats, []*process{p}, upTo(2, 16))
	x.goesOn(upTo[int64](20, 50))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // some come and go without a word
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+i%20)*time.Millisecond)
				_ = watch.Stream(ctx, http.DefaultClient, x.base(0)+"/v1/nodes/"+x.nodes[i%len(x.nodes)]+"/events", "0", maps.Clone(x.rec.keys), func(received) bool { return true })
				cancel()
			}
		}
	}()
	_, code := p.run("key", "rotate", "--transition", "5m")
	require.Zero(t, code)
	x.goesOn(upTo[int64](80, 2000))
	close(stop)
	<-done
	x.judged()
	require.Len(t, p.publicKeys(), 2)
}
