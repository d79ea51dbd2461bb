package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

var web, db = uuid.UUID{15: 1}, uuid.UUID{15: 2}

const (
	base  = 1000
	allow = `[{"protocol":"any","note":"< & > \u00e4"}]`
	deny  = `[{"action":"deny","ports":[443,8080]}]`
)

// plane is a fake one: it seals with the plane's own code.
type plane struct {
	t  *testing.T
	nc *nats.Conn

	mu       sync.Mutex
	keys     artifact.Keys
	log      string
	head     uint64
	prev     policy.EventID
	last     map[uuid.UUID]change // by policy
	fail     string
	resync   bool
	asked    []string
	answered chan struct{}
	out      chan string
}

type change struct {
	id     policy.EventID
	policy uuid.UUID
	rules  string
}

// follow starts the example against a new fake plane.
func follow(t *testing.T) (p *plane, ended chan error) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(20*time.Second))
	signer, err := artifact.GenerateSigner()
	require.NoError(t, err)
	p = &plane{t: t, keys: artifact.Keys{Current: signer}, log: "1", head: 10, last: map[uuid.UUID]change{}, answered: make(chan struct{}, 100), out: make(chan string, 100)}
	p.nc, err = nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(p.nc.Close)
	_, err = p.nc.Subscribe("edict.replay.node.*", p.answer)
	require.NoError(t, err)
	require.NoError(t, p.nc.Flush())
	p.prev = policy.EndOf(base, p.head)
	ended = make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- run(ctx, s.ClientURL(), "", "n1", p.shown(), func(policy string, r row) {
			p.out <- fmt.Sprint(r.id, " ", policy, " ", string(r.rules))
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Error("it did not end")
		}
	})
	return p, ended
}

// shown is what the plane shows at /v1/keys.
func (p *plane) shown() []byte {
	return fmt.Appendf(nil, `{"items":[{"key_id":%q,"alg":"ed25519","plane":"policy","public_key":%q,"status":"current","not_after":null}]}`,
		p.keys.Current.KeyID(), base64.StdEncoding.EncodeToString(p.keys.Current.PublicKey()))
}

func (p *plane) answer(m *nats.Msg) {
	var q struct{ After policy.EventID }
	require.NoError(p.t, json.Unmarshal(m.Data, &q))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, string(m.Data))
	defer func() { p.answered <- struct{}{} }()
	if p.fail != "" {
		require.NoError(p.t, p.nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: nats.Header{"Edict-Error": {p.fail}}}))
		p.fail = ""
		return
	}
	if notice, ok := p.keys.AppendRotation(policy.DialectCurrent, nil, "n1", time.Now()); ok {
		require.NoError(p.t, p.nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: nats.Header{"Edict-Event": {"signing_key_rotated"}}, Data: notice}))
	}
	var list []change
	for _, c := range p.last {
		if c.id > q.After {
			list = append(list, c)
		}
	}
	for i := range list { // ascending
		for j := range list[:i] {
			if list[j].id > list[i].id {
				list[i], list[j] = list[j], list[i]
			}
		}
	}
	p.send(0, m.Reply, list...)
	end := nats.Header{"Edict-Up-To": {policy.EndOf(base, p.head).String()}, "Edict-Log": {p.log}, "Edict-Log-Seq": {fmt.Sprint(p.head)}}
	if p.resync || q.After < policy.NewEventID(base, 0, 0) {
		end.Set("Edict-Resync", "true")
		p.resync = false
	}
	require.NoError(p.t, p.nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: end}))
}

// send seals changes in one run.
func (p *plane) send(prev policy.EventID, to string, list ...change) {
	var run []artifact.Message
	for _, c := range list {
		run = append(run, artifact.Message{Node: "n1", Policy: c.policy, Revision: c.policy, Version: p.seq(c.id), GeneratedAt: time.Now()})
	}
	p.seal(prev, to, run, list...)
}

func (p *plane) seq(id policy.EventID) uint64 {
	seq, ok := id.Seq(base)
	require.True(p.t, ok)
	return seq
}

// seal seals a run, and sends it under the ids of changes.
func (p *plane) seal(prev policy.EventID, to string, run []artifact.Message, list ...change) {
	for i := range run {
		rules, err := artifact.PrepareRules([]byte(list[i].rules), 0)
		require.NoError(p.t, err)
		run[i].Rules = rules
	}
	_, err := p.keys.Current.SealRuns(nil, run, func(i int, wire []byte) {
		subject := to
		if subject == "" {
			subject = "edict.node.n1." + list[i].policy.String()
		}
		require.NoError(p.t, p.nc.PublishMsg(&nats.Msg{Subject: subject, Data: wire, Header: nats.Header{
			"Edict-Event-Id": {list[i].id.String()}, "Edict-Prev": {prev.String()}, "Edict-Log": {p.log},
		}}))
		prev = list[i].id
	})
	require.NoError(p.t, err)
}

// change changes rows; those that are lost are told to nobody.
func (p *plane) change(lost bool, list ...change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range list {
		p.head++
		list[i].id = policy.NewEventID(base, p.head, 3)
		p.last[list[i].policy] = list[i]
	}
	if !lost {
		p.send(p.prev, "", list...)
	}
	p.prev = list[len(list)-1].id
}

func (p *plane) want(policy uuid.UUID, rules string) {
	p.t.Helper()
	select {
	case line := <-p.out:
		require.Regexp(p.t, `^\d+ `+policy.String()+` `, line)
		require.Equal(p.t, rules, strings.SplitN(line, " ", 3)[2])
	case <-time.After(20 * time.Second):
		require.FailNow(p.t, "nothing came")
	}
}

func (p *plane) wait() {
	p.t.Helper()
	select {
	case <-p.answered:
	case <-time.After(20 * time.Second):
		require.FailNow(p.t, "nobody asked")
	}
}

func TestTheExampleFollows(t *testing.T) {
	p, _ := follow(t)
	p.wait() // on connect: after nothing
	p.wait() // and because it was told to
	require.Equal(t, []string{`{"after":"0"}`, `{"after":"0"}`}, p.asked)

	p.change(false, change{policy: web, rules: allow}, change{policy: db, rules: deny}) // one run
	p.want(web, allow)
	p.want(db, deny)
	first := p.last[web]
	p.change(false, change{policy: web, rules: "[]"}) // signed alone
	p.want(web, "[]")
	require.Len(t, p.asked, 2, "what is live and whole costs no question")

	// An old message under an id to come is of no log that is known: it asks.
	p.mu.Lock()
	old := artifact.Message{Node: "n1", Policy: web, Revision: web, Version: p.seq(first.id), GeneratedAt: time.Now()}
	p.seal(p.prev, "", []artifact.Message{old}, change{policy.NewEventID(base, 99, 3), web, allow})
	p.mu.Unlock()
	p.wait()
	require.Empty(t, p.out)

	// What was lost shows at the next message.
	p.change(true, change{policy: web, rules: deny})
	p.change(false, change{policy: db, rules: allow})
	p.want(web, deny)
	p.want(db, allow)
	p.wait()

	// Doubles, and what is forged, say nothing.
	p.mu.Lock()
	stranger, err := artifact.GenerateSigner()
	require.NoError(t, err)
	own := p.keys.Current
	p.send(0, "", first, p.last[db], p.last[web])
	p.keys.Current = stranger
	p.send(p.prev, "", change{policy.NewEventID(base, 99, 3), web, "[]"})
	p.keys.Current = own
	p.send(p.prev, "edict.node.n1."+web.String(), change{policy.NewEventID(base, 99, 3), db, "[]"})
	p.mu.Unlock()
	p.wait() // whether the stranger's key is the plane's new one
	p.change(false, change{policy: web, rules: allow})
	p.want(web, allow)

	// A worker that is behind is asked again.
	p.mu.Lock()
	p.fail = "behind"
	p.mu.Unlock()
	p.change(true, change{policy: db, rules: deny})
	p.change(false, change{policy: db, rules: allow}, change{policy: web, rules: deny})
	p.wait()
	p.wait()
	p.want(web, deny)
	require.Empty(t, p.out, "db says what it said")

	// What was lost without a hint, and comes with an answer when its place has passed.
	p.mu.Lock()
	before := p.prev
	p.mu.Unlock()
	p.change(true, change{policy: db, rules: deny})
	p.mu.Lock()
	p.prev = before
	p.mu.Unlock()
	p.change(false, change{policy: web, rules: allow})
	p.want(web, allow)
	p.change(true, change{policy: web, rules: "[]"})
	p.change(false, change{policy: web, rules: deny})
	p.wait()
	p.wait()
	for _, line := range []string{<-p.out, <-p.out} { // of a pull, ascending by id
		require.Regexp(t, web.String()+`|`+db.String(), line)
	}

	// A new key is announced by the one before it.
	next, err := artifact.GenerateSigner()
	require.NoError(t, err)
	p.mu.Lock()
	p.keys = artifact.Keys{Current: next, Previous: own, Until: time.Now().Add(time.Hour)}
	p.mu.Unlock()
	p.change(false, change{policy: web, rules: "[]"})
	p.want(web, "[]")
	p.wait()

	// What it lost is not known: it takes all anew, and so from a log made anew.
	p.mu.Lock()
	p.resync = true
	delete(p.last, db)
	p.mu.Unlock()
	p.change(true, change{policy: web, rules: allow})
	p.change(false, change{policy: web, rules: deny})
	p.want(web, deny)
	p.want(db, "[]")
	p.mu.Lock()
	p.log, p.head, p.last, p.prev = "2", 2, map[uuid.UUID]change{}, 0
	p.mu.Unlock()
	p.mu.Lock()
	p.resync = true
	p.mu.Unlock()
	p.change(false, change{policy: db, rules: deny}) // not believed: it asks
	p.want(db, deny)
	p.want(web, "[]")
	p.change(false, change{policy: db, rules: allow})
	p.want(db, allow)
}

func TestTheExampleEndsWhereThereIsNoSuchNode(t *testing.T) {
	p, ended := follow(t)
	p.mu.Lock()
	p.fail = "node_not_found"
	p.mu.Unlock()
	p.change(true, change{policy: db, rules: deny})
	for range 2 { // the first question may have been answered already
		select {
		case err := <-ended:
			require.ErrorContains(t, err, "node_not_found")
			ended <- nil
			return
		case <-p.answered:
			p.change(true, change{policy: db, rules: deny})
			p.change(false, change{policy: db, rules: deny})
		}
	}
	err := <-ended
	require.ErrorContains(t, err, "node_not_found")
	ended <- nil
}

// A plane that is away is asked less and less often, and not by all nodes at once.
func TestThePausesOfTheExampleGrow(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 20 {
		p := leastPause
		for _, whole := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000} {
			whole *= time.Millisecond
			got := p.next()
			require.GreaterOrEqual(t, got, whole/2)
			require.LessOrEqual(t, got, whole)
			seen[got] = true
		}
	}
	require.Greater(t, len(seen), 100)
}

// The numbers of the page are those that the code makes.
func TestTheProofOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../nodes-on-nats.md")
	require.NoError(t, err)
	leaf := func(text string) [32]byte { return sha256.Sum256(append([]byte{0}, text...)) }
	node := func(a, b [32]byte) [32]byte { return sha256.Sum256(append(append([]byte{1}, a[:]...), b[:]...)) }
	h0, h1, h2 := leaf(`{"n":0}`), leaf(`{"n":1}`), leaf(`{"n":2}`)
	h01 := node(h0, h1)
	root := node(h01, h2)
	got, ok := climb(h1, 1, 3, append(h0[:], h2[:]...))
	require.True(t, ok)
	require.Equal(t, root, got)
	signed := append(binary.BigEndian.AppendUint64([]byte("edict/batch/v1\n"), 3), root[:]...)
	for name, sum := range map[string][]byte{"leaf 0": h0[:], "leaf 1": h1[:], "leaf 2": h2[:], "0 and 1": h01[:], "root": root[:], "signed": signed} {
		require.Contains(t, string(page), hex.EncodeToString(sum), name)
	}
	require.Contains(t, string(page), base64.StdEncoding.EncodeToString(append(h0[:], h2[:]...)))
}
