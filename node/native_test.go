package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// fakeBase is what the fake plane counts event ids from.
const fakeBase = 1000

// at is the id of an event of a log sequence.
func at(seq uint64) policy.EventID { return policy.NewEventID(fakeBase, seq, 1) }

// origin is the id at which the fake plane begins.
var origin = policy.EndOf(fakeBase, 100)

// natsPlane is a plane on a real NATS server: what the node has, what the plane
// answers, and whether it publishes.
type natsPlane struct {
	*plane
	http   string
	port   int
	server *server.Server
	nc     *nats.Conn

	mu       sync.Mutex
	last     map[string]msg // by policy
	prev     policy.EventID
	base     uint64
	log      string
	head     uint64 // of the log
	lag      uint64 // answers reach the head less so much
	fail     string // in place of an answer
	resync   bool
	flood    int    // answers with so many copies of a message, and no end
	silent   bool   // publishes nothing
	key      []byte // the announcement that each answer begins with; nil: none
	mute     bool   // does not say which log an answer is about unless a message of it does, as older planes
	asked    []policy.EventID
	tables   bool // the last one said that its reader enforces them
	answered chan struct{}
	artifact *nats.Msg // was released, and is in each answer that begins before it
}

func newNATSPlane(t *testing.T) *natsPlane {
	p := &natsPlane{last: map[string]msg{}, prev: origin, base: fakeBase, log: "1", head: 100, port: server.RANDOM_PORT, answered: make(chan struct{}, 1024)}
	p.plane, p.http = newPlane(t)
	p.plane.position = origin
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
	_, err = p.nc.Subscribe(wire.PrefixReplay+"*", p.replay)
	require.NoError(p.t, err)
	require.NoError(p.t, p.nc.Flush())
}

func (p *natsPlane) stop() {
	p.nc.Close()
	p.server.Shutdown()
	p.server.WaitForShutdown()
}

func (p *natsPlane) replay(m *nats.Msg) {
	var q struct {
		After  policy.EventID
		Tables bool
	}
	require.NoError(p.t, json.Unmarshal(m.Data, &q))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.tables = append(p.asked, q.After), q.Tables
	defer func() { p.answered <- struct{}{} }()
	if p.fail != "" {
		require.NoError(p.t, p.nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: nats.Header{wire.HeaderError: {p.fail}}}))
		return
	}
	end := policy.EndOf(p.base, p.head)
	upTo := max(policy.EndOf(p.base, p.head-p.lag), min(q.After, end))
	foreign := q.After < policy.NewEventID(p.base, 0, 0) || q.After > end
	if foreign {
		q.After = policy.NewEventID(p.base, 0, 0)
	}
	if p.key != nil {
		p.reply(&nats.Msg{Subject: m.Reply, Header: nats.Header{wire.HeaderEvent: {artifact.TypeKeyRotated}}, Data: p.key})
	}
	var owed []msg
	for _, m := range p.last {
		if m.id > q.After && m.id <= upTo {
			owed = append(owed, m)
		}
	}
	slices.SortFunc(owed, func(a, b msg) int { return byID(item{id: a.id}, item{id: b.id}) })
	for _, o := range owed {
		p.reply(&nats.Msg{Subject: m.Reply, Header: nats.Header{wire.HeaderEventID: {o.id.String()}, wire.HeaderLog: {p.log}}, Data: p.envelope(o)})
	}
	if a := p.artifact; a != nil {
		if id, err := eventID(a, wire.HeaderEventID); err == nil && id > q.After && id <= upTo {
			p.reply(&nats.Msg{Subject: m.Reply, Header: a.Header, Data: a.Data})
		}
	}
	if p.flood > 0 { // signed once: before the next question is read, all of it is sent
		text := p.envelope(owed[0])
		for range p.flood {
			p.reply(&nats.Msg{Subject: m.Reply, Header: nats.Header{wire.HeaderEventID: {owed[0].id.String()}, wire.HeaderLog: {p.log}}, Data: text})
		}
		return
	}
	header := nats.Header{wire.HeaderUpTo: {upTo.String()}}
	if !p.mute {
		seq, _ := upTo.Seq(p.base)
		header[wire.HeaderLog], header[wire.HeaderLogSeq] = []string{p.log}, []string{strconv.FormatUint(seq, 10)}
	}
	if p.resync || foreign {
		header[wire.HeaderResync] = []string{"true"}
	}
	p.reply(&nats.Msg{Subject: m.Reply, Header: header})
}

// reply answers a question, unless the test ended before.
func (p *natsPlane) reply(m *nats.Msg) {
	if err := p.nc.PublishMsg(m); err != nil && !p.nc.IsClosed() {
		p.t.Errorf("reply: %v", err)
	}
}

// envelope is a message as the relay seals it.
func (p *natsPlane) envelope(m msg) []byte {
	return p.seal(m, p.signer, string(self), m.policy.String())
}

func (p *natsPlane) seal(m msg, by *artifact.Signer, node, name string) []byte {
	return p.sealed(by, artifact.Envelope{
		Kind: artifact.KindPolicy, Node: node, Name: name, Version: p.seqOf(m.id),
		Payload: artifact.PolicyPayload{
			NodeID: self, PolicyID: m.policy, RevisionID: m.policy, Fingerprint: sha256.Sum256([]byte(m.rules)), Rules: json.RawMessage(m.rules),
		}.Append(nil),
	})
}

func (p *natsPlane) sealed(by *artifact.Signer, e artifact.Envelope) []byte {
	e.Plane = artifact.PlanePolicy
	b, err := by.Seal(e)
	require.NoError(p.t, err)
	return b
}

func (p *natsPlane) seqOf(id policy.EventID) uint64 {
	seq, ok := id.Seq(p.base)
	require.True(p.t, ok)
	return seq
}

// publish changes a row and tells who listens, unless the plane is silent.
func (p *natsPlane) publish(policy uuid.UUID, rules string) policy.EventID {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.head += 3
	m := msg{p.next(0), policy, rules}
	if !p.silent {
		p.tell(m, p.prev, p.envelope(m))
	}
	p.last[policy.String()], p.prev = m, m.id
	return m.id
}

// next is the id of the event that is so many above the head.
func (p *natsPlane) next(more uint64) policy.EventID {
	return policy.NewEventID(p.base, p.head+more, 1)
}

func (p *natsPlane) tell(m msg, prev policy.EventID, body []byte) {
	p.tellAs(wire.PrefixNode+"n1."+m.policy.String(), p.headers(m.id, prev), body)
}

func (p *natsPlane) headers(id, prev policy.EventID) nats.Header {
	return nats.Header{wire.HeaderEventID: {id.String()}, wire.HeaderPrev: {prev.String()}, wire.HeaderLog: {p.log}}
}

func (p *natsPlane) tellAs(subject string, h nats.Header, body []byte) {
	require.NoError(p.t, p.nc.PublishMsg(&nats.Msg{Subject: subject, Header: h, Data: body}))
	require.NoError(p.t, p.nc.Flush())
}

// word tells the node to pull.
func (p *natsPlane) word(id, prev policy.EventID, reason string) {
	p.tellAs(wire.PrefixNode+"n1.state", p.headers(id, prev), p.wordBody(id, reason))
}

func (p *natsPlane) wordBody(id policy.EventID, reason string) []byte {
	return p.sealed(p.signer, artifact.Envelope{
		Kind: artifact.KindState, Node: string(self), Name: reason, Version: p.seqOf(id),
		Payload: fmt.Appendf(nil, `{"node_id":"n1","reason":%q}`, reason),
	})
}

func (p *natsPlane) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// pulls has a pull tell the rows as they are.
func (p *natsPlane) pulls() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plane.mu.Lock()
	defer p.plane.mu.Unlock()
	p.plane.state, p.plane.position = map[uuid.UUID]string{}, policy.EndOf(p.base, p.head)
	for _, m := range p.last {
		if m.rules != "[]" {
			p.plane.state[m.policy] = m.rules
		}
	}
}

func (p *natsPlane) follower(from policy.EventID, more ...func(*Options)) *Follower {
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
	last   policy.EventID
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

// want is the next event: of this id, above all before it.
func (r *reader) want(id policy.EventID) Event {
	r.t.Helper()
	e := r.next()
	require.Equal(r.t, id, e.ID)
	require.Equal(r.t, TypePolicyUpdated, e.Type)
	require.Greater(r.t, e.ID, r.last)
	r.last = e.ID
	return e
}

// pulled is the next event: a word to pull.
func (r *reader) pulled() Event {
	r.t.Helper()
	e := r.next()
	require.Equal(r.t, TypeStateUpdated, e.Type)
	require.NotNil(r.t, e.Pulled)
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
	f := p.follower(origin, func(o *Options) { o.Tables = true })
	require.ErrorIs(t, f.StreamError(), errNotYet)
	r := p.read(f)
	e := r.want(one)
	require.Equal(t, rulesA, string(e.Policy.Rules))
	require.Equal(t, p.head, e.Envelope.Version)
	require.Equal(t, web.String(), e.Envelope.Name)
	p.awaitAnswers(1)
	for _, m := range []msg{{0, db, rulesB}, {0, web, rulesB}, {0, db, "[]"}, {0, db, rulesA}, {0, web, rulesA}} {
		r.want(p.publish(m.policy, m.rules))
	}
	require.Len(t, f.Rows(), 2)
	p.set(func() {
		require.Equal(t, []policy.EventID{origin}, p.asked, "what is live and whole costs no question")
	})
	require.True(t, p.tables)
	require.Zero(t, f.Refused())
	require.NoError(t, f.StreamError())
}

func TestOverNATSAHoleShowsAtTheNextMessage(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(origin)
	r := p.read(f)
	p.awaitAnswers(1)
	p.set(func() { p.silent = true })
	lost := p.publish(db, rulesB)
	p.set(func() { p.silent = false })
	next := p.publish(web, rulesA)
	r.want(lost)
	r.want(next)
	p.set(func() {
		require.Equal(t, []policy.EventID{origin, origin}, p.asked, "asked after what the answer before confirmed")
	})
	r.want(p.publish(db, "[]"))
	require.Len(t, f.Rows(), 1)
}

func TestOverNATSACutLosesNothingAndTellsNothingTwice(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(origin)
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
	f := p.follower(origin, func(o *Options) { o.Pending = 2 })
	r := p.read(f)
	r.want(p.publish(web, rulesA))
	p.publish(web, rulesB) // is being handed out, or waits, while the others are dropped
	const burst = 40
	missing := map[policy.EventID]bool{}
	for n := range burst {
		missing[p.publish(uuid.UUID{14: 1, 15: byte(n)}, rulesA)] = true
	}
	r.next()
	for len(missing) > 0 {
		e := r.next()
		require.Equal(t, TypePolicyUpdated, e.Type, "what was dropped was told of, so nothing is late")
		require.Greater(t, e.ID, r.last)
		r.last = e.ID
		delete(missing, e.ID)
	}
}

// The last of a burst may be what was dropped: no message shows the hole then.
func TestOverNATSADropAsksWithoutWaitingForTheNextMessage(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(origin, func(o *Options) { o.Pending = 2 })
	r := p.read(f)
	p.awaitAnswers(1)
	fresh := func(n byte) policy.EventID { return p.publish(uuid.UUID{14: 1, 15: n}, rulesA) }
	held := fresh(0) // is handed out until it is read
	require.Eventually(t, func() bool { return len(f.Rows()) == 1 }, 20*time.Second, time.Millisecond)
	a, b, c := fresh(1), fresh(2), fresh(3) // two wait, the third is dropped
	require.Eventually(t, func() bool { return f.overrun.Load() > 0 }, 20*time.Second, time.Millisecond)
	for _, id := range []policy.EventID{held, a, b, c} {
		r.want(id)
	}
}

func TestOverNATSWhatIsForgedIsRefusedAndCounted(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(origin)
	r := p.read(f)
	p.awaitAnswers(1)
	r.want(p.publish(web, rulesA))
	one := p.publish(web, rulesB)
	r.want(one)

	stranger, err := artifact.GenerateSigner()
	require.NoError(t, err)
	next := msg{p.next(1), web, rulesA}
	good := p.envelope(next)
	subject := wire.PrefixNode + "n1." + web.String()
	headers := p.headers(next.id, one)
	refused := uint64(0)
	for _, c := range []struct {
		name    string
		subject string
		header  nats.Header
		body    []byte
	}{
		{"changed rules", subject, headers, []byte(strings.Replace(string(good), "10.0.0.0/8", "11.0.0.0/8", 1))},
		{"not an envelope", subject, headers, []byte(`{}`)},
		{"another node's", subject, headers, p.seal(next, p.signer, "n2", web.String())},
		{"another policy's name", subject, headers, p.seal(next, p.signer, "n1", db.String())},
		{"another policy's subject", wire.PrefixNode + "n1." + db.String(), headers, good},
		{"another policy's rules", wire.PrefixNode + "n1." + db.String(), headers, p.seal(next, p.signer, "n1", db.String())},
		{"no id", subject, nats.Header{wire.HeaderPrev: {one.String()}}, good},
		{"no id before it", subject, nats.Header{wire.HeaderEventID: {next.id.String()}}, good},
		{"an id from before its sequence", subject, p.headers(5, 0), good},
		{"another node's word", wire.PrefixNode + "n1.state", headers, p.sealed(p.signer, artifact.Envelope{
			Kind: artifact.KindState, Node: "n1", Name: "resync", Version: 1, Payload: []byte(`{"node_id":"n2","reason":"resync"}`),
		})},
	} {
		p.tellAs(c.subject, c.header, c.body)
		refused++
		require.Eventually(t, func() bool { return f.Refused() == refused }, 20*time.Second, time.Millisecond, c.name)
	}
	// A stranger's key may be the plane's new one: the plane is asked, and does not announce it.
	p.tellAs(subject, headers, p.seal(next, stranger, "n1", web.String()))
	p.awaitAnswers(1)
	refused++
	require.Eventually(t, func() bool { return f.Refused() == refused }, 20*time.Second, time.Millisecond)
	r.want(p.publish(db, rulesA))
	require.Equal(t, refused, f.Refused())
}

// What is signed names the log sequence, so an old message is none of an id to
// come: it would stand in a log with another base.
func TestOverNATSAMessageOfAnotherLogIsNotBelieved(t *testing.T) {
	p := newNATSPlane(t)
	one := p.publish(web, rulesA)
	f := p.follower(origin)
	r := p.read(f)
	r.want(one)
	two := p.publish(web, rulesB)
	r.want(two)
	p.awaitAnswers(1)
	for i, tell := range []func(){
		func() { // an old one under an id to come
			p.tellAs(wire.PrefixNode+"n1."+web.String(), p.headers(p.next(50), two), p.envelope(msg{one, web, rulesA}))
		},
		func() {
			h := p.headers(p.next(50), two)
			h[wire.HeaderLog] = []string{"2"}
			p.tellAs(wire.PrefixNode+"n1."+web.String(), h, p.envelope(msg{p.next(50), web, rulesA}))
		},
	} {
		tell()
		p.awaitAnswers(1) // it asks, and the answer is about the same log as before
		for range 3 {
			tell()
		}
		before := len(p.asked)
		r.want(p.publish(db, []string{rulesA, rulesB}[i]))
		p.set(func() { require.Len(t, p.asked, before, "not at once again") })
	}
	require.Zero(t, f.Refused())
	require.Equal(t, rulesB, string(f.Rows()[0].Rules))
}

// A follower that missed nothing has seen no message of the log, and takes no old one
// under an id to come all the same. Of a plane that does not say where its answers stand
// in the log it learns it by asking.
func TestOverNATSAnOldMessageIsNotBelievedByWhoMissedNothing(t *testing.T) {
	for name, mute := range map[string]bool{"": false, "of an older plane": true} {
		t.Run(name, func(t *testing.T) {
			p := newNATSPlane(t)
			p.mute = mute
			one := p.publish(web, rulesA)
			p.publish(web, rulesB)
			f := p.follower(policy.EndOf(fakeBase, p.head))
			r := p.read(f)
			p.awaitAnswers(1)
			p.tellAs(wire.PrefixNode+"n1."+web.String(), p.headers(p.next(50), 0), p.envelope(msg{one, web, rulesA}))
			p.awaitAnswers(1) // it asks which log that is of
			require.Equal(t, rulesB, string(r.want(p.publish(web, rulesB)).Policy.Rules))
			require.Zero(t, f.Refused())
		})
	}
}

// An old message to pull under an id to come is not believed either: it would hide the
// ones that do come.
func TestOverNATSAnOldWordToPullHidesNoNewOne(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(origin)
	r := p.read(f)
	p.awaitAnswers(1)
	one := p.publish(web, rulesA)
	r.want(one)
	p.pulls()
	end := policy.EndOf(fakeBase, p.head)
	p.set(func() { p.word(end, one, "datapath") })
	require.Equal(t, end, r.pulled().ID)
	p.tellAs(wire.PrefixNode+"n1.state", p.headers(p.next(50), end), p.wordBody(end, "datapath"))
	p.awaitAnswers(1) // it asks which log that is of
	next := policy.EndOf(fakeBase, p.head+1)
	p.set(func() { p.head++; p.word(next, end, "datapath"); p.prev = next })
	require.Equal(t, next, r.pulled().ID)
	require.Equal(t, rulesA, string(r.want(p.publish(db, rulesA)).Policy.Rules))
}

func TestOverNATSWhatComesTwiceIsToldOnce(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(origin, func(o *Options) { o.AskEvery = time.Millisecond })
	r := p.read(f)
	for range 5 {
		before := p.prev
		id := p.publish(web, rulesA)
		p.set(func() { p.tell(p.last[web.String()], before, p.envelope(p.last[web.String()])) })
		r.want(id)
	}
	p.awaitAnswers(5) // of everything again
	r.want(p.publish(db, rulesA))
}

func TestOverNATSAWorkerThatLagsIsAskedAgain(t *testing.T) {
	t.Run("and says so", func(t *testing.T) {
		p := newNATSPlane(t)
		p.set(func() { p.fail = "behind" })
		f := p.follower(origin)
		r := p.read(f)
		p.awaitAnswers(4)
		require.ErrorIs(t, f.StreamError(), errNotYet)
		p.set(func() { p.fail = "" })
		require.Eventually(t, func() bool { return f.StreamError() == nil }, 20*time.Second, time.Millisecond)
		r.want(p.publish(web, rulesA))
	})
	t.Run("and does not", func(t *testing.T) {
		p := newNATSPlane(t)
		p.set(func() { p.lag, p.silent = 5, true })
		f := p.follower(origin)
		r := p.read(f)
		p.awaitAnswers(1)
		lost := p.publish(web, rulesA)
		p.set(func() { p.silent = false })
		id := p.publish(db, rulesA)
		p.set(func() { p.lag = p.head - 100 })
		p.awaitAnswers(4)
		p.set(func() { p.lag = 0 })
		r.want(lost)
		r.want(id)
	})
}

// An answer without end, of messages that the plane did sign, must not fill the memory.
func TestOverNATSAnAnswerIsBounded(t *testing.T) {
	p := newNATSPlane(t)
	p.publish(web, `[{"port":1}]`)
	p.flood = 1000
	f := p.follower(origin, func(o *Options) { o.Silence = time.Second })
	f.largestAnswer = 64 << 10
	err := f.Run(t.Context(), func(Event) error { return nil })
	require.ErrorIs(t, err, artifact.ErrMalformed)
	require.ErrorContains(t, err, "larger than 65536 bytes")
	require.Len(t, p.asked, refusals)
}

func TestOverNATSAnUnknownNodeIsFinal(t *testing.T) {
	p := newNATSPlane(t)
	p.set(func() { p.fail = "node_not_found" })
	err := p.follower(origin).Run(t.Context(), func(Event) error { return nil })
	require.ErrorIs(t, err, ErrUnknownNode)
	var status *StatusError
	require.ErrorAs(t, err, &status)
	require.Equal(t, "node_not_found", status.Code)
}

// lose has a change of db lost without any hint, and tells another after it.
func (p *natsPlane) lose(r *reader, rules string) (lost policy.EventID) {
	p.set(func() { p.silent = true })
	lost = p.publish(db, rules)
	p.set(func() {
		p.silent = false
		p.prev = r.last // what is told next does not know of it
	})
	r.want(p.publish(web, rulesB))
	return lost
}

func TestOverNATSWhatWasLostWithoutAHintIsPulled(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(origin)
	r := p.read(f)
	p.awaitAnswers(1)
	r.want(p.publish(web, rulesA))
	p.lose(r, rulesB)
	require.Len(t, f.Rows(), 1)
	p.pulls()
	p.set(func() { p.prev = p.next(1) })
	hint := p.publish(uuid.UUID{15: 3}, rulesB)
	r.want(hint)
	e := r.pulled()
	require.Equal(t, policy.EndOf(fakeBase, p.head), e.ID, "it can no longer come in its place")
	r.last = e.ID
	require.Equal(t, "resync", e.Reason)
	require.Len(t, f.Rows(), 2)
	r.want(p.publish(db, rulesA))
}

// A row that the node has may get a new id, by new labels: it is told on resume
// and not live.
func TestOverNATSWhatComesLateAndIsKnownIsNothing(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(origin)
	r := p.read(f)
	p.awaitAnswers(1)
	r.want(p.publish(db, rulesA))
	third, fourth := uuid.UUID{15: 3}, uuid.UUID{15: 4}
	r.want(p.publish(third, rulesB))
	r.want(p.publish(third, "[]"))
	p.set(func() {
		for i, m := range []msg{{0, db, rulesA}, {0, third, "[]"}, {0, fourth, "[]"}} {
			m.id = policy.NewEventID(p.base, p.head+1, uint32(i)) //nolint:gosec // small
			p.last[m.policy.String()] = m
		}
		p.head++
	})
	r.want(p.publish(web, rulesA))
	p.set(func() { p.silent = true })
	p.publish(web, "[]") // superseded before it is asked for
	p.set(func() { p.silent = false })
	hint := p.publish(web, rulesB)
	r.want(hint)
	r.want(p.publish(db, rulesB))
	p.awaitAnswers(1)
	require.Zero(t, p.plane.pulls)
}

func TestOverNATSAWordToPullPullsAndGoesOn(t *testing.T) {
	p := newNATSPlane(t)
	one := p.publish(web, rulesA)
	p.pulls()
	f := p.follower(0)
	r := p.read(f)
	e := r.pulled()
	require.Less(t, e.ID, one, "what stands above it follows")
	require.Len(t, e.Pulled.Rows, 1)
	require.True(t, r.want(one).Covered)
	require.False(t, r.want(p.publish(web, rulesB)).Covered)

	t.Run("a log that was made anew", func(t *testing.T) {
		for name, base := range map[string]uint64{"from above": 5000, "from below": 10} {
			p.stop()
			p.set(func() {
				p.base, p.log, p.head = base, name, 7
				p.last, p.prev = map[string]msg{}, 0
				p.silent = true
			})
			only := p.publish(db, rulesA)
			p.pulls()
			p.set(func() { p.silent = false })
			p.start()
			e := r.pulled()
			require.Less(t, e.ID, only)
			require.Len(t, f.Rows(), 1)
			r.last = 0
			require.True(t, r.want(only).Covered)
			require.False(t, r.want(p.publish(web, rulesB)).Covered)
			require.Equal(t, []string{rulesB, rulesA}, []string{string(f.Rows()[0].Rules), string(f.Rows()[1].Rules)})
		}
	})
	t.Run("one that lost its tail", func(t *testing.T) {
		p.set(func() {
			p.prev, p.silent = 0, true
			for name, m := range p.last {
				seq := p.seqOf(m.id)
				p.last[name] = msg{policy.NewEventID(9000, seq, 1), m.policy, m.rules}
			}
			p.base = 9000
		})
		p.publish(db, "[]")
		p.pulls()
		p.set(func() { p.tell(p.last[db.String()], 0, p.envelope(p.last[db.String()])) }) // not believed: its base is new
		r.pulled()
		require.True(t, r.next().Covered)
		require.True(t, r.next().Covered)
		require.Len(t, f.Rows(), 1)
	})
}

func TestOverNATSALiveWordToPullIsHeeded(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(origin)
	r := p.read(f)
	p.awaitAnswers(1)
	one := p.publish(web, rulesA)
	r.want(one)
	p.pulls()
	end := policy.EndOf(fakeBase, p.head)
	p.set(func() { p.word(end, one, "datapath"); p.prev = end })
	e := r.pulled()
	require.Equal(t, end, e.ID)
	require.Equal(t, "datapath", e.Reason)
	r.last = e.ID
	p.set(func() { p.word(end, one, "datapath") }) // of the other publisher
	r.want(p.publish(db, rulesA))
	require.Equal(t, 1, p.plane.pulls)

	// Below what was told: one that was not heard yet, and one to resync always.
	late := policy.EndOf(fakeBase, p.head-1)
	p.set(func() { p.word(late, end, "datapath") })
	require.Equal(t, r.last, r.pulled().ID)
	for range 2 {
		p.set(func() { p.word(at(3), 0, "resync") })
		e = r.pulled()
		require.Equal(t, r.last, e.ID)
		require.Equal(t, "resync", e.Reason)
	}
	require.Equal(t, 4, p.plane.pulls)
	// And above a hole, which is asked for.
	p.set(func() { p.silent = true })
	lost := p.publish(web, rulesB)
	p.set(func() { p.silent = false; p.word(policy.EndOf(fakeBase, p.head+1), lost, "resync") })
	r.pulled()
	r.want(lost)
}

// fails has the next pulls of a state fail, as of a worker that goes away meanwhile.
type fails struct{ next atomic.Int64 }

func (f *fails) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/state") && f.next.Add(-1) >= 0 {
		return nil, errors.New("the worker went away")
	}
	return http.DefaultTransport.RoundTrip(r)
}

// What could not be handled comes again, whether it was live or in an answer, and so does
// what came with it.
func TestOverNATSAPullThatFailsLosesNothing(t *testing.T) {
	const conflict = `[{"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"},` +
		`{"action":"deny","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}]`
	third := uuid.UUID{15: 3}
	p := newNATSPlane(t)
	var pulls fails
	f := p.follower(origin, func(o *Options) { o.HTTP = &http.Client{Transport: &pulls} })
	defer http.DefaultClient.CloseIdleConnections()
	r := p.read(f)
	p.awaitAnswers(1)

	pulls.next.Store(2)
	e := r.want(p.publish(web, conflict))
	require.NotNil(t, e.Pulled)
	require.False(t, e.Again, "nobody heard of it before")

	p.set(func() { p.silent = true })
	pulls.next.Store(2)
	lost := []policy.EventID{p.publish(db, rulesA), p.publish(third, rulesB)}
	p.set(func() { p.silent = false })
	lost = append(lost, p.publish(db, rulesB))
	for _, id := range lost[1:] { // the answer has the newest of each policy
		require.NotNil(t, r.want(id).Pulled)
	}
	require.Len(t, f.Rows(), 3)

	p.pulls()
	for name, id := range map[string]policy.EventID{"old": at(3), "next": policy.EndOf(fakeBase, p.head)} {
		pulls.next.Store(2)
		p.set(func() { p.word(id, 0, "resync") })
		require.Len(t, r.pulled().Pulled.Rows, 3, name)
		require.Negative(t, pulls.next.Load(), name)
	}
	r.want(p.publish(third, rulesA))
}

// Who ends it between two events of an answer begins with the second.
func TestOverNATSWhoStopsGoesOnThere(t *testing.T) {
	p := newNATSPlane(t)
	f := p.follower(origin)
	want := []policy.EventID{p.publish(web, rulesA), p.publish(db, rulesA), p.publish(uuid.UUID{15: 3}, rulesA)}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var got []policy.EventID
	for range want {
		for e, err := range f.Events(ctx) {
			require.NoError(t, err)
			got = append(got, e.ID)
			break
		}
	}
	require.Equal(t, want, got)
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
	p.set(func() { p.fail = "behind" })
	r := p.read(f)
	p.awaitAnswers(2)
	p.set(func() { p.fail = "" })
	p.awaitAnswers(1)
	r.want(p.publish(db, rulesB))
	require.Len(t, f.Rows(), 2, "what it has, and what came")
	require.Equal(t, r.last, f.Position())
	require.Zero(t, p.plane.pulls)
	p.set(func() {
		for _, id := range p.asked[:3] {
			require.Zero(t, id, "a pull is a question after nothing")
		}
	})

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
			publish := func(about uuid.UUID, rules string) policy.EventID {
				id := p.publish(about, rules)
				p.add(msg{id, about, rules})
				return id
			}
			enough := errors.New("enough")
			one := func(f *Follower) (got Event) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				require.ErrorIs(t, f.Run(ctx, func(e Event) error { got = e; return enough }), enough)
				return got
			}
			first, second := publish(web, rulesA), publish(db, rulesB)
			require.Equal(t, first, one(make()).ID)
			f := make()
			require.Equal(t, second, one(f).ID, "not again what was told before")
			require.Len(t, f.Rows(), 2, "what was told before is still there")
			f = make()
			id := publish(web, "[]")
			require.Equal(t, id, one(f).ID)
			require.Len(t, f.Rows(), 1)
			require.Equal(t, 1, p.plane.pulls, "one pull, by the first of them")
			said, ok := f.Report()
			require.True(t, ok, "the rows are as complete as those that were kept")
			require.Equal(t, id, said.Event)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Contains(t, string(text), `"event_id":"`+id.String()+`"`, "ids are strings")

			var kept *StateFileError
			other := NewFollower(p.http, "n2", Options{State: path})
			require.ErrorAs(t, other.Run(t.Context(), func(Event) error { return nil }), &kept)
		})
	}
}

// A state that can never be kept is no state to go on from: that is said at once.
func TestAStateFileNeedsItsDirectory(t *testing.T) {
	_, url := newPlane(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	opt := hasty(0)
	opt.From, opt.State = nil, filepath.Join(t.TempDir(), "nowhere", "state.json")
	var kept *StateFileError
	require.ErrorAs(t, NewFollower(url, self, opt).Run(ctx, func(Event) error { return nil }), &kept)
	require.ErrorContains(t, kept, "nowhere: no such file or directory; make the directory")
	opt.State = os.DevNull
	require.ErrorAs(t, NewFollower(url, self, opt).Run(ctx, func(Event) error { return nil }), &kept)
	require.ErrorContains(t, kept, "not a regular file; name one that may be replaced")
}

// A file of before there were event ids keeps the rows, and pulls.
func TestAnOldStateFilePulls(t *testing.T) {
	p := newNATSPlane(t)
	path := filepath.Join(t.TempDir(), "state.json")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `{"node":"n1","seq":1763836800000042,"policies":[
		{"policy_id":%q,"version":1763836800000040,"revision_id":%q,"rules":%s},{"policy_id":%q,"version":9,"revision_id":%q,"rules":null}]}`,
		web, web, rulesA, db, db), 0o600))
	one := p.publish(db, rulesB)
	p.pulls()
	f := p.follower(0, func(o *Options) { o.State = path })
	require.NoError(t, f.restore())
	require.Len(t, f.Rows(), 1)
	_, ok := f.Report()
	require.False(t, ok, "nobody knows whether these are all")
	r := p.read(f)
	require.Len(t, r.pulled().Pulled.Rows, 1)
	require.True(t, r.want(one).Covered)
	require.Equal(t, rulesB, string(f.Merged().Rules))
	p.set(func() { require.Zero(t, p.asked[0]) })
}

// What is live may be told before what was lost without a hint, so a state file
// does not vouch for it.
func TestAStateFileStandsWhereNothingIsMissing(t *testing.T) {
	p := newNATSPlane(t)
	keep := filepath.Join(t.TempDir(), "state.json")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := p.follower(origin, func(o *Options) { o.State = keep })
	got, done := make(chan policy.EventID), make(chan error)
	go func() { done <- f.Run(ctx, func(e Event) error { got <- e.ID; return nil }) }()
	p.awaitAnswers(1)
	first := p.publish(web, rulesA)
	require.Equal(t, first, <-got)
	p.set(func() { p.silent = true })
	lost := p.publish(db, rulesB)
	p.set(func() { p.silent = false; p.prev = first })
	told := p.publish(web, rulesB)
	require.Equal(t, told, <-got)
	cancel()
	require.NoError(t, <-done)

	r := p.read(p.follower(0, func(o *Options) { o.State = keep }))
	r.want(lost)
	r.want(p.publish(web, "[]"))
}

// What is restored is what was saved, to the byte, or it is not restored.
func TestAStateFileKeepsTheRulesAsTheyStood(t *testing.T) {
	p := newNATSPlane(t)
	path := filepath.Join(t.TempDir(), "state.json")
	make := func() *Follower { return NewFollower(p.http, self, Options{State: path}) }
	const rules = `[{"note":"a<b>c&d"}]`
	p.publish(web, rules)
	p.pulls()
	f := make()
	require.NoError(t, f.prepare(t.Context()))
	require.Len(t, f.Rows(), 1)
	want, _ := f.Report()
	f = make()
	require.NoError(t, f.restore())
	require.Equal(t, rules, string(f.Rows()[0].Rules))
	got, ok := f.Report()
	require.True(t, ok)
	require.Equal(t, want, got)

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(text, []byte("a<b"), []byte("a<d"), 1), 0o600))
	var kept *StateFileError
	require.ErrorAs(t, make().restore(), &kept)
	require.ErrorContains(t, kept, "are not those that were written; remove it to begin anew")

	require.NoError(t, os.Remove(path))
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	require.ErrorAs(t, make().restore(), &kept)
	require.ErrorContains(t, kept, "not a regular file")
}
