package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// workload is a world that is made in one go: policies and nodes, and the rows
// that follow from them. Its log brings them in a random order.
type workload struct {
	name     string
	what     string
	policies int
	nodes    int
	rows     int
	selector func(policy int) string // of both sides
	labels   func(node int) policy.Labels
}

// Sizes of the workloads. They ask what others in the field were measured with:
// as many labelled things, distinct selectors and matches.
const (
	groups     = 25_000
	groupNodes = 4
	crowded    = 10_000
	spaces     = 100
	spaceApps  = 100
)

// workloads by name. shrink divides every size: to try the bench.
func workloads(shrink int) []workload {
	groups, crowded, spaces := groups/shrink, crowded/shrink, max(1, spaces/shrink)
	name := func(kind uint64, i int) string { return groupName(kind, i) }
	return []workload{
		{
			name: "w1", what: fmt.Sprintf("%d nodes in %d groups", groups*groupNodes, groups),
			policies: groups * 3, nodes: groups * groupNodes, rows: groups * 8,
			selector: func(p int) string {
				group := "ns=" + name(1, p/3)
				switch p % 3 {
				case 1:
					return group + ",app-1=scale-1"
				case 2:
					return group + ",app-2=scale-2"
				}
				return group
			},
			labels: func(n int) policy.Labels {
				if n%groupNodes < groupNodes/2 {
					return labelled("app-1", "scale-1", "ns", name(1, n/groupNodes))
				}
				return labelled("app-2", "scale-2", "ns", name(1, n/groupNodes))
			},
		},
		{
			name: "w2", what: "one selector, all nodes match",
			policies: crowded, nodes: crowded / 10, rows: crowded * (crowded / 10),
			selector: func(int) string { return "role=web" },
			labels:   func(int) policy.Labels { return labelled("role", "web") },
		},
		{
			name: "w2u", what: "the same, every node with a label of its own",
			policies: crowded, nodes: crowded / 10, rows: crowded * (crowded / 10),
			selector: func(int) string { return "role=web" },
			labels:   func(n int) policy.Labels { return labelled("hostname", string(nodeName(n)), "role", "web") },
		},
		{
			name: "w3", what: "a selector for each node",
			policies: crowded, nodes: crowded, rows: crowded,
			selector: func(p int) string { return "pod=" + name(3, p) },
			labels:   func(n int) policy.Labels { return labelled("pod", name(3, n)) },
		},
		{
			name: "w4", what: fmt.Sprintf("%d large groups", spaces),
			policies: spaces * (1 + spaceApps), nodes: spaces * spaceApps * 10, rows: spaces * spaceApps * 10 * 2,
			selector: func(p int) string {
				group := "ns=" + name(4, p/(1+spaceApps))
				if app := p % (1 + spaceApps); app > 0 {
					return fmt.Sprintf("%s,app-%d=scale-%d", group, app, app)
				}
				return group
			},
			labels: func(n int) policy.Labels {
				app := 1 + n/10%spaceApps
				return labelled(fmt.Sprintf("app-%d", app), fmt.Sprintf("scale-%d", app), "ns", name(4, n/10/spaceApps))
			},
		},
	}
}

// groupName is eight letters that look drawn and are the group's alone.
func groupName(kind uint64, i int) string {
	// A permutation of 32 bits: odd multiplications and shifts can be undone.
	x := uint32(i)*2654435761 ^ uint32(kind)
	x ^= x >> 15
	x *= 2246822519
	x ^= x >> 13
	var b [8]byte
	for j := range b {
		b[j] = 'a' + byte(x&15)
		x >>= 4
	}
	return string(b[:])
}

// event is the i-th thing of the workload, policies first.
func (w *workload) event(a *author, i int) policy.Event {
	if i < w.policies {
		s := selecting(w.selector(i))
		s.Destination = s.Source
		return a.revise(i, s, 1, i%100)
	}
	return a.node(i-w.policies, w.labels(i-w.policies))
}

// shuffled yields the workload's log in the order that seed draws.
func (w *workload) shuffled(seed uint64) iter.Seq[policy.Event] {
	return func(yield func(policy.Event) bool) {
		a := newAuthor(seed)
		for _, i := range rand.New(rand.NewPCG(seed, binary.BigEndian.Uint64([]byte("workload")))).Perm(w.policies + w.nodes) {
			if !yield(w.event(a, i)) {
				return
			}
		}
	}
}

// tape is a log in memory, bodies outside of the collector's sight.
type tape struct {
	room *capture
	at   time.Time
}

func record(w *workload, seed uint64) (*tape, error) {
	const maxBody = 640
	room, err := newCapture((w.policies + w.nodes) * maxBody)
	if err != nil {
		return nil, err
	}
	var body []byte
	for e := range w.shuffled(seed) {
		body = policy.Append(body[:0], e)
		room.put(wire.Subject(e), nil, body)
	}
	if room.used == len(room.room) {
		return nil, fmt.Errorf("the events of %s are longer than was thought", w.name)
	}
	return &tape{room, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}, nil
}

// Follow implements projector.Log: batches as the log itself would cut them.
func (t *tape) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	const batch = 500
	return func(yield func([]streams.Message, error) bool) {
		for at := max(from, 1) - 1; at < uint64(len(t.room.msgs)); {
			msgs := make([]streams.Message, 0, batch)
			for ; at < uint64(len(t.room.msgs)) && len(msgs) < batch; at++ {
				msgs = append(msgs, t.message(at+1))
			}
			if !yield(msgs, nil) {
				return
			}
		}
		<-ctx.Done()
	}
}

func (t *tape) message(seq uint64) streams.Message {
	k := t.room.msgs[seq-1]
	return streams.Message{Seq: seq, Subject: k.subject, Body: t.room.body(k), Time: t.at.Add(time.Duration(seq))}
}

// Get implements projector.Log.
func (t *tape) Get(_ context.Context, seq uint64) (streams.Message, error) {
	if seq == 0 || seq > uint64(len(t.room.msgs)) {
		return streams.Message{}, streams.ErrNotFound
	}
	return t.message(seq), nil
}
