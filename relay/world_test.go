package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/streams"
)

// world is a log, a node stream, processes that fold and announce, and clients
// that follow: everything of the announcement protocol, moved step by step, so
// that a test decides what happens between any two of them. The processes run
// the product's own code.
type world struct {
	log     *fakeLog
	server  *fakeServer
	signer  *artifact.Signer
	workers []*worker
	clients []*client
	broken  []string
	boots   int
}

var testSigner = func() *artifact.Signer {
	s, err := artifact.GenerateSigner()
	if err != nil {
		panic(err)
	}
	return s
}()

func newWorld(workers, clients int) *world {
	w := &world{log: &fakeLog{}, server: newFakeServer(), signer: testSigner}
	for range workers {
		k := &worker{world: w, store: newFakeStore(w.log)}
		w.workers = append(w.workers, k)
		k.boot()
	}
	for i := range clients {
		w.clients = append(w.clients, newClient(w, i%worldNodes))
	}
	return w
}

func (w *world) breaks(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// violations are the promises broken so far.
func (w *world) violations() []string { return append(slices.Clone(w.server.broken), w.broken...) }

// worker is one process; boot gives it a new life on the same store.
type worker struct {
	world *world
	store *fakeStore
	relay *Relay
	a     *announcer
	lane  *lane
	h     *hub // nil: not started in this life
	life  int  // incarnation of the node stream the hub is on
	queue []streams.Message
	read  uint64
	saved []fakeState
	limit int // of the next batches
}

// rings are the sizes of rings that processes live with: none, one for a few
// messages, one for all.
var rings = []int{-1, 5 * ringedRoom, 0}

func (k *worker) boot() {
	k.store.mu.Lock()
	clear(k.store.opened[:])
	k.store.mu.Unlock()
	k.world.boots++
	k.relay = New(k.store, nil, artifact.NewKeyring(k.world.signer), epoch, Options{Partitions: worldParts, Lanes: 1, Ring: rings[k.world.boots%len(rings)]})
	k.announce()
	k.stopHub()
}

func (k *worker) announce() {
	if k.a != nil {
		for _, p := range k.a.parts {
			p.forget() // closes outboxes, as the end of a process would
		}
	}
	k.a = newAnnouncer(k.relay, k.world.server.open())
	k.lane = k.a.lanes[0]
}

func (k *worker) stopHub() {
	if k.h != nil {
		k.h.end()
	}
	k.h, k.queue = nil, nil
	for _, c := range k.world.clients {
		if c.at == k {
			c.detach()
		}
	}
}

// crash forgets everything but the store.
func (k *worker) crash() { k.boot() }

// advance does one protocol step for partition p; false: there was none.
func (k *worker) advance(p int) bool {
	ctx := context.Background()
	x := k.a.parts[p]
	switch {
	case x.phase == idle:
		return k.a.readFences(ctx, []*partition{x}) == nil
	case x.phase == read:
		if k.store.Applied() < x.fence.After.Seq {
			return false
		}
		k.claim(x)
		return true
	case x.need:
		return k.setOut(x)
	}
	return k.step()
}

func (k *worker) claim(ps ...*partition) {
	if _, err := k.a.claim(context.Background(), ps, map[*partition]outcome{}); err != nil {
		for _, p := range ps {
			p.forget()
		}
	}
}

func (k *worker) setOut(ps ...*partition) bool {
	if err := k.a.setOut(context.Background(), ps); err != nil {
		for _, p := range ps {
			p.forget()
		}
		return true
	}
	for _, p := range ps {
		k.lane.inbox <- p
	}
	return true
}

// step publishes one batch of whatever is owned.
func (k *worker) step() bool {
	if k.limit > 0 {
		k.lane.limit = k.limit
	}
	did, _ := k.lane.step(context.Background())
	for {
		select {
		case <-k.a.returned:
			did = true
			continue
		default:
		}
		return did
	}
}

// drained lets the worker do all it can, alone.
func (k *worker) drained(steps int) bool {
	for range steps {
		did := false
		for p := range worldParts {
			did = k.advance(p) || did
		}
		if !did {
			return true
		}
	}
	return false
}

var stopped = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// startHub starts the hub or finds that it cannot yet.
func (k *worker) startHub() bool {
	if k.h != nil && k.life == k.world.server.life {
		return true
	}
	k.stopHub()
	stream := k.world.server.open()
	if _, err := (dayMarks{stream: stream, log: k.relay.opt.Log}).keep(context.Background()); err != nil {
		return false
	}
	k.relay.board.reset()
	h := newHub(k.relay, stream)
	from, err := h.start(stopped)
	if err != nil {
		return false
	}
	k.h, k.life, k.read = h, stream.life, from
	return true
}

// pump reads the stream and releases at most n messages.
func (k *worker) pump(n int) (did bool) {
	if !k.startHub() {
		return false
	}
	s := k.world.server
	s.mu.Lock()
	msgs := s.selectLocked(k.read, s.last, []string{"edict.>"})
	k.read = s.last + 1
	s.mu.Unlock()
	for _, m := range msgs {
		k.h.notice(m)
	}
	k.queue = append(k.queue, msgs...)
	for ; n > 0 && len(k.queue) > 0 && needs(k.queue[0]) <= k.store.Applied(); n-- {
		k.h.dispatch(k.queue[0])
		k.queue = k.queue[1:]
		did = true
	}
	if _, err := k.h.drops.drop(); err != nil {
		panic(err)
	}
	for _, c := range k.world.clients {
		if c.at == k {
			c.drain()
		}
	}
	return did
}

// client is a node: it pulls, streams, resumes, and applies what it is told.
type client struct {
	world *world
	node  int
	rows  [worldRows]compiler.Fingerprint
	maxv  [worldRows]uint64
	at    *worker
	sub   *subscriber
	pos   uint64
	pull  bool
	seen  map[uint64]bool
}

func newClient(w *world, node int) *client {
	c := &client{world: w, node: node, pull: true, seen: map[uint64]bool{}}
	for p := range c.rows {
		c.rows[p] = compiler.Empty.Fingerprint
	}
	return c
}

func (c *client) detach() {
	if c.at != nil && c.at.h != nil {
		c.at.h.unsubscribe(c.sub)
	}
	c.at, c.sub = nil, nil
}

// resume opens a stream at k after what the client has.
func (c *client) resume(k *worker) bool {
	if k.h == nil || k.life != c.world.server.life {
		return false
	}
	sub, p, err := k.h.resume(context.Background(), nodeIDs[c.node], c.pos)
	if err != nil {
		return false
	}
	c.at, c.sub = k, sub
	if p.pull {
		c.pull = true
		c.pos = p.pullID
	}
	for m, err := range p.events {
		if err != nil {
			c.detach()
			return false
		}
		c.got(m)
	}
	c.drain()
	return true
}

func (c *client) drain() {
	msgs, _ := c.sub.drain()
	for _, m := range msgs {
		c.got(m)
	}
}

func (c *client) got(m *news) {
	if m.Seq <= c.pos {
		c.world.breaks("promise 2: node %s meets sequence %d after %d", nodeIDs[c.node], m.Seq, c.pos)
	}
	c.pos = m.Seq
	if m.why != "" {
		c.pull = true
		return
	}
	if c.seen[m.Seq] {
		c.world.breaks("promise 2: node %s gets sequence %d twice", nodeIDs[c.node], m.Seq)
	}
	c.seen[m.Seq] = true
	node, name, _ := splitNodeSubject(m.Subject)
	if node != nodeIDs[c.node] {
		c.world.breaks("promise 3: node %s gets a message of %s", nodeIDs[c.node], node)
	}
	for p, row := range rowNames {
		if row == name && needs(m.Message) >= c.maxv[p] {
			c.maxv[p] = needs(m.Message)
			c.rows[p] = says(p, m.Body)
		}
	}
}

// pullFrom takes the node's state from k and goes on after its position, as
// our own client does.
func (c *client) pullFrom(k *worker) bool {
	if k.h == nil || k.life != c.world.server.life {
		return false
	}
	at, err := k.h.position()
	if err != nil {
		return false
	}
	k.store.mu.Lock()
	for p := range c.rows {
		c.rows[p] = k.store.state.facts.row(c.node, p)
	}
	k.store.mu.Unlock()
	c.detach()
	c.pull, c.pos = false, at
	clear(c.seen)
	return true
}

// settle ends all faults, lets k announce alone, and checks promises 3 and 4
// and that nothing hangs.
func (w *world) settle(k *worker) {
	s := w.server
	s.mu.Lock()
	s.fate = nil
	s.mu.Unlock()
	for len(s.late) > 0 {
		s.land(0)
	}
	for _, x := range w.workers {
		x.store.foldAll()
	}
	if _, err := (dayMarks{stream: s.open(), log: k.relay.opt.Log}).keep(context.Background()); err != nil {
		w.breaks("no day mark: %v", err)
	}
	k.limit = 3
	k.crash()
	if !k.drained(300) {
		w.breaks("deadlock: the announcer never comes to rest")
		return
	}
	for p, x := range k.a.parts {
		if x.phase != owned || x.sync != nil || x.fence.Mode != Follow {
			w.breaks("deadlock: partition %d is not followed: %+v", p, x)
		}
	}
	w.checkConverged()
	w.settleClients()
	for _, x := range w.workers {
		for _, p := range x.a.parts {
			p.forget()
		}
		if x.store.boxes != 0 {
			w.breaks("%d outboxes are still open", x.store.boxes)
		}
	}
}

func (w *world) checkConverged() {
	for n, node := range nodeIDs {
		for p, name := range rowNames {
			said := compiler.Empty.Fingerprint
			if m, ok := w.server.get(streams.NodeSubject(node, name)); ok {
				said = says(p, m.Body)
			}
			if want := w.log.head.row(n, p); said != want {
				w.breaks("promise 4: the stream tells %s of row %d: %s, the facts say %s", node, p, said, want)
			}
		}
	}
}

func (w *world) settleClients() {
	for round := range 12 {
		for _, k := range w.workers {
			for k.pump(9) {
			}
		}
		for i, c := range w.clients {
			k := w.workers[(i+round)%len(w.workers)]
			if c.pull {
				c.pullFrom(k)
			}
			if c.at == nil {
				c.resume(k)
			}
		}
	}
	for _, c := range w.clients {
		if c.pull || c.at == nil {
			w.breaks("promise 3: the client of %s never settles", nodeIDs[c.node])
		}
		for p := range c.rows {
			if want := w.log.head.row(c.node, p); c.rows[p] != want {
				w.breaks("promise 3: the client of %s holds %s of row %d, the facts say %s", nodeIDs[c.node], c.rows[p], p, want)
			}
		}
	}
}

// save, restore and rebuild are what may happen to a store.
func (k *worker) save() {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	k.saved = append(k.saved, k.store.state.clone())
}

func (k *worker) restore(i int) {
	if len(k.saved) == 0 {
		return
	}
	k.store.mu.Lock()
	k.store.state = k.saved[i%len(k.saved)].clone()
	k.store.mu.Unlock()
	k.crash()
}

func (k *worker) rebuild(upTo int) {
	k.store.mu.Lock()
	k.store.state = fakeState{}
	k.store.mu.Unlock()
	for range upTo {
		k.store.fold()
	}
	k.dropEdges(0, k.store.Applied())
	k.dropEdges(1, k.store.Applied())
	k.crash()
}

func (k *worker) dropEdges(p int, upTo uint64) {
	if err := k.store.DropEdges(map[int]uint64{p: upTo}); err != nil {
		panic(err)
	}
}

// pass lets days go by. Nothing in memory or in flight outlives them.
func (w *world) pass(d time.Duration, relaysLive bool) {
	for d > 0 {
		x := d
		if relaysLive {
			x = min(d, day)
		}
		time.Sleep(x)
		d -= x
		if relaysLive {
			_, _ = dayMarks{stream: w.server.open(), log: w.workers[0].relay.opt.Log}.keep(context.Background())
		}
	}
	w.server.mu.Lock()
	clear(w.server.known)
	w.server.late = nil
	w.server.mu.Unlock()
	for _, k := range w.workers {
		k.stopHub()
	}
}
