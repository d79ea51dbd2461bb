package plane

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/policy"
)

// patience bounds what must come.
const patience = 30 * time.Second

// pass is one set of credentials for the NATS server.
type pass struct {
	token, creds string // one of them
}

func (p pass) shown() nats.Option {
	if p.creds != "" {
		return nats.UserCredentials(p.creds)
	}
	return nats.Token(p.token)
}

// overlap makes two passes of one principal, both good until revoke ends the
// first.
func (g *guarded) overlap(t *testing.T, kind policy.PrincipalKind, id string, relations ...string) (old, fresh pass, revoke func()) {
	if g.out != nil {
		return g.out.overlap(t, kind, id, relations...)
	}
	root := who{g, "root"}
	first, keptFirst := access.NewToken(uuid.New(), time.Time{})
	second, keptSecond := access.NewToken(uuid.New(), time.Time{})
	put := func(tokens ...policy.Token) {
		doc := policy.AppendPrincipal(nil, policy.Principal{Kind: kind, Tokens: tokens})
		require.NoError(t, root.http("PUT", "/v1/access/principals/"+id, string(doc)))
	}
	put(keptFirst, keptSecond)
	for _, r := range relations {
		require.NoError(t, root.http("POST", "/v1/access/principals/"+id+"/relations", `{"relation":"`+r+`"}`))
	}
	return pass{token: first}, pass{token: second}, func() { put(keptSecond) }
}

func (o *outside) overlap(t *testing.T, kind policy.PrincipalKind, id string, relations ...string) (old, fresh pass, revoke func()) {
	issue := func(file string) (p pass, user string) {
		var c access.NATSCredentials
		var err error
		if kind == policy.Agent {
			c, err = o.Node(policy.NodeID(id), time.Time{})
		} else {
			c, err = o.Producer(policy.PrincipalID(id), parseRelations(t, relations...), time.Time{})
		}
		require.NoError(t, err)
		p.creds = filepath.Join(t.TempDir(), file)
		require.NoError(t, c.Write(p.creds))
		return p, c.User
	}
	old, user := issue("old.creds")
	fresh, _ = issue("fresh.creds")
	return old, fresh, func() {
		_, err := o.Revoke(t.Context(), user)
		require.NoError(t, err)
		o.print()
		require.NoError(t, o.server.Reload())
	}
}

// hearing is a follower of a node, and what it heard.
type hearing struct {
	t    *testing.T
	stop func()

	mu      sync.Mutex
	heard   map[uuid.UUID]int
	trouble []error
	f       *node.Follower
}

// hear follows a node over NATS from everything that it has, or from where
// the state file stands.
func (g *guarded) hear(t *testing.T, id, state string, p pass) *hearing {
	keys, err := who{g, "root"}.body("GET", "/v1/keys", "")
	require.NoError(t, err)
	trust, err := node.ParseKeys(keys)
	require.NoError(t, err)
	h := &hearing{t: t, heard: map[uuid.UUID]int{}}
	h.f = node.NewFollower("", policy.NodeID(id), node.Options{
		NATS: g.at.NATS, Token: p.token, Creds: p.creds, TLS: g.trust, Trust: trust, State: state, From: new(policy.EventID),
		MinWait: 10 * time.Millisecond, MaxWait: 50 * time.Millisecond, AskEvery: 50 * time.Millisecond,
		Trouble: func(err error, _ time.Duration) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.trouble = append(h.trouble, err)
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- h.f.Run(ctx, func(e node.Event) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if e.Policy != nil {
				h.heard[e.Policy.PolicyID]++
				return nil
			}
			for _, r := range h.f.Rows() { // an event that comes behind a pull which had it is not told
				h.heard[r.Policy]++
			}
			return nil
		})
	}()
	h.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(h.stop)
	return h
}

// times is how often a policy was told.
func (h *hearing) times(id string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.heard[uuid.MustParse(id)]
}

func (h *hearing) await(id string) {
	require.Eventually(h.t, func() bool { return h.times(id) > 0 }, patience, time.Millisecond, "policy %s is heard", id)
}

func (h *hearing) errors() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := errors.Join(h.trouble...); err != nil {
		return err.Error()
	}
	return ""
}

// misdirected has the plane answer a node's own question into the inbox of
// another, at the very place where that one waits for an answer: the other
// refuses what is signed for somebody else, and misses nothing.
func (g *guarded) misdirected(t *testing.T) {
	foreign := g.tell(t, "of-n1-alone", "node=n1")
	mine := pass{token: g.tokens["n2"]}
	if g.out != nil {
		mine = pass{creds: g.out.creds["n2"]}
	}
	victim := g.hear(t, "n2", "", mine)
	spy, err := who{g, "n2"}.nats()
	require.NoError(t, err)
	answers, err := spy.SubscribeSync("_INBOX.n2.>")
	require.NoError(t, err)
	attacker, err := who{g, "n1"}.nats()
	require.NoError(t, err)
	for deadline := time.Now().Add(patience); !strings.Contains(victim.errors(), "n1"); {
		require.True(t, time.Now().Before(deadline), "the answer was refused: %s", victim.errors())
		m, err := answers.NextMsg(patience)
		require.NoError(t, err)
		dot := strings.LastIndexByte(m.Subject, '.')
		asked, err := strconv.Atoi(m.Subject[dot+1:])
		if err != nil {
			continue // not of the follower
		}
		for n := range 5 {
			require.NoError(t, attacker.PublishRequest("edict.replay.node.n1", fmt.Sprint(m.Subject[:dot+1], asked+1+n), []byte(`{"after":"0"}`)))
		}
	}
	require.NoError(t, attacker.LastError())
	victim.await(g.tell(t, "of-n2-alone", "node=n2"))
	require.Zero(t, victim.times(foreign))
	victim.stop()
}

// rotated changes the credentials of a node and of a producer while both are at
// work: nothing that is good is lost or refused, and nothing passes with what
// was revoked.
func (g *guarded) rotated(t *testing.T) {
	const rounds, at = 30, 10 // the first credentials end after at
	const project = "project:" + ours + "#operator"
	old, fresh, revoke := g.overlap(t, policy.Agent, "n8", "node:"+ours+"/n8#agent")
	oldP, freshP, revokeP := g.overlap(t, policy.Service, "feed", project)
	require.NoError(t, who{g, "root"}.http("PUT", "/v1/projects/"+ours+"/nodes/n8", `{"labels":{"rotates":"yes"}}`))
	connect := func(p pass, prefix string, opts ...nats.Option) (*nats.Conn, error) {
		nc, err := nats.Connect(g.at.NATS, append(opts, nats.Secure(g.trust), p.shown(), nats.CustomInboxPrefix("_INBOX."+prefix), nats.NoReconnect(),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
		if err == nil {
			t.Cleanup(nc.Close)
		}
		return nc, err
	}
	gone := make(chan struct{}, 2)
	closed := func() nats.Option { return nats.ClosedHandler(func(*nats.Conn) { gone <- struct{}{} }) }
	held, err := connect(old, "n8", closed())
	require.NoError(t, err)
	first, err := connect(oldP, "feed", closed())
	require.NoError(t, err)
	second, err := connect(freshP, "feed")
	require.NoError(t, err)
	acknowledged := 0
	push := func(nc *nats.Conn, name string) error {
		fact := fmt.Sprintf(`{"id":%q,"type":"node_updated","project_id":%q,"node_id":%q,"labels":{},"addresses":[]}`, uuid.New(), ours, name)
		m, err := nc.Request("edict.log."+ours+".node."+name, []byte(fact), patience)
		if err == nil && !strings.Contains(string(m.Data), `"seq":`) {
			err = fmt.Errorf("answer %s", m.Data)
		}
		if err == nil {
			acknowledged++
		}
		return err
	}

	before := g.head()
	state := filepath.Join(t.TempDir(), "state")
	earlier := g.hear(t, "n8", state, old)
	listener := earlier
	var told []string
	for i := range rounds {
		name := "fed-" + strconv.Itoa(i)
		told = append(told, g.tell(t, name, "rotates=yes"))
		if i < at { // both are good
			require.NoError(t, push(first, name))
		}
		require.NoError(t, push(second, name))
		switch i {
		case at / 2: // a new process goes on where the old one was
			listener.await(told[0])
			listener.stop()
			listener = g.hear(t, "n8", state, fresh)
		case at:
			revoke()
			revokeP()
		}
	}
	for range 2 {
		select {
		case <-gone:
		case <-time.After(patience):
			t.Fatal("a connection stands that was made with what is revoked")
		}
	}
	require.Error(t, push(first, "fed-late"))
	require.Error(t, held.Publish("edict.report.node.n8", []byte("{}")))
	_, err = connect(old, "n8")
	require.Error(t, err, "what was revoked opens nothing")
	_, err = connect(oldP, "feed")
	require.Error(t, err)
	listener.await(told[rounds-1])
	listener.stop()
	require.Empty(t, listener.errors(), "the fresh credentials were never refused")
	for i, id := range told {
		require.NotZero(t, earlier.times(id)+listener.times(id), "policy %d is heard", i)
	}
	require.Len(t, listener.f.Rows(), rounds)
	written := acknowledged + rounds
	if g.out == nil {
		written += 2 // a revocation is an event where the plane knows the credentials
	}
	require.Equal(t, before+uint64(written), g.head(), "what was acknowledged is in the log, and nothing else")
}
