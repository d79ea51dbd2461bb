package relay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
	"github.com/stretchr/testify/require"
)

// process is a running relay on the fakes, inside a bubble.
type process struct {
	*Relay
	store *fakeStore
	ring  *ring // set aside by reach
	stop  func()
}

// start runs a relay that is stopped with the test. The store folds only when
// it is told to.
func (w *world) start(t *testing.T, store *fakeStore, opt Options) *process {
	t.Helper()
	opt.Partitions = worldParts
	ctx, cancel := context.WithCancel(t.Context())
	open := func(_ context.Context, above uint64) (Stream, error) { return w.server.open(), nil }
	r := New(store, open, artifact.NewKeyring(w.signer), epoch, opt)
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	p := &process{Relay: r, store: store, stop: func() {
		once.Do(func() {
			cancel()
			require.NoError(t, <-done)
		})
	}}
	t.Cleanup(p.stop)
	return p
}

// events is what one node's client receives.
type events struct {
	mu     sync.Mutex
	header http.Header
	status int
	buf    bytes.Buffer
	block  chan struct{} // when set, writes wait for it
	done   chan error
	cancel func()
}

func (e *events) Header() http.Header              { return e.header }
func (e *events) WriteHeader(status int)           { e.status = status }
func (e *events) Flush()                           {}
func (e *events) SetWriteDeadline(time.Time) error { return nil }
func (e *events) Write(b []byte) (int, error) {
	if e.block != nil {
		<-e.block
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.buf.Write(b)
}

// connect opens a stream; last is the Last-Event-ID, "" none.
func (p *process) connect(t *testing.T, node policy.NodeID, last string) *events {
	return p.connectTo(t, node, last, nil)
}

func (p *process) connectTo(t *testing.T, node policy.NodeID, last string, block chan struct{}) *events {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	e := &events{header: http.Header{}, done: make(chan error, 1), cancel: cancel, block: block}
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/nodes/x/events", nil)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	go func() { e.done <- p.ServeEvents(e, req, node) }()
	t.Cleanup(cancel)
	return e
}

// frame is one event as an agent takes it apart.
type frame struct {
	id     uint64
	event  string
	notice artifact.Notice
}

// frames parses what came so far as agents do: lines of a bufio.Scanner with
// its default buffer, data lines joined by line feeds.
func (e *events) frames(t *testing.T) (out []frame) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	trust := artifact.NewTrustSet()
	trust.Add(artifact.PlanePolicy, testSigner.KeyID(), testSigner.PublicKey(), time.Time{})
	lines := bufio.NewScanner(bytes.NewReader(e.buf.Bytes()))
	var f frame
	var data []string
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			f.id, _ = strconv.ParseUint(value, 10, 64)
		case "event":
			f.event = value
		case "data":
			data = append(data, value)
		case "":
			if len(data) == 0 {
				continue
			}
			n, err := trust.Check([]byte(strings.Join(data, "\n")), time.Now())
			require.NoError(t, err)
			f.notice = n
			out = append(out, f)
			f, data = frame{}, nil
		}
	}
	require.NoError(t, lines.Err(), "no line is longer than an agent reads")
	return out
}

func (e *events) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.buf.String()
}

// kinds are the frames in short: "pull@ID", or "P<policy>=<rules>@ID".
func (e *events) kinds(t *testing.T) (out []string) {
	for _, f := range e.frames(t) {
		at := "@" + strconv.FormatUint(f.id, 10)
		if f.event == eventStateUpdated {
			out = append(out, "pull"+at)
			continue
		}
		p, err := artifact.ParsePolicyPayload(f.notice.Payload)
		require.NoError(t, err)
		require.NoError(t, p.Verify())
		what := "gone"
		for i, r := range rulesets {
			if r.Fingerprint == p.Fingerprint {
				what = "rules" + strconv.Itoa(i)
			}
		}
		for i, id := range policyIDs {
			if id == p.PolicyID {
				out = append(out, "P"+strconv.Itoa(i)+"="+what+at)
			}
		}
	}
	return out
}

// without leaves ids out, for tests that do not care.
func without(kinds []string) (out []string) {
	for _, k := range kinds {
		name, _, _ := strings.Cut(k, "@")
		out = append(out, name)
	}
	return out
}

func TestAnEventReachesEveryStreamItConcernsAndNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		p := w.start(t, newFakeStore(w.log), Options{})
		w.label(0, 0)
		w.label(1, 1)
		p.store.foldAll()
		synctest.Wait()
		require.NoError(t, p.Ready())
		a, b := p.connect(t, nodeIDs[0], ""), p.connect(t, nodeIDs[1], "")
		synctest.Wait()
		require.Equal(t, http.StatusOK, a.status)
		require.Equal(t, "text/event-stream", a.header.Get("Content-Type"))
		require.Equal(t, "no-cache", a.header.Get("Cache-Control"))
		require.Equal(t, "v1", a.header.Get("X-Plexsphere-API-Version"))
		require.Equal(t, "no", a.header.Get("X-Accel-Buffering"))
		w.revise(0, 1, 1)
		p.store.foldAll()
		synctest.Wait()
		w.revise(0, 2, 2)
		p.store.foldAll()
		synctest.Wait()
		require.Equal(t, []string{"P0=rules1", "P0=gone"}, without(a.kinds(t)))
		require.Equal(t, []string{"P0=rules2"}, without(b.kinds(t)))
		f := a.frames(t)[0]
		require.Equal(t, "node:n0", f.notice.Scope)
		require.Equal(t, "n0."+policyIDs[0].String()+".3", f.notice.ID)
		require.Equal(t, eventPolicyUpdated, f.notice.Type)
		require.Equal(t, f.event, f.notice.Type)
		w.clean(t)
	})
}

func TestASilentStreamCarriesACommentEvery25Seconds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		p := w.start(t, newFakeStore(w.log), Options{})
		synctest.Wait()
		e := p.connect(t, nodeIDs[0], "")
		time.Sleep(76 * time.Second)
		require.Equal(t, strings.Repeat(":keep-alive\n\n", 3), e.text())
	})
}

func TestAStreamIsRefusedBeforeTheHubIsReadyAndWhileTheGateIsLongShut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		owner := w.start(t, newFakeStore(w.log), Options{})
		w.label(0, 0)
		w.revise(0, 1, 1)
		owner.store.foldAll()
		synctest.Wait()
		late := w.start(t, newFakeStore(w.log), Options{Announce: []int{}})
		synctest.Wait()
		var notReady *NotReadyError
		require.ErrorAs(t, late.Ready(), &notReady)
		require.ErrorAs(t, <-late.connect(t, nodeIDs[0], "").done, &notReady)
		late.store.foldAll()
		synctest.Wait()
		require.NoError(t, late.Ready())
		w.revise(0, 1, 2)
		owner.store.foldAll()
		time.Sleep(9 * time.Second)
		require.NoError(t, late.Ready(), "a gate may be shut for a while")
		before, _ := late.Position()
		time.Sleep(2 * time.Second)
		require.ErrorAs(t, late.Ready(), &notReady)
		late.store.foldAll()
		synctest.Wait()
		require.NoError(t, late.Ready())
		after, _ := late.Position()
		require.Greater(t, after, before)
	})
}

func TestAnAnnouncementIsReleasedOnlyWhenTheOwnRowsHoldIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		owner := w.start(t, newFakeStore(w.log), Options{})
		other := w.start(t, newFakeStore(w.log), Options{Announce: []int{}})
		w.label(0, 0)
		owner.store.foldAll()
		other.store.foldAll()
		synctest.Wait()
		e := other.connect(t, nodeIDs[0], "")
		w.revise(0, 1, 1)
		owner.store.foldAll()
		synctest.Wait()
		require.Empty(t, e.kinds(t))
		other.store.foldAll()
		synctest.Wait()
		require.Equal(t, []string{"P0=rules1"}, without(e.kinds(t)))
	})
}

func TestAReaderThatStandsStillHoldsNobodyUpAndGetsTheNewestOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		p := w.start(t, newFakeStore(w.log), Options{})
		w.label(0, 0)
		p.store.foldAll()
		synctest.Wait()
		block := make(chan struct{})
		slow, quick := p.connectTo(t, nodeIDs[0], "", block), p.connect(t, nodeIDs[0], "")
		synctest.Wait()
		w.revise(0, 1, 1)
		p.store.foldAll()
		synctest.Wait() // slow is stuck in the first write
		for i := range 6 {
			w.revise(0, 1, 1+(i+1)%2)
			w.revise(1, 1, 1+i%2)
			p.store.foldAll()
			synctest.Wait()
		}
		require.Len(t, quick.frames(t), 1+6+6)
		close(block)
		synctest.Wait()
		require.Equal(t, []string{"P0=rules1", "P0=rules1", "P1=rules2"}, without(slow.kinds(t)))
		f := slow.frames(t)
		require.Less(t, f[0].id, f[1].id)
		require.Less(t, f[1].id, f[2].id)
	})
}

func TestARemadeStreamEndsLiveStreamsAndIsFilledAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		p := w.start(t, newFakeStore(w.log), Options{})
		w.label(0, 0)
		w.revise(0, 1, 1)
		p.store.foldAll()
		synctest.Wait()
		e := p.connect(t, nodeIDs[0], "")
		synctest.Wait()
		w.server.remake()
		require.NoError(t, <-e.done, "its client comes back and resumes")
		time.Sleep(15 * time.Second)
		require.NoError(t, p.Ready())
		at, _ := p.Position()
		require.Greater(t, at, w.server.first)
		w.checkConverged()
		w.clean(t)
		again := p.connect(t, nodeIDs[0], strconv.FormatUint(w.server.first-500, 10))
		synctest.Wait()
		require.Equal(t, []string{"pull@" + strconv.FormatUint(w.server.first-1, 10)}, again.kinds(t)[:1])
		require.Equal(t, []string{"pull", "P0=rules1"}, without(again.kinds(t)))
	})
}

// captured are the log lines of a test.
type captured struct {
	slog.Handler
	mu    sync.Mutex
	codes []string
}

func (c *captured) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "code" {
			c.codes = append(c.codes, a.Value.String())
		}
		return true
	})
	return nil
}
func (c *captured) Enabled(context.Context, slog.Level) bool { return true }

func (c *captured) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.codes)
}

func TestOfTwoProcessesThatAnnounceEverythingTheLoserWaitsAndSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		lines := &captured{}
		a := w.start(t, newFakeStore(w.log), Options{Log: slog.New(lines)})
		w.label(0, 0)
		w.label(1, 0)
		a.store.foldAll()
		synctest.Wait()
		b := w.start(t, newFakeStore(w.log), Options{})
		b.store.foldAll()
		synctest.Wait()
		for _, s := range a.status(t) {
			require.Equal(t, b.Owner(), s.Owner, "the younger claims it, as a restarted process must")
			require.Equal(t, uint64(2), s.Epoch)
		}
		w.revise(0, 1, 1)
		a.store.foldAll()
		b.store.foldAll()
		synctest.Wait()
		time.Sleep(2 * gatherLosses)
		synctest.Wait()
		require.Equal(t, []string{"partition_contested"}, lines.seen(), "one line for many")
		require.True(t, a.status(t)[0].Contested)
		require.Equal(t, b.Owner(), a.status(t)[0].Owner, "not before 10 seconds")
		time.Sleep(11 * time.Second)
		require.Equal(t, a.Owner(), b.status(t)[0].Owner)
		w.checkConverged()
		w.clean(t)
	})
}

func TestARunWithLostAcknowledgementsAndRefusalsTellsEverythingOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		n := 0
		w.server.fate = func([]streams.Outgoing) fate {
			n++
			return []fate{deliver, busy, loseAck, tooLarge, loseAll, delay, deliver}[n%7]
		}
		p := w.start(t, newFakeStore(w.log), Options{Lanes: 2})
		for i := range 40 {
			w.label(i%worldNodes, i%3)
			w.revise(i%worldPolicies, 1+i%7, 1+i%2)
			p.store.fold()
			time.Sleep(time.Second)
			if i%5 == 0 {
				w.server.land(i)
			}
		}
		p.store.foldAll()
		time.Sleep(2 * time.Minute)
		w.checkConverged()
		w.clean(t)
	})
}

func TestADayMarkIsWrittenOnceADay(t *testing.T) {
	for _, processes := range []int{1, 2} {
		bubble(t, func(t *testing.T) {
			w := newWorld(0, 0)
			for range processes {
				w.start(t, newFakeStore(w.log), Options{})
			}
			time.Sleep(3*day + time.Hour)
			w.server.mu.Lock()
			defer w.server.mu.Unlock()
			marks := w.server.selectLocked(0, w.server.last, []string{allDays})
			require.Len(t, marks, 4)
			require.Equal(t, streams.DayMarkSubject(time.Now()), marks[3].Subject)
			require.WithinDuration(t, marks[3].Time.Add(dayMarkTTL), w.server.expires[marks[3].Subject], 0)
		})
	}
}

func TestEdgesAreDroppedAsFencesPass(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		p := w.start(t, newFakeStore(w.log), Options{})
		for n := range nodeIDs {
			w.label(n, 0)
		}
		p.store.foldAll()
		synctest.Wait()
		for i := range 5 {
			w.revise(0, 1, 1+i%2)
			p.store.foldAll()
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.Equal(t, uint64(8), p.store.state.from[0], "whole sequences below after.seq, 9")
		require.Equal(t, []int{1, 1}, p.Edges())
		require.Zero(t, p.status(t)[0].Edges, "the edge that is kept is told")
		w.clean(t)
	})
}

func (p *process) Edges() []int { return p.store.Edges() }

func (p *process) status(t *testing.T) []PartitionStatus {
	all, err := p.Partitions()
	require.NoError(t, err)
	return all
}

func TestAStoreThatCannotBeReadEndsTheRelay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(0, 0)
		store := newFakeStore(w.log)
		w.label(0, 0)
		w.revise(0, 1, 1)
		store.foldAll()
		r := New(brokenStore{store}, func(context.Context, uint64) (Stream, error) { return w.server.open(), nil }, artifact.NewKeyring(w.signer), epoch, Options{Partitions: worldParts})
		require.ErrorIs(t, r.Run(t.Context()), errBroken)
	})
}

var errBroken = errors.New("broken")

// brokenStore has no payloads.
type brokenStore struct{ *fakeStore }

func (s brokenStore) SyncRows(partitions []int) (projector.SyncRows, Outbox) {
	rows, box := s.fakeStore.SyncRows(partitions)
	return rows, brokenBox{box}
}

type brokenBox struct{ Outbox }

func (brokenBox) Payload(compiler.Fingerprint) ([]byte, error) { return nil, errBroken }
