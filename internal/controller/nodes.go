package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	translate "github.com/edictdev/edict/internal/compiler/kubernetes"
	"github.com/edictdev/edict/policy"
)

// Nodes is the little that is asked of a plane about nodes; client.Nodes are it.
type Nodes interface {
	All(ctx context.Context, project uuid.UUID, selector string) iter.Seq2[resource.Node, error]
	Get(ctx context.Context, project uuid.UUID, id string) (resource.Node, error)
	Import(ctx context.Context, project uuid.UUID, lines io.Reader, calls ...client.Call) (resource.BatchResult, error)
	Delete(ctx context.Context, project uuid.UUID, id string, calls ...client.Call) error
}

const (
	maxBatch = 1000 // lines of one request
	removers = 32   // requests at once: the log makes one batch of what waits together
)

// nodeWriter brings the plane's nodes to what the view says of pods and machines.
type nodeWriter struct {
	opt  Options
	view *view
	// plane is what the plane has of ours, as we wrote or read it last: id → its facts.
	// Only the writer's goroutine uses it.
	plane map[policy.NodeID]string
	// others are nodes of the project that somebody else made, and whether the log says of
	// one that it has the name of ours. Only the writer's goroutine uses it.
	others map[policy.NodeID]bool
	// of are the places in the cluster of what nodes are of, and second those of what would
	// have a node's id that is another's. Only the writer's goroutine uses them.
	of     map[policy.NodeID]string
	second map[string]bool

	mu    sync.Mutex
	dirty map[string]time.Time // since when
	wake  chan struct{}
	room  later
}

func newNodeWriter(opt Options, v *view) *nodeWriter {
	w := &nodeWriter{
		opt: opt, view: v, plane: map[policy.NodeID]string{}, others: map[policy.NodeID]bool{},
		of: map[policy.NodeID]string{}, second: map[string]bool{}, dirty: map[string]time.Time{}, wake: make(chan struct{}, 1),
	}
	v.changed = w.changed
	w.room = later{after: opt.RoomEvery, changed: w.changed}
	return w
}

func (w *nodeWriter) count() int { return len(w.plane) }

// show sets the number of nodes that the plane has of ours.
func (w *nodeWriter) show() { w.opt.Metrics.nodes.Set(float64(w.count())) }

// changed notes that something may be otherwise. It is called from any goroutine.
func (w *nodeWriter) changed(key string) {
	w.mu.Lock()
	if _, already := w.dirty[key]; !already {
		w.dirty[key] = time.Now()
	}
	w.mu.Unlock()
	wakeUp(w.wake)
}

func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take is what changed since it was taken last.
func (w *nodeWriter) take() map[string]time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.dirty
	w.dirty = map[string]time.Time{}
	return all
}

// begin reads what the plane has, and brings it to what the view says, once.
func (w *nodeWriter) begin(ctx context.Context) bool {
	before, logged := w.plane, w.others
	return w.opt.insist(ctx, "read nodes", func() error {
		w.plane, w.others = map[policy.NodeID]string{}, map[policy.NodeID]bool{}
		for n, err := range w.opt.Nodes.All(ctx, w.opt.Project, "") {
			if err != nil {
				return err
			}
			w.found(n)
			if _, other := w.others[policy.NodeID(n.ID)]; other {
				w.others[policy.NodeID(n.ID)] = logged[policy.NodeID(n.ID)]
			}
		}
		for id, was := range before {
			if w.plane[id] != was {
				w.opt.Log.Warn("somebody else changed a node of the cluster in the plane, and it is put back", "node", id)
			}
		}
		return nil
	}) && w.opt.insist(ctx, "write nodes", func() error { return w.all(ctx) })
}

// found notes a node that the plane has.
func (w *nodeWriter) found(n resource.Node) {
	id := policy.NodeID(n.ID)
	if n.Labels[translate.OwnerKey] == w.opt.Cluster {
		w.plane[id] = factsKey(n.Labels, n.Addresses)
		delete(w.others, id)
		return
	}
	if _, known := w.others[id]; !known {
		w.others[id] = false
	}
}

// ask looks whether the plane has nodes of somebody else under the names of machines that
// we have not written. The ids of pods end in a hash, and nobody else makes them.
func (w *nodeWriter) ask(ctx context.Context, nodes []wanted) error {
	for _, n := range nodes {
		_, ours := w.plane[n.ID]
		if _, other := w.others[n.ID]; ours || !isMachine(n.key) && !other {
			continue
		}
		var is resource.Node
		err := w.opt.paced(ctx, func() (err error) {
			is, err = w.opt.Nodes.Get(ctx, w.opt.Project, string(n.ID))
			return err
		})
		var p *client.Problem
		switch {
		case errors.As(err, &p) && p.Status == http.StatusNotFound:
			delete(w.others, n.ID)
		case err != nil:
			return err
		default:
			w.found(is)
		}
	}
	return nil
}

// leaves reports whether a node is left alone, because somebody else made it. It is looked
// at again some time later.
func (w *nodeWriter) leaves(n wanted) bool {
	logged, of := w.others[n.ID]
	if !of {
		return false
	}
	w.room.note(n.key)
	if !logged {
		w.others[n.ID] = true
		w.opt.Metrics.left("node")
		w.opt.Log.Error("the project has a node of this name that somebody else made, and it is left alone; remove it, and the controller writes its own", "object", n.key, "node", n.ID)
	}
	return true
}

// all writes what differs, and removes what the cluster does not have.
func (w *nodeWriter) all(ctx context.Context) error {
	defer w.show()
	w.take()
	w.of = map[policy.NodeID]string{}
	want, _ := w.claims(w.view.keys())
	gone := maps.Clone(w.plane)
	for _, n := range want {
		delete(gone, n.ID)
	}
	if err := w.remove(ctx, slices.Sorted(maps.Keys(gone))); err != nil {
		return err
	}
	return w.write(ctx, want)
}

// run writes what changes, until ctx ends.
func (w *nodeWriter) run(ctx context.Context) {
	w.opt.each(ctx, w.wake, func() bool { return w.catchUp(ctx) }, func() bool { return w.begin(ctx) })
}

// catchUp writes what changed, and reports whether ctx goes on.
func (w *nodeWriter) catchUp(ctx context.Context) bool {
	since := w.take()
	if len(since) == 0 {
		return true
	}
	if !w.opt.insist(ctx, "write nodes", func() error { return w.some(ctx, slices.Sorted(maps.Keys(since))) }) {
		return false
	}
	w.opt.Metrics.caughtUp(since)
	return true
}

// some brings some nodes to what the view says.
func (w *nodeWriter) some(ctx context.Context, keys []string) error {
	defer w.show()
	want, gone := w.claims(keys)
	if err := w.ask(ctx, want); err != nil {
		return err
	}
	// Those that go first whose address passed to another pod; the rest meanwhile.
	first, rest := w.handingOver(gone, want)
	if err := w.remove(ctx, first); err != nil {
		return err
	}
	var erased []bool
	var failed error
	var beside sync.WaitGroup
	beside.Go(func() { erased, failed = w.erase(ctx, rest) })
	err := w.write(ctx, want)
	beside.Wait()
	w.forget(rest, erased)
	return errors.Join(err, failed)
}

// claims are the nodes that objects of the cluster are to be, and those that nothing is any
// more. The hash in an id is short, and who looks for a name with a given one finds it: of two
// objects with one id the older is the node.
func (w *nodeWriter) claims(keys []string) (want []wanted, gone []policy.NodeID) {
	for _, key := range keys {
		n, ok := w.node(key)
		is := w.of[n.ID]
		free := is == "" || is == key
		switch {
		case ok && (free || w.view.before(key, is)):
			w.of[n.ID] = key
			delete(w.second, key)
			want = append(want, wanted{key, n})
			if !free {
				w.room.note(is)
			}
		case ok:
			w.room.note(key)
			if !w.second[key] {
				w.second[key] = true
				w.opt.Metrics.left("node")
				w.opt.Log.Error("an object would be the same node as an older one, and is left out; give it another name", "object", key, "node", n.ID, "of", is)
			}
		case free:
			delete(w.of, n.ID)
			gone = append(gone, n.ID)
			fallthrough
		default:
			delete(w.second, key)
		}
	}
	want = slices.DeleteFunc(want, func(n wanted) bool { return w.of[n.ID] != n.key })
	return want, slices.DeleteFunc(gone, func(id policy.NodeID) bool {
		_, had := w.plane[id]
		return !had || w.of[id] != ""
	})
}

// handingOver divides nodes that go into those of which another has an address now, and
// the rest.
func (w *nodeWriter) handingOver(gone []policy.NodeID, want []wanted) (first, rest []policy.NodeID) {
	taken := map[string]bool{}
	for _, n := range want {
		for _, a := range n.Addresses {
			taken[a.String()] = true
		}
	}
	for _, id := range gone {
		if slices.ContainsFunc(addressesOf(w.plane[id]), func(a string) bool { return taken[a] }) {
			first = append(first, id)
		} else {
			rest = append(rest, id)
		}
	}
	return first, rest
}

// wanted is a node that the plane is to have, and what it stands for in the cluster.
type wanted struct {
	key string
	policy.Node
}

// node is the node that a key stands for; false: there should be none of its id.
func (w *nodeWriter) node(key string) (n policy.Node, ok bool) {
	var left []string
	namespace, name, _ := strings.Cut(key, "/")
	if namespace == "" {
		m, there := w.view.machine(name)
		if !there {
			return policy.Node{ID: translate.MachineID(name)}, false
		}
		n, left = m.Node()
	} else {
		p, there := w.view.pod(key)
		if !there {
			return policy.Node{ID: translate.PodID(w.opt.Cluster, namespace, name)}, false
		}
		n, left = p.Node()
	}
	for _, what := range left {
		w.opt.Metrics.left("node")
		w.opt.Log.Warn("the plane does not take this of a node", "object", key, "node", n.ID, "detail", what)
	}
	return n, true
}

// factsKey is a text equal exactly for equal facts.
func factsKey(labels map[string]string, addresses []string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, "%s=%s,", k, labels[k])
	}
	for _, a := range slices.Sorted(slices.Values(addresses)) {
		fmt.Fprintf(&b, "|%s", a)
	}
	return b.String()
}

// addressesOf are the addresses of the facts that a factsKey is of.
func addressesOf(key string) []string { return strings.Split(key, "|")[1:] }

// line is a line of a batch.
type line struct {
	of        string            // its place in the cluster
	ID        policy.NodeID     `json:"id"`
	Labels    map[string]string `json:"labels"`
	Addresses []string          `json:"addresses"`
}

func lineOf(n wanted) line {
	l := line{n.key, n.ID, n.Labels.Map(), []string{}}
	for _, a := range n.Addresses {
		l.Addresses = append(l.Addresses, a.String())
	}
	return l
}

// write states nodes that differ from what the plane has.
func (w *nodeWriter) write(ctx context.Context, nodes []wanted) error {
	var lines []line
	for _, n := range nodes {
		if l := lineOf(n); w.plane[n.ID] != factsKey(l.Labels, l.Addresses) && !w.leaves(n) {
			lines = append(lines, l)
		}
	}
	for batch := range slices.Chunk(lines, maxBatch) {
		if err := w.writeBatch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func (w *nodeWriter) writeBatch(ctx context.Context, batch []line) error {
	var body bytes.Buffer
	out := json.NewEncoder(&body)
	for _, l := range batch {
		if err := out.Encode(l); err != nil {
			return err
		}
	}
	var res resource.BatchResult
	err := w.opt.paced(ctx, func() (err error) {
		res, err = w.opt.Nodes.Import(ctx, w.opt.Project, bytes.NewReader(body.Bytes()))
		return err
	})
	var p *client.Problem
	if errors.As(err, &p) && noRoom(p.Code) {
		err, res = nil, noneOf(batch, p)
	}
	if err != nil {
		return err
	}
	w.opt.Metrics.wrote("node", res.Applied)
	refused := map[int]resource.RejectedLine{}
	for _, r := range res.Rejected {
		refused[r.Line-1] = r
	}
	for i, l := range batch {
		r, no := refused[i]
		if !no {
			w.plane[l.ID] = factsKey(l.Labels, l.Addresses)
			continue
		}
		// It stays as it was: written again when the object changes or the plane is read, and,
		// if only room is missing, some time later.
		if noRoom(r.Code) {
			w.room.note(l.of)
		}
		w.opt.Metrics.left("node")
		w.opt.Log.Error("the plane refused a node", "node", l.ID, "code", r.Code, "error", r.Detail)
	}
	return nil
}

// noneOf is the answer to a batch of which each line is refused.
func noneOf(batch []line, p *client.Problem) (res resource.BatchResult) {
	for i := range batch {
		res.Rejected = append(res.Rejected, resource.RejectedLine{Line: i + 1, Code: p.Code, Detail: p.Detail})
	}
	return res
}

// remove deletes nodes.
func (w *nodeWriter) remove(ctx context.Context, ids []policy.NodeID) error {
	done, err := w.erase(ctx, ids)
	w.forget(ids, done)
	return err
}

// erase deletes nodes of the plane, several at once, and says which are gone.
func (w *nodeWriter) erase(ctx context.Context, ids []policy.NodeID) (done []bool, err error) {
	g, more := errgroup.WithContext(ctx)
	g.SetLimit(removers)
	done = make([]bool, len(ids))
	for i, id := range ids {
		g.Go(func() error {
			if more.Err() != nil {
				return nil
			}
			err := w.opt.paced(ctx, func() error { return w.opt.Nodes.Delete(ctx, w.opt.Project, string(id)) })
			var p *client.Problem
			if errors.As(err, &p) && p.Status == http.StatusNotFound {
				err = nil
			}
			done[i] = err == nil
			return err
		})
	}
	return done, g.Wait()
}

// forget notes nodes that the plane has no more.
func (w *nodeWriter) forget(ids []policy.NodeID, done []bool) {
	for i, id := range ids {
		if done[i] {
			w.opt.Metrics.wrote("node", 1)
			delete(w.plane, id)
		}
	}
}
