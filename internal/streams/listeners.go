package streams

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// Listeners knows who listens on the subjects of nodes, so that what nobody
// listens to need not be published. It may think of somebody who is gone, and
// never forgets one who is there.
//
// An embedded server that stands alone knows its subscriptions, those of streams
// too. Of other servers two things are known: who listens asks for what it
// missed every ListenerAsks (edict.replay.node.<id>), and that is overheard; and
// streams over the subjects can be listed.
type Listeners struct {
	c    *Conn
	most time.Duration // maxListener

	mu      sync.Mutex
	inserts uint64 // of the embedded server's subscriptions, when it was found that none is about nodes
	none    bool

	heard  map[policy.NodeID]question
	since  time.Time // from then on everything was overheard; zero: nothing is
	looked time.Time // when streams were listed last
	stored []string  // subjects of streams over those of nodes; never changed in place
	fresh  Fresh
	wake   chan struct{}
	turns  uint64 // how often what was overheard said something else
}

// question is the last that a node asked.
type question struct {
	at       time.Time
	enforces bool
}

// Fresh is who was found to listen since the last look. What it missed in
// the moment before that must be sent.
type Fresh struct {
	Nodes []policy.NodeID
	All   bool // a stream was found
}

// ListenerAsks is how often a node that listens asks what it missed.
const ListenerAsks = 30 * time.Second

// Times of what is overheard: how long a node that asked is thought to listen,
// and how often streams are looked for.
const (
	maxListener = 4 * ListenerAsks
	streamLook  = 2 * time.Second
	maxLook     = 2 * streamLook // without an answer, there may be one
)

// NewListeners makes it; Run keeps it.
func NewListeners(c *Conn) *Listeners {
	return &Listeners{c: c, most: maxListener, heard: map[policy.NodeID]question{}, wake: make(chan struct{}, 1)}
}

// account is that of the embedded server where there is one and it is up; nil:
// ask otherwise.
func (l *Listeners) account() (*server.Server, *server.Account) {
	s := l.c.server
	if s == nil {
		return nil, nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.run == nil {
		return nil, nil
	}
	return s.run, s.run.GlobalAccount()
}

// exact reports whether the server says who listens.
func (l *Listeners) exact() bool {
	_, a := l.account()
	return a != nil
}

// Run overhears until ctx ends.
func (l *Listeners) Run(ctx context.Context) error {
	sub, err := l.c.nc.Subscribe(wire.PrefixReplay+"*", l.overhear)
	if err != nil {
		return fmt.Errorf("overhear who asks for replays: %w", err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only when the connection is gone
	for {
		down, err := l.c.link.await(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("overhear who asks for replays: %w", err)
		}
		l.begin()
		l.watch(ctx, down)
	}
}

// begin counts from now: before, somebody may have asked whom nobody heard.
func (l *Listeners) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = time.Now()
}

// watch looks for streams until the connection is lost.
func (l *Listeners) watch(ctx, down context.Context) {
	for down.Err() == nil {
		l.look(ctx)
		wait, cancel := context.WithTimeout(ctx, streamLook)
		stop := context.AfterFunc(down, cancel)
		<-wait.Done()
		stop()
		cancel()
		if ctx.Err() != nil {
			return
		}
	}
}

// look looks for streams.
func (l *Listeners) look(ctx context.Context) {
	began := time.Now()
	subjects, err := l.c.stored(ctx)
	if err != nil {
		return
	}
	l.mu.Lock()
	l.looked = began
	l.mu.Unlock()
	l.found(subjects)
}

func (l *Listeners) found(stored []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stream, was := len(stored) > 0, len(l.stored) > 0
	if stream && !was && !l.exact() {
		l.fresh.All = true
		l.kick()
	}
	if stream != was {
		l.turns++
	}
	l.stored = stored
	for id, q := range l.heard {
		if time.Since(q.at) > l.most {
			delete(l.heard, id)
			l.turns++
		}
	}
}

func (l *Listeners) overhear(m *nats.Msg) {
	id, err := policy.ParseNodeID(strings.TrimPrefix(m.Subject, wire.PrefixReplay))
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	was, known := l.heard[id]
	if !known && !l.exact() {
		l.fresh.Nodes = append(l.fresh.Nodes, id)
		l.kick()
	}
	var q struct {
		Tables bool `json:"tables"`
	}
	_ = json.Unmarshal(m.Data, &q) // whoever answers says what is wrong with it
	l.heard[id] = question{time.Now(), q.Tables}
	if !known || was.enforces != q.Tables {
		l.turns++
	}
}

// Stored reports whether a stream takes in what is published on a subject, as far as was
// known some seconds ago.
func (l *Listeners) Stored(subject string) bool {
	l.mu.Lock()
	stored := l.stored
	l.mu.Unlock()
	return slices.ContainsFunc(stored, func(s string) bool { return covers(s, subject) })
}

// Enforces reports whether the reader of a node said, when it asked last, that
// it enforces tables.
func (l *Listeners) Enforces(node policy.NodeID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard[node].enforces
}

func (l *Listeners) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Wake has something when Fresh has.
func (l *Listeners) Wake() <-chan struct{} { return l.wake }

// Fresh takes who was found since it was called last.
func (l *Listeners) Fresh() Fresh {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.fresh
	l.fresh = Fresh{}
	return f
}

// unsureLocked: everybody may listen.
func (l *Listeners) unsureLocked() bool {
	return len(l.stored) > 0 || l.since.IsZero() || l.c.link.down().Err() != nil ||
		time.Since(l.since) < l.most || time.Since(l.looked) > maxLook
}

// Any reports whether somebody may listen on a subject of a node.
func (l *Listeners) Any(node policy.NodeID, subject string) bool {
	if _, a := l.account(); a != nil {
		return a.SubscriptionInterest(subject)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, heard := l.heard[node]
	return heard || l.unsureLocked()
}

// Everybody reports that somebody may listen for every node, without a look at
// each.
func (l *Listeners) Everybody() bool {
	if _, a := l.account(); a != nil {
		return a.SubscriptionInterest(wire.PrefixNode + ">.>") // as tokens, which only wildcards match
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsureLocked()
}

// manySubscriptions is from how many on those of a server are not searched for
// ones about nodes: there are some.
const manySubscriptions = 1000

// None reports that nobody listens on any subject of a node.
func (l *Listeners) None() bool {
	run, a := l.account()
	if a == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.heard) == 0 && !l.unsureLocked()
	}
	// Inserts never fall: while they stay, nobody came.
	stats, err := run.Subsz(&server.SubszOptions{Account: string(AccountPlane)})
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.none && l.inserts == stats.NumInserts {
		return true
	}
	if a.TotalSubs() > manySubscriptions {
		l.none = false
		return false
	}
	nodes, all := subscribed(run)
	l.none, l.inserts = !all && len(nodes) == 0, stats.NumInserts
	return l.none
}

// Changes is another number whenever Who or Enforces may have changed.
func (l *Listeners) Changes() uint64 {
	run, a := l.account()
	var subscriptions uint64
	if a != nil {
		stats, err := run.Subsz(&server.SubszOptions{Account: string(AccountPlane)})
		if err == nil {
			subscriptions = stats.NumInserts + stats.NumRemoves
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 2 * (subscriptions + l.turns)
	if a == nil && l.unsureLocked() {
		n++
	}
	return n
}

// Who are the nodes that somebody may listen for; all: or any.
func (l *Listeners) Who() (nodes map[policy.NodeID]bool, all bool) {
	if run, a := l.account(); a != nil {
		return subscribed(run)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unsureLocked() {
		return nil, true
	}
	nodes = make(map[policy.NodeID]bool, len(l.heard))
	for id := range maps.Keys(l.heard) {
		nodes[id] = true
	}
	return nodes, false
}

// subscribed reads all subscriptions of a server's account of the plane.
func subscribed(run *server.Server) (nodes map[policy.NodeID]bool, all bool) {
	list, err := run.Subsz(&server.SubszOptions{Account: string(AccountPlane), Subscriptions: true, Limit: math.MaxInt32})
	if err != nil {
		return nil, true
	}
	nodes = map[policy.NodeID]bool{}
	for i := range list.Subs {
		subject := list.Subs[i].Subject
		rest, ours := strings.CutPrefix(subject, wire.PrefixNode)
		if !ours {
			if server.SubjectsCollide(subject, wire.PrefixNode+">") {
				return nil, true
			}
			continue
		}
		id, _, _ := strings.Cut(rest, ".")
		if id == "*" || id == ">" {
			return nil, true
		}
		nodes[policy.NodeID(id)] = true
	}
	return nodes, false
}
