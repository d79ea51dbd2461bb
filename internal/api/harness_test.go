package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/contract"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

const (
	project = "00000000-0000-4000-8000-000000000000"
	other   = "00000000-0000-4000-8000-00000000000f"
	nowhere = "99999999-9999-4999-8999-999999999999"
)

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// memLog is a log in memory with the real fold behind it. While it is held,
// what is published stays unfolded.
type memLog struct {
	mu    sync.Mutex
	fold  *projector.Projector
	msgs  []streams.Message
	ids   map[uuid.UUID]uint64
	held  []streams.Message
	hold  bool
	fails error // of every call
	reads int   // of the head

	maxBytes uint64

	traces []string // of what was published
}

func (l *memLog) Created() time.Time { return epoch }

func (l *memLog) State(context.Context) (streams.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	n := uint64(len(l.msgs))
	return streams.State{First: 1, Last: n, Messages: n, Bytes: 100 * n, MaxBytes: l.maxBytes}, l.fails
}

func (l *memLog) Head(ctx context.Context) (uint64, error) {
	s, err := l.State(ctx)
	return s.Last, err
}

func (l *memLog) Publish(_ context.Context, a streams.Append) (uint64, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(a)
}

func (l *memLog) PublishAll(_ context.Context, as []streams.Append) ([]uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.foldAtOnce()()
	var seqs []uint64
	for _, a := range as {
		seq, _, err := l.append(a)
		if err != nil {
			return nil, err
		}
		seqs = append(seqs, seq)
	}
	return seqs, nil
}

func (l *memLog) append(a streams.Append) (uint64, bool, error) {
	if l.fails != nil {
		return 0, false, l.fails
	}
	if seq, known := l.ids[a.Event.EventID()]; known && !a.Bulk && !a.Again {
		return seq, true, nil
	}
	if a.After > 0 && a.After != l.last(a.Event) {
		return 0, false, streams.ErrWrongSequence
	}
	seq := l.store(wire.Subject(a.Event), policy.Append(nil, a.Event), map[string][]string{
		"ce-type": {a.Event.EventType()}, "ce-id": {a.Event.EventID().String()},
		wire.HeaderPrincipal: {a.Principal}, wire.HeaderCorrelation: {a.Correlation}, wire.HeaderRequest: {a.Request},
	})
	l.ids[a.Event.EventID()] = seq
	l.traces = append(l.traces, a.Traceparent)
	return seq, false, nil
}

// LastOf is as that of the log.
func (l *memLog) LastOf(_ context.Context, e policy.Event) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last(e), l.fails
}

func (l *memLog) last(e policy.Event) (seq uint64) {
	for _, m := range l.msgs {
		if m.Subject == wire.Subject(e) {
			seq = m.Seq
		}
	}
	return seq
}

func (l *memLog) store(subject string, body []byte, header ...map[string][]string) uint64 {
	seq := uint64(len(l.msgs) + 1)
	m := streams.Message{Seq: seq, Subject: subject, Body: body, Time: epoch.Add(time.Duration(seq) * time.Second)}
	if len(header) > 0 {
		m.Header = header[0]
	}
	l.msgs = append(l.msgs, m)
	l.held = append(l.held, m)
	if !l.hold {
		l.release()
	}
	return seq
}

// Junk appends what is no event.
func (l *memLog) Junk(subject, body string) { l.JunkAt(time.Time{}, subject, body) }

// JunkAt is Junk at a time, unless that is zero.
func (l *memLog) JunkAt(at time.Time, subject, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.foldAtOnce()()
	l.store(subject, []byte(body))
	if !at.IsZero() {
		l.held[len(l.held)-1].Time = at
	}
}

// foldAtOnce has what is stored until the end be folded in one batch.
func (l *memLog) foldAtOnce() (end func()) {
	hold := l.hold
	l.hold = true
	return func() {
		if l.hold = hold; !hold {
			l.release()
		}
	}
}

func (l *memLog) release() {
	if err := l.fold.Apply(l.held); err != nil {
		panic(err)
	}
	l.held = nil
}

// Hold stops the fold, Release lets it go on.
func (l *memLog) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = true
}

func (l *memLog) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = false
	l.release()
}

// Forget ends the window in which the log knows the ids of events.
func (l *memLog) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.ids)
}

func (l *memLog) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = err
}

// Trail is what an audit reads.
func (l *memLog) Trail(_ context.Context, after uint64, limit int) ([]api.Trailed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails != nil {
		return nil, l.fails
	}
	rest := l.msgs[min(after, uint64(len(l.msgs))):]
	var out []api.Trailed
	for _, m := range rest[:min(limit, len(rest))] {
		out = append(out, api.TrailedOf(m, unmarked{}))
	}
	return out, nil
}

// unmarked are the marks of a log that has none: whoever appended an event was a worker.
type unmarked struct{}

func (unmarked) Marked(*streams.Message) (ours, proved bool) { return true, false }

// NextOf is as that of the log.
func (l *memLog) NextOf(_ context.Context, e policy.Event, from uint64) (streams.Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.msgs[from-1:] {
		if was, _ := policy.Decode(m.Body); was != nil && was.EventID() == e.EventID() && m.Subject == wire.Subject(e) {
			return m, nil
		}
	}
	return streams.Message{}, streams.ErrNotFound
}

func (l *memLog) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.msgs)
}

// stubRelay serves one comment and waits for the end.
type stubRelay struct {
	mu       sync.Mutex
	position policy.EventID
	err      error
	opened   chan policy.NodeID
}

func (r *stubRelay) set(position policy.EventID, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.position, r.err = position, err
}

func (r *stubRelay) Position() policy.EventID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.position
}

func (r *stubRelay) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *stubRelay) ServeEvents(w http.ResponseWriter, req *http.Request, node policy.NodeID) error {
	if err := r.Ready(); err != nil {
		return err
	}
	if last := req.Header.Get("Last-Event-ID"); strings.Trim(last, "0123456789") != "" {
		return relay.ErrBadLastEventID
	}
	if strings.Contains(req.Header.Get("Accept"), "dialect=other") {
		return &relay.NotAcceptableError{Detail: "there is no such dialect"}
	}
	if node == "left" { // it was there when the API looked
		return projector.ErrUnknownNode
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Plexsphere-API-Version", "v1")
	fmt.Fprintf(w, ": hello %s after %q\n\n", node, req.Header.Get("Last-Event-ID"))
	_ = http.NewResponseController(w).Flush()
	select {
	case r.opened <- node:
	default:
	}
	<-req.Context().Done()
	return nil
}

// plane is a whole API over a log in memory.
type plane struct {
	t     testing.TB
	log   *memLog
	fold  *projector.Projector
	relay *stubRelay
	deps  api.Deps
	http.Handler

	monitor *convergence.Monitor // takes a sample when a test says so
}

func openFold(t testing.TB, opt projector.Options) *projector.Projector {
	t.Helper()
	p, err := projector.Open("fold", opt.On(vfs.NewMem()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// memOptions are of a fold of a memLog.
var memOptions = projector.Options{Partitions: 4, Created: epoch, First: 1}

// newPlane is a plane whose clock stands still and whose ids count up. set may
// change its parts before it is built.
func newPlane(t testing.TB, set ...func(*api.Deps)) *plane {
	t.Helper()
	fold := openFold(t, memOptions)
	p := &plane{
		t: t, fold: fold,
		log:   &memLog{fold: fold, ids: map[uuid.UUID]uint64{}},
		relay: &stubRelay{position: 7, opened: make(chan policy.NodeID, 8)},
	}
	var mu sync.Mutex
	next := uint64(0)
	p.deps = api.Deps{
		Log: p.log, Model: fold, Relay: p.relay,
		StatusDeps: api.StatusDeps{Name: "w1", Durability: func() string { return "strict" }},
		KeyDeps:    api.KeyDeps{Signer: planeKey(t), RotateKey: rotated},
		Clock:      func() time.Time { return epoch.Add(500 * time.Millisecond) },
		NewID: func() (uuid.UUID, error) {
			mu.Lock()
			defer mu.Unlock()
			next++
			id := uuid.MustParse("01900000-0000-7000-8000-000000000000")
			binary.BigEndian.PutUint32(id[12:], uint32(next))
			return id, nil
		},
	}
	p.deps.Trail, p.deps.Event, p.deps.NextOf = p.log.Trail, p.log.Get, p.log.NextOf
	p.deps.SeqAt = func(ctx context.Context, at time.Time) (uint64, error) { return snapshot.SeqAt(ctx, p.log, at) }
	tracker := startTracker(t, p)
	p.monitor = convergence.NewMonitor(tracker, func() int { return 3 })
	p.deps.Convergence, p.deps.Fleet = tracker, p.monitor
	made := snapshot.Manifest{Name: "checkpoint-1", Seq: 1, Digest: strings.Repeat("0a", 32), Schema: 2, Time: epoch, Worker: "w1"}
	p.deps.SaveSnapshot = func(ctx context.Context) (snapshot.Manifest, error) {
		_, err := p.log.State(ctx)
		return made, err
	}
	p.deps.ListSnapshots = func(ctx context.Context) ([]snapshot.Manifest, error) {
		_, err := p.log.State(ctx)
		return []snapshot.Manifest{made}, err
	}
	p.deps.Compact = func(ctx context.Context, seq uint64, archive string) (snapshot.OriginManifest, error) {
		_, err := p.log.State(ctx)
		return snapshot.OriginManifest{Manifest: made, Archive: archive}, err
	}
	made.Chain = strings.Repeat("0b", 32)
	p.deps.History = historyOf(t, p.log, memOptions, 1)
	for _, f := range set {
		f(&p.deps)
	}
	p.Handler = judged(t, api.New(p.deps))
	return p
}

// theContract judges every answer of every test here by the document that the
// plane serves.
var theContract = sync.OnceValues(func() (*contract.Contract, error) {
	doc, err := api.Describe().Encode()
	if err != nil {
		return nil, err
	}
	return contract.New(doc)
})

func judged(t testing.TB, h http.Handler) http.Handler {
	return described(t).Handler(h, func(err error) {
		if _, fuzz := t.(*testing.F); fuzz {
			panic(err) // inside the fuzz target, where f may not be told
		}
		t.Error(err)
	})
}

// impatient makes a plane give up at once on what does not come.
func impatient(d *api.Deps) {
	d.WritePatience, d.ReadPatience = 20*time.Millisecond, 20*time.Millisecond
}

// answer is a response with its body read.
type answer struct {
	*http.Response
	body []byte
}

// do sends one request. Header lines are "Name: value"; a body without a
// Content-Type is JSON.
func (p *plane) do(method, path, body string, header ...string) answer {
	p.t.Helper()
	return serve(p.t, p.Handler, method, path, body, header...)
}

func serve(t testing.TB, h http.Handler, method, path, body string, header ...string) answer {
	t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, path, in)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	given := map[string]bool{} // a line that comes again is one more
	for _, line := range header {
		name, value, ok := strings.Cut(line, ": ")
		require.True(t, ok, line)
		if !given[name] {
			r.Header.Del(name)
		}
		if given[name] = true; value != "-" {
			r.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	got, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	a := answer{res, got}
	a.check(t, r)
	return a
}

// check holds what every answer keeps, whatever was asked.
func (a answer) check(t testing.TB, r *http.Request) {
	t.Helper()
	require.NotEmpty(t, a.Header.Get("X-Correlation-Id"))
	if a.StatusCode < 400 {
		return
	}
	require.Equal(t, "application/problem+json", a.Header.Get("Content-Type"), "%s", a.body)
	if strings.HasPrefix(r.URL.Path, "/api/v1alpha1/") {
		return // errors as existing clients know them
	}
	p := a.problem(t)
	require.Equal(t, a.StatusCode, p.Status)
	require.Equal(t, r.URL.EscapedPath(), p.Instance)
	require.Equal(t, a.Header.Get("X-Correlation-Id"), p.CorrelationID)
	require.NotEmpty(t, p.Title)
	require.NotEmpty(t, p.Detail)
	require.Equal(t, "/errors/"+p.Code, p.Type)
	if p.Status == http.StatusServiceUnavailable {
		require.NotEmpty(t, a.Header.Get("Retry-After"))
	}
}

func (a answer) problem(t testing.TB) resource.Problem {
	t.Helper()
	return into[resource.Problem](t, a)
}

func into[T any](t testing.TB, a answer) T {
	t.Helper()
	var out T
	dec := json.NewDecoder(strings.NewReader(string(a.body)))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&out), "%s", a.body)
	return out
}

func (p *plane) want(status int, code string, a answer) {
	p.t.Helper()
	require.Equal(p.t, status, a.StatusCode, "%s", a.body)
	if code != "" {
		require.Equal(p.t, code, a.problem(p.t).Code, "%s", a.body)
	}
}

const (
	policies = "/v1/projects/" + project + "/policies"
	nodes    = "/v1/projects/" + project + "/nodes"
)

const webRules = `[{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":5432,"to":5432}}]`

func draft(slug string) string {
	return `{"slug":"` + slug + `","display_name":"Web","selector":{"source":"role=web","destination":"role=db"},"rules":` + webRules + `}`
}

func (p *plane) create(slug string, header ...string) resource.Policy {
	p.t.Helper()
	a := p.do("POST", policies, draft(slug), header...)
	p.want(http.StatusCreated, "", a)
	return into[resource.Policy](p.t, a)
}

func (p *plane) put(node, facts string) resource.Node {
	p.t.Helper()
	a := p.do("PUT", nodes+"/"+node, facts)
	require.Less(p.t, a.StatusCode, 300, "%s", a.body)
	return into[resource.Node](p.t, a)
}

// principal makes one without credentials.
func (p *plane) principal(id string) {
	p.t.Helper()
	p.want(http.StatusOK, "", p.do("PUT", "/v1/access/principals/"+id, `{"kind":"service"}`))
}

// rotated is a rotation that is done when it is of a minute to a day; its
// transition stands in the way of a longer one.
func rotated(_ context.Context, r api.Rotation) ([]resource.Key, error) {
	switch {
	case r.Transition < time.Minute:
		return nil, &api.RotationError{Code: api.CodeInvalidTransition, Detail: "too short"}
	case r.Transition > 24*time.Hour:
		return nil, &api.RotationError{Code: api.CodeKeyInTransition, Detail: "not yet"}
	}
	return []resource.Key{{KeyID: "ed25519:0123456789abcdef", Alg: "ed25519", Plane: "policy", PublicKey: "T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU=", Status: "current"}}, nil
}

// planeKey is a key for planes in tests.
func planeKey(t testing.TB) func() (current, previous api.Signer) {
	s, err := artifact.GenerateSigner()
	require.NoError(t, err)
	return func() (current, previous api.Signer) { return s, nil }
}

var errDown = errors.New("connection refused")

const (
	waitFor = 10 * time.Second
	tick    = time.Millisecond
)

func (l *memLog) headReads() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads
}

// fingerprint of a payload, worked out here.
func fingerprint(payload string) string {
	sum := sha256.Sum256([]byte(payload))
	return base64.StdEncoding.EncodeToString(sum[:])
}
