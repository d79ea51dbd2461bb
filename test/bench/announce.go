package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
)

const (
	announceNodes = 100_000
	announceSets  = 50 // label sets of the fleet
	announceRules = 20
	strictFloor   = 10_000 // messages: a floor of one fsync each is slow
)

// announceRelaxed: the floor is a stream that acknowledges nothing.
func announceRelaxed(ctx context.Context, e *env) ([]line, error) {
	l, err := announce(ctx, e, true)
	if err != nil {
		return nil, err
	}
	return []line{*l.ratioAtLeast(0.35)}, nil
}

// announceStrict: the floor is plain acknowledged publishing, in a window.
func announceStrict(ctx context.Context, e *env) ([]line, error) {
	l, err := announce(ctx, e, false)
	if err != nil {
		return nil, err
	}
	return []line{*l.ratioAtLeast(6).atLeast(20_000)}, nil
}

// announce measures from the publication of one policy event until its last
// announcement is stored and every partition's fence stands behind it.
func announce(ctx context.Context, e *env, relaxed bool) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	r, err := openRig(ctx, e.dir, relaxed)
	if err != nil {
		return nil, err
	}
	l, err := announceOn(ctx, e, r)
	return l, errors.Join(err, r.Close())
}

func announceOn(ctx context.Context, e *env, r *rig) (*line, error) {
	nodes := e.scale(announceNodes)
	a := newAuthor(1)
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	seq, err := registerFleet(ctx, r, a, nodes)
	if err != nil {
		return nil, err
	}
	if err := r.follows(ctx, seq); err != nil {
		return nil, err
	}
	floor, what := floorNoAck, "a plain no-ack stream taking the same bytes and headers"
	if !r.relaxed {
		floor, what = floorAsync, "plain async publish (window 4096), fsynced, of the same messages"
	}
	var got, bare, cpu, bareCPU samples
	var same *capture
	for round := range e.rounds() {
		used := cpuSeconds()
		took, seq, err := announceOnce(ctx, r, a.revise(0, selecting("env=prod"), announceRules, round+1), nodes)
		if err != nil {
			return nil, err
		}
		got.rate(nodes, took)
		cpu = append(cpu, (cpuSeconds()-used)/float64(nodes)*1e6)
		if err := checkFences(ctx, r, seq); err != nil {
			return nil, err
		}
		if same == nil {
			if same, err = captured(ctx, r, seq, nodes); err != nil {
				return nil, err
			}
			defer same.free()
		}
		used = cpuSeconds()
		rate, err := floor(ctx, r.server, same)
		if err != nil {
			return nil, fmt.Errorf("floor: %w", err)
		}
		bare = append(bare, rate)
		bareCPU = append(bareCPU, (cpuSeconds()-used)/float64(floorMessages(r, nodes))*1e6)
		say("  round %d: %s msg/s, floor %s msg/s; CPU %s and %s us a message", round+1, short(got[round]), short(rate), short(cpu[round]), short(bareCPU[round]))
	}
	l := figure("", "msg/s", got).beside(what, bare)
	l.note("CPU, server included: %s us a message, floor %s us", short(cpu.median()), short(bareCPU.median()))
	return l.note("%s nodes of %d label sets, %d rules, %d bytes a message with its headers", grouped(int64(nodes)), announceSets, announceRules, same.mean()), nil
}

// floorMessages is how many messages the floor takes.
func floorMessages(r *rig, nodes int) int {
	if r.relaxed {
		return nodes
	}
	return min(nodes, strictFloor)
}

// registerFleet registers n nodes that no policy matches yet.
func registerFleet(ctx context.Context, r *rig, a *author, n int) (seq uint64, err error) {
	const chunk = 10_000
	for from := 0; from < n && err == nil; from += chunk {
		var events []policy.Event
		for i := from; i < min(from+chunk, n); i++ {
			events = append(events, a.node(i, labelled("env", "prod", "set", fmt.Sprintf("s%d", i%announceSets))))
		}
		seq, err = r.publish(ctx, events)
	}
	return seq, err
}

// announceOnce publishes a policy event that every node is told of.
func announceOnce(ctx context.Context, r *rig, e policy.Event, nodes int) (took time.Duration, seq uint64, err error) {
	want := r.told.n.Load() + int64(nodes)
	began := time.Now()
	seq, _, err = r.log.Publish(ctx, streams.Append{Event: e})
	if err != nil {
		return 0, 0, err
	}
	err = r.told.await(ctx, want, r.ended)
	return time.Since(began), seq, err
}

// checkFences wants every partition's fence, as it is stored, at or behind the
// event.
func checkFences(ctx context.Context, r *rig, seq uint64) error {
	nodes, _, err := streams.OpenNodes(ctx, r.conn, streams.NodesOptions{LogID: r.log.ID()})
	if err != nil {
		return err
	}
	msgs, _, err := nodes.Last(ctx, 0, streams.FenceFilter)
	if err != nil {
		return err
	}
	past := 0
	for _, m := range msgs {
		f, err := relay.ParseFence(m.Body)
		if err != nil {
			return err
		}
		if f.After.Seq >= seq {
			past++
		}
	}
	if past != r.log.Partitions() {
		return fmt.Errorf("all is announced, but %d of %d fences stand behind event %d", past, r.log.Partitions(), seq)
	}
	return nil
}

// captured reads what the plane stored for the event at seq: one message a
// node, of which some are verified.
func captured(ctx context.Context, r *rig, seq uint64, nodes int) (*capture, error) {
	n, _, err := streams.OpenNodes(ctx, r.conn, streams.NodesOptions{LogID: r.log.ID()})
	if err != nil {
		return nil, err
	}
	state, err := n.State(ctx)
	if err != nil {
		return nil, err
	}
	trust := artifact.NewTrustSet()
	if err := trust.Add(artifact.PlanePolicy, r.signer.KeyID(), r.signer.PublicKey(), time.Time{}); err != nil {
		return nil, err
	}
	c, err := newCapture(int(state.Bytes))
	if err != nil {
		return nil, err
	}
	want := strconv.FormatUint(seq, 10)
	for msgs, err := range n.Read(ctx, 0, state.Last, allNodes) {
		if err != nil {
			return c, err
		}
		for _, m := range msgs {
			if m.Get(streams.HeaderEdictLogSeq) != want {
				return c, fmt.Errorf("%s tells of event %s, not of %s", m.Subject, m.Get(streams.HeaderEdictLogSeq), want)
			}
			const oneIn = 97
			if len(c.msgs)%oneIn == 0 {
				if _, err := trust.Open(m.Body); err != nil {
					return c, fmt.Errorf("%s: %w", m.Subject, err)
				}
			}
			c.add(m)
		}
	}
	if len(c.msgs) != nodes {
		return c, fmt.Errorf("the node stream holds %d announcements of event %d, not %d", len(c.msgs), seq, nodes)
	}
	return c, nil
}

// plainHeader gives a header that the server acts upon another name of the same
// length, so that the floor stores as many bytes.
func plainHeader(name string) string {
	if rest, ok := strings.CutPrefix(name, "Nats-"); ok {
		return "Edbe-" + rest
	}
	return name
}

// allNodes matches every announcement.
const allNodes = "edict.node.>"
