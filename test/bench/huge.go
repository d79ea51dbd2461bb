package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// A fleet larger than a log should have (docs/scale.md), to see what breaks first.
const (
	hugeNodes    = 10_000_000
	hugeSets     = 1_000
	hugePolicies = 100
	hugeAway     = 10_000 // events that streams are away for
	hugeStreams  = 1_000
	hugeTouched  = 501
)

// huge measures one plane of ten million nodes: how long the log takes to be written and
// folded, what the process and its disk hold, what an event and a resume cost then, and how
// soon it answers again after it was stopped, with its store and without.
func huge(ctx context.Context, e *env) (lines []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Hour)
	defer cancel()
	h := &hugeFleet{e: e, nodes: e.scale(hugeNodes), a: newAuthor(31)}
	if h.s, err = serveEdict(ctx, e, "--durability", "relaxed"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.s.close()) }()
	for _, step := range []func(context.Context) error{h.fill, h.touch, h.resume, h.restart, h.refold} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return h.lines, nil
}

// hugeFleet is a plane of very many nodes in few label sets, ten of which each policy has.
type hugeFleet struct {
	e     *env
	s     *served
	a     *author
	nodes int
	said  int
	lines []line
}

func (h *hugeFleet) add(what, unit string, value float64) *line {
	h.lines = append(h.lines, *figure(what, unit, samples{value}))
	say("  %s: %s %s", what, short(value), unit)
	return &h.lines[len(h.lines)-1]
}

func (h *hugeFleet) labels(i int) policy.Labels {
	set := i % hugeSets
	return labelled("group", fmt.Sprintf("g%d", set%hugePolicies), "set", fmt.Sprintf("s%d", set))
}

// fill writes the log and waits until it is folded.
func (h *hugeFleet) fill(ctx context.Context) error {
	used, err := h.s.cpuSeconds()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := h.revise(ctx); err != nil {
		return err
	}
	const chunk = 10_000
	for i := 0; i < h.nodes; {
		var events []policy.Event
		for len(events) < min(chunk, h.nodes-i) {
			events = append(events, h.a.node(i+len(events), h.labels(i+len(events))))
		}
		if err := h.s.publish(ctx, events); err != nil {
			return err
		}
		if i += len(events); i%(h.nodes/10) == 0 {
			now, _, err := h.s.resident()
			if err != nil {
				return err
			}
			say("  %s nodes after %s s, resident %s MiB", grouped(int64(i)), short(time.Since(began).Seconds()), short(now/(1<<20)))
		}
	}
	if err := h.complete(ctx); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	now, err := h.s.cpuSeconds()
	if err != nil {
		return err
	}
	h.add("registered and folded", "events/s", float64(h.nodes)/took).
		note("%s nodes of %s label sets and %d policies, %s s, %s us of the server's CPU each", grouped(int64(h.nodes)), grouped(hugeSets), hugePolicies, short(took), short((now-used)*1e6/float64(h.nodes)))
	return h.holds("after it was filled")
}

// holds measures what the plane takes.
func (h *hugeFleet) holds(when string) error {
	now, most, err := h.s.resident()
	if err != nil {
		return err
	}
	data := filepath.Join(h.e.dir, "data")
	log, err := diskMiB(filepath.Join(data, "nats", "jetstream", "$G", "streams", "EDICT_LOG"))
	if err != nil {
		return err
	}
	store, err := diskMiB(filepath.Join(data, "store"))
	if err != nil {
		return err
	}
	const mib = 1 << 20
	h.add("resident "+when, "MiB", now/mib).note("%s: %s bytes a node, at most %s MiB until then; the log %s MiB, the store %s MiB",
		when, short(now/float64(h.nodes)), short(most/mib), short(log), short(store))
	return nil
}

// complete wants every node and, of some, its row.
func (h *hugeFleet) complete(ctx context.Context) error {
	st, err := h.s.settled(ctx)
	if err != nil {
		return err
	}
	if st.Nodes != h.nodes || st.Policies != hugePolicies {
		return fmt.Errorf("the plane has %d nodes and %d policies, not %d and %d", st.Nodes, st.Policies, h.nodes, hugePolicies)
	}
	return h.s.rows(ctx, h.nodes, 1)
}

// revise gives each policy another revision.
func (h *hugeFleet) revise(ctx context.Context) error {
	var events []policy.Event
	for i := range hugePolicies {
		h.said++
		events = append(events, h.a.revise(i, selecting(fmt.Sprintf("group=g%d", i)), 1, h.said))
	}
	return h.s.publish(ctx, events)
}

// touch measures one event at a time, until a pull is answered from behind it.
func (h *hugeFleet) touch(ctx context.Context) error {
	var late samples
	for i := range hugeTouched {
		node := i * (h.nodes / hugeTouched)
		began := time.Now()
		seqs, err := h.s.log.PublishAll(ctx, []streams.Append{{Event: h.a.node(node, h.labels(node+1))}})
		if err != nil {
			return err
		}
		if err := h.s.folded(ctx, nodeName(node), seqs[0]); err != nil {
			return err
		}
		late = append(late, float64(time.Since(began).Microseconds())/1000)
	}
	h.add("one node's labels, from the publish to a pull that has it", "ms", late.at(0.5)).note("p99 %s ms; the log's durability is relaxed", short(late.at(0.99)))
	return nil
}

// resume has streams come back that were away for events of others and one of their own.
func (h *hugeFleet) resume(ctx context.Context) error {
	id, err := h.s.position(ctx, nodeName(0))
	if err != nil {
		return err
	}
	var paths []string
	for i := range hugeStreams {
		paths = append(paths, "/v1/nodes/"+string(nodeName(i*(h.nodes/hugeStreams)+i%hugePolicies))+"/events")
	}
	c := newCrowd(h.s.addr, paths)
	c.accept, c.keep = inRuns, true
	for _, m := range c.members {
		m.last = id
	}
	var events []policy.Event
	for i := range hugeAway {
		stride := h.nodes / hugeStreams
		node := stride*(i%hugeStreams) + stride/2 + i/hugeStreams // between the streams' own, which keep their labels
		events = append(events, h.a.node(node, h.labels(node+1)))
	}
	if err := errors.Join(h.s.publish(ctx, events), h.revise(ctx)); err != nil {
		return err
	}
	if _, err := h.s.settled(ctx); err != nil {
		return err
	}
	spent, err := spend(ctx, h.s.child, func(context.Context) (uint64, error) { return 0, nil }, func() error { return c.comeBack(ctx) })
	if err != nil {
		return err
	}
	c.part()
	var late samples
	for _, m := range c.members {
		if len(m.times) != 1 || len(m.faults) > 0 {
			return fmt.Errorf("%s heard %d events, not one: %v", m.path, len(m.times), m.faults)
		}
		late = append(late, float64(m.times[0].at.Sub(m.asked).Microseconds())/1000)
	}
	h.add("a resume after "+grouped(hugeAway)+" events, p99", "ms", late.at(0.99)).
		note("%s streams, one every %s; p50 %s ms, %s us of the server's CPU each", grouped(hugeStreams), resumePace, short(late.at(0.5)), short(spent.cpu*1e6/hugeStreams))
	return nil
}

// restart stops the plane in order and starts it again.
func (h *hugeFleet) restart(ctx context.Context) error {
	var began time.Time
	if err := h.again(ctx, func() error { began = time.Now(); return nil }); err != nil {
		return err
	}
	h.add("stopped in order, to ready", "s", time.Since(began).Seconds())
	return h.holds("after a restart")
}

// refold starts it without its store.
func (h *hugeFleet) refold(ctx context.Context) error {
	var began time.Time
	err := h.again(ctx, func() error {
		defer func() { began = time.Now() }()
		return removeAll(filepath.Join(h.e.dir, "data", "store"))
	})
	if err != nil {
		return err
	}
	if err := h.complete(ctx); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	used, err := h.s.cpuSeconds()
	if err != nil {
		return err
	}
	h.add("folded from the first event", "events/s", float64(h.nodes)/took).note("without its store the plane is whole again after %s s, %s us of CPU an event", short(took), short(used*1e6/float64(h.nodes)))
	return h.holds("after it was folded anew")
}

// again stops the plane, does something to its data, and starts it.
func (h *hugeFleet) again(ctx context.Context, between func() error) error {
	if err := h.s.close(); err != nil {
		return err
	}
	if err := between(); err != nil {
		return err
	}
	var err error
	h.s, err = serveEdict(ctx, h.e, "--durability", "relaxed")
	return err
}
