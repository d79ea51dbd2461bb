package node

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
)

// natsPlane is a plane on a real NATS server: what it retains for the node, what it
// answers, and whether it publishes live.
type natsPlane struct {
	*plane
	http   string
	port   int
	server *server.Server
	nc     *nats.Conn

	mu       sync.Mutex
	last     map[string]msg // by policy
	prev     map[string]uint64
	head     uint64
	lag      uint64 // answers reach the head less so much
	resync   bool
	silent   bool // publishes nothing live
	asked    []uint64
	answered chan struct{}
}

func newNATSPlane(t *testing.T) *natsPlane {
	p := &natsPlane{last: map[string]msg{}, prev: map[string]uint64{}, head: 100, port: server.RANDOM_PORT, answered: make(chan struct{}, 1024)}
	p.plane, p.http = newPlane(t)
	p.plane.position = 100
	p.start()
	t.Cleanup(p.stop)
	return p
}

func (p *natsPlane) start() {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: p.port, NoLog: true, NoSigs: true})
	require.NoError(p.t, err)
	s.Start()
	require.True(p.t, s.ReadyForConnections(20*time.Second))
	p.server = s
	p.nc, err = nats.Connect(s.ClientURL())
	require.NoError(p.t, err)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.ClientURL(), "nats://"), ":")
	p.port, err = strconv.Atoi(port)
	require.NoError(p.t, err)
	_, err = p.nc.Subscribe(replayPrefix+"*", p.replay)
	require.NoError(p.t, err)
	require.NoError(p.t, p.nc.Flush())
}

func (p *natsPlane) stop() {
	p.nc.Close()
	p.server.Shutdown()
	p.server.WaitForShutdown()
}

func (p *natsPlane) replay(m *nats.Msg) {
	var q struct{ After uint64 }
	require.NoError(p.t, json.Unmarshal(m.Data, &q))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, q.After)
	upTo := max(p.head-p.lag, min(q.After, p.head))
	var owed []msg
	for _, m := range p.last {
		if m.seq > q.After && m.seq <= upTo {
			owed = append(owed, m)
		}
	}
	slices.SortFunc(owed, func(a, b msg) int { return int(a.seq) - int(b.seq) })
	for _, o := range owed {
		require.NoError(p.t, p.nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: nats.Header{headerSeq: {fmt.Sprint(o.seq)}}, Data: p.envelope(o)}))
	}
	end := nats.Header{headerUpTo: {fmt.Sprint(upTo)}}
	if p.resync || q.After == 0 || q.After > p.head {
		end[headerResync] = []string{"true"}
	}
	require.NoError(p.t, p.nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: end}))
	p.answered <- struct{}{}
}

// envelope is a message as the relay seals it; its version is its sequence.
func (p *natsPlane) envelope(m msg) []byte {
	return p.seal(m, p.signer, string(self), m.policy.String())
}

func (p *natsPlane) seal(m msg, by *artifact.Signer, node, name string) []byte {
	b, err := by.Seal(artifact.Envelope{
		Plane: artifact.PlanePolicy, Kind: artifact.KindPolicy, Node: node, Name: name, Version: m.seq,
		Payload: artifact.PolicyPayload{
			NodeID: self, PolicyID: m.policy, RevisionID: m.policy, Fingerprint: sha256.Sum256([]byte(m.rules)), Rules: json.RawMessage(m.rules),
		}.Append(nil),
	})
	require.NoError(p.t, err)
	return b
}

// publish stores a message and tells who listens, unless the plane is silent.
func (p *natsPlane) publish(policy uuid.UUID, rules string) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.head += 3
	m := msg{p.head, policy, rules}
	if !p.silent {
		p.tell(m, p.prev[policy.String()], p.envelope(m))
	}
	p.last[policy.String()], p.prev[policy.String()] = m, m.seq
	return m.seq
}

func (p *natsPlane) tell(m msg, prev uint64, body []byte) {
	p.tellAs(livePrefix+"n1."+m.policy.String(), nats.Header{headerSeq: {fmt.Sprint(m.seq)}, headerPrev: {fmt.Sprint(prev)}}, body)
}

func (p *natsPlane) tellAs(subject string, h nats.Header, body []byte) {
	require.NoError(p.t, p.nc.PublishMsg(&nats.Msg{Subject: subject, Header: h, Data: body}))
	require.NoError(p.t, p.nc.Flush())
}

func (p *natsPlane) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *natsPlane) follower(from uint64, more ...func(*Options)) *Follower {
	opt := hasty(from)
	opt.NATS, opt.AskEvery = p.server.ClientURL(), time.Hour
	for _, m := range more {
		m(&opt)
	}
	return NewFollower(p.http, self, opt)
}

// reader hands out a follower's events one by one.
type reader struct {
	t      *testing.T
	events chan Event
	last   uint64
}

func (p *natsPlane) read(f *Follower) *reader {
	ctx, cancel := context.WithCancel(p.t.Context())
	r := &reader{t: p.t, events: make(chan Event)}
	done := make(chan error, 1)
	go func() {
		done <- f.Run(ctx, func(e Event) error {
			select {
			case r.events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	p.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			require.ErrorIs(p.t, err, context.Canceled)
		}
	})
	return r
}

func (r *reader) next() Event {
	r.t.Helper()
	select {
	case e := <-r.events:
		return e
	case <-time.After(20 * time.Second):
		require.FailNow(r.t, "no event came")
		return Event{}
	}
}

// want is the next event: of this sequence, above all before it.
func (r *reader) want(seq uint64) Event {
	r.t.Helper()
	e := r.next()
	require.Equal(r.t, seq, e.Seq)
	require.Equal(r.t, TypePolicyUpdated, e.Type)
	require.Greater(r.t, e.Seq, r.last)
	r.last = e.Seq
	return e
}

func (p *natsPlane) awaitAnswers(n int) {
	p.t.Helper()
	for range n {
		select {
		case <-p.answered:
		case <-time.After(20 * time.Second):
			require.FailNow(p.t, "nobody asked")
		}
	}
}

func TestOverNATSWhatWasMissedComesFirstAndThenWhatIsLive(t *testing.T) {
	p := newNATSPlane(t)
	one := p.publish(web, rulesA)
	f := p.follower(100)
	r := p.read(f)
	e := r.want(one)
	require.Equal(t, rulesA, string(e.Policy.Rules))
	require.Equal(t, one, e.Version)
	require.Equal(t, web.String(), e.Envelope.Name)
	r.want(p.publish(db, rulesB))
	r.want(p.publish(web, rulesB))
	r.want(p.publish(db, "[]"))
	require.Len(t, f.Rows(), 1)
	p.awaitAnswers(2) // on connect, and for the first live message
	asked := len(p.asked)
	r.want(p.publish(db, rulesA))
	r.want(p.publish(web, rulesA))
	p.set(func() { require.Len(t, p.asked, asked, "what is live and whole costs no question") })
	require.Zero(t, f.Refused())
}

func TestOverNATSACutLosesNothingAndTellsNothingTwice(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(100)
	r := p.read(f)
	r.want(p.publish(web, rulesA))
	r.want(p.publish(db, rulesA))
	for round := range 3 {
		p.stop()
		p.set(func() { p.head, p.silent = p.head+10, true })
		missed := p.publish(web, []string{rulesA, rulesB}[round%2])
		p.set(func() { p.silent = false })
		p.start()
		r.want(missed)
		r.want(p.publish(db, rulesB))
	}
}

func TestOverNATSASlowReaderIsToldWhatWasDropped(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(100, func(o *Options) { o.Pending = 2 })
	r := p.read(f)
	r.want(p.publish(web, rulesA))
	p.publish(web, rulesB) // is being handed out, or waits, while the others are dropped
	// Each of a policy of its own, so that no subject shows a hole.
	const burst = 200
	missing := map[uint64]bool{}
	for n := range burst {
		missing[p.publish(uuid.UUID{14: 1, 15: byte(n)}, rulesA)] = true
	}
	r.next()
	for len(missing) > 0 {
		e := r.next()
		require.Equal(t, TypePolicyUpdated, e.Type, "what was dropped was told of, so nothing is late")
		require.Greater(t, e.Seq, r.last)
		r.last = e.Seq
		delete(missing, e.Seq)
	}
}

// What waited to be read when a message was dropped may stand on either side of it.
func TestOverNATSADropCastsDoubtOnWhatWaited(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(100, func(o *Options) { o.Pending = 2 })
	r := p.read(f)
	p.awaitAnswers(1)
	r.want(p.publish(web, rulesA))
	fresh := func(n byte) uint64 { return p.publish(uuid.UUID{14: 1, 15: n}, rulesA) }
	held := fresh(0) // is handed out until it is read
	require.Eventually(t, func() bool { return len(f.Rows()) == 2 }, 20*time.Second, time.Millisecond)
	a, b, c := fresh(1), fresh(2), fresh(3) // two wait, the third is dropped
	p.set(func() { p.lag = p.head - held })
	asked := func() (n int) { p.set(func() { n = len(p.asked) }); return n }
	before := asked()
	require.Eventually(t, func() bool { return f.overrun.Load() > 0 }, 20*time.Second, time.Millisecond)
	r.want(held)
	require.Eventually(t, func() bool { return asked() >= before+2 }, 20*time.Second, time.Millisecond,
		"what waited is read between the two questions after the drop")
	before = asked()
	d := fresh(4)
	p.set(func() { p.lag = p.head - held })
	require.Eventually(t, func() bool { return asked() >= before+2 }, 20*time.Second, time.Millisecond)
	p.set(func() { p.lag = p.head - b })
	r.want(a)
	r.want(b)
	p.set(func() { p.lag = 0 })
	r.want(c)
	r.want(d)
}

func TestOverNATSWhatIsForgedIsRefusedAndCounted(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(100)
	r := p.read(f)
	r.want(p.publish(web, rulesA))
	one := p.publish(web, rulesB)
	r.want(one)
	p.awaitAnswers(2)

	stranger, err := artifact.GenerateSigner()
	require.NoError(t, err)
	next := msg{p.head + 1, web, rulesA}
	good := p.envelope(next)
	subject := livePrefix + "n1." + web.String()
	headers := func(seq, prev string) nats.Header { return nats.Header{headerSeq: {seq}, headerPrev: {prev}} }
	seq, prev := fmt.Sprint(next.seq), fmt.Sprint(one)
	refused := uint64(0)
	for _, c := range []struct {
		name    string
		subject string
		header  nats.Header
		body    []byte
	}{
		{"changed rules", subject, headers(seq, prev), []byte(strings.Replace(string(good), "10.0.0.0/8", "11.0.0.0/8", 1))},
		{"not an envelope", subject, headers(seq, prev), []byte(`{}`)},
		{"another node's", subject, headers(seq, prev), p.seal(next, p.signer, "n2", web.String())},
		{"another policy's name", subject, headers(seq, prev), p.seal(next, p.signer, "n1", db.String())},
		{"another policy's subject", livePrefix + "n1." + db.String(), headers(seq, prev), good},
		{"another policy's rules", livePrefix + "n1." + db.String(), headers(seq, prev), p.seal(next, p.signer, "n1", db.String())},
		{"no sequence", subject, nats.Header{headerPrev: {prev}}, good},
		{"no sequence before it", subject, nats.Header{headerSeq: {seq}}, good},
	} {
		p.tellAs(c.subject, c.header, c.body)
		refused++
		require.Eventually(t, func() bool { return f.Refused() == refused }, 20*time.Second, time.Millisecond, c.name)
	}
	// A stranger's key may be the plane's new one: the plane is asked, and does not announce it.
	p.tellAs(subject, headers(seq, prev), p.seal(next, stranger, "n1", web.String()))
	p.awaitAnswers(1)
	refused++
	require.Eventually(t, func() bool { return f.Refused() == refused }, 20*time.Second, time.Millisecond)
	// A message of before under a sequence to come is an old one.
	p.tellAs(subject, headers("9999", prev), p.envelope(msg{one, web, rulesB}))
	r.want(p.publish(db, rulesA))
	require.Equal(t, refused, f.Refused())
}

func TestOverNATSWhatComesTwiceIsToldOnce(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(100, func(o *Options) { o.AskEvery = time.Millisecond })
	r := p.read(f)
	for range 5 {
		seq := p.publish(web, rulesA)
		p.set(func() { p.tell(p.last[web.String()], seq-3, p.envelope(p.last[web.String()])) })
		r.want(seq)
	}
	p.awaitAnswers(5) // of everything again
	r.want(p.publish(db, rulesA))
}

func TestOverNATSAWorkerThatLagsIsAskedAgain(t *testing.T) {
	p := newNATSPlane(t)
	p.set(func() { p.lag = 5 })
	f := p.follower(100)
	r := p.read(f)
	p.awaitAnswers(1)
	seq := p.publish(web, rulesA)
	p.awaitAnswers(4)
	p.set(func() { p.lag = 0 })
	r.want(seq)
}

func TestOverNATSWhatWasLostWithoutAHintIsPulled(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(100)
	r := p.read(f)
	p.awaitAnswers(1)
	r.want(p.publish(web, rulesA)) // asked for; what is live is whole from here on
	third := uuid.UUID{15: 3}
	p.set(func() { p.silent = true })
	p.publish(db, rulesB)
	p.publish(third, rulesA)
	p.set(func() { p.silent = false })
	r.want(p.publish(web, rulesB))
	require.Len(t, f.Rows(), 1)
	p.plane.mu.Lock()
	p.plane.state, p.plane.position = map[uuid.UUID]string{web: rulesB, db: rulesB, third: rulesB}, p.head+3
	p.plane.mu.Unlock()

	r.want(p.publish(third, rulesB)) // follows what was never seen here
	e := r.next()
	require.Equal(t, TypeStateUpdated, e.Type, "the other can no longer come in its place")
	require.Equal(t, r.last, e.Seq)
	require.Len(t, f.Rows(), 3)
	r.want(p.publish(db, rulesA))
}

func TestOverNATSAWordToPullPullsAndGoesOn(t *testing.T) {
	p := newNATSPlane(t)
	one := p.publish(web, rulesA)
	p.plane.state[web], p.plane.position = rulesA, one
	f := p.follower(0)
	r := p.read(f)
	e := r.next()
	require.Equal(t, TypeStateUpdated, e.Type)
	require.Len(t, e.Pulled.Rows, 1)
	require.True(t, r.want(one).Covered)
	require.False(t, r.want(p.publish(web, rulesB)).Covered)

	// A stream that lost its tail: the word, and what it holds from there on.
	p.stop()
	p.set(func() { p.head, p.resync = 101, false })
	p.plane.mu.Lock()
	p.plane.position = 101
	p.plane.mu.Unlock()
	p.start()
	e = r.next()
	require.Equal(t, TypeStateUpdated, e.Type)
	require.Equal(t, uint64(101), e.Seq)
}

func TestNATSAloneIsEnoughForWhoHasTheKeys(t *testing.T) {
	p := newNATSPlane(t)
	p.publish(web, rulesA)
	p.publish(db, rulesA)
	p.publish(db, "[]")
	trust := artifact.NewTrustSet()
	require.NoError(t, trust.Add(artifact.PlanePolicy, p.signer.KeyID(), p.signer.PublicKey(), time.Time{}))
	opt := Options{NATS: p.server.ClientURL(), Trust: trust, MinWait: time.Microsecond, MaxWait: time.Microsecond}
	f := NewFollower("", self, opt)
	r := p.read(f)
	p.awaitAnswers(1)
	r.want(p.publish(db, rulesB))
	require.Len(t, f.Rows(), 2, "what was retained, and what came")
	require.Zero(t, p.pulls)

	opt.Trust = nil
	err := NewFollower("", self, opt).Run(t.Context(), func(Event) error { return nil })
	require.ErrorIs(t, err, errNoKeys)
}

func TestAStateFileOutlivesTheFollower(t *testing.T) {
	for _, over := range []string{"NATS", "SSE"} {
		t.Run(over, func(t *testing.T) {
			p := newNATSPlane(t)
			path := filepath.Join(t.TempDir(), "state.json")
			make := func() *Follower {
				opt := Options{State: path, MinWait: time.Microsecond, MaxWait: time.Microsecond}
				if over == "NATS" {
					opt.NATS, opt.AskEvery = p.server.ClientURL(), time.Hour
				}
				return NewFollower(p.http, self, opt)
			}
			publish := func(policy uuid.UUID, rules string) uint64 {
				seq := p.publish(policy, rules)
				p.add(msg{seq, policy, rules})
				return seq
			}
			enough := errors.New("enough")
			one := func(f *Follower) (got Event) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				require.ErrorIs(t, f.Run(ctx, func(e Event) error { got = e; return enough }), enough)
				return got
			}
			publish(web, rulesA)
			publish(db, rulesB)
			require.Equal(t, uint64(103), one(make()).Seq)
			f := make()
			require.Equal(t, uint64(106), one(f).Seq, "not again what was told before")
			require.Len(t, f.Rows(), 2, "what was told before is still there")
			f = make()
			seq := publish(web, "[]")
			require.Equal(t, seq, one(f).Seq)
			require.Len(t, f.Rows(), 1)
			require.Equal(t, 1, p.pulls, "one pull, by the first of them")

			var kept *StateFileError
			other := NewFollower(p.http, "n2", Options{State: path})
			require.ErrorAs(t, other.Run(t.Context(), func(Event) error { return nil }), &kept)
		})
	}
}

// What is live may be told before what was lost without a hint, so a state file
// does not vouch for it.
func TestAStateFileStandsWhereNothingIsMissing(t *testing.T) {
	p := newNATSPlane(t)
	keep := filepath.Join(t.TempDir(), "state.json")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := p.follower(100, func(o *Options) { o.State = keep })
	got, done := make(chan uint64), make(chan error)
	go func() { done <- f.Run(ctx, func(e Event) error { got <- e.Seq; return nil }) }()
	p.awaitAnswers(1)
	require.Equal(t, p.publish(web, rulesA), <-got)
	p.set(func() { p.silent = true })
	lost := p.publish(db, rulesB)
	p.set(func() { p.silent = false })
	told := p.publish(web, rulesB)
	require.Equal(t, told, <-got)
	cancel()
	require.NoError(t, <-done)

	r := p.read(p.follower(0, func(o *Options) { o.State = keep }))
	r.want(lost)
	r.want(p.publish(web, "[]"))
}
