package relay

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/policy"
)

// derived is a generated log, what it says, and what a stream was told live.
type derived struct {
	*testing.T
	log   *script
	truth *oracle.History
	nodes []string
	said  map[string]string // by the name of a notice: type and payload
}

var derivedWorlds = flag.Uint64("derived.worlds", 1, "worlds that TestWhoeverSaysItSaysTheSameUnderOneID follows")

// TestWhoeverSaysItSaysTheSameUnderOneID has streams follow generated worlds event by event,
// and then asks the worker that told them, one that folded the same log in other
// batches, and one that was rebuilt, what followed every id and every event.
// Whatever is said under one id is the same, byte for byte, and nothing that
// changed is left out.
func TestWhoeverSaysItSaysTheSameUnderOneID(t *testing.T) {
	for seed := range *derivedWorlds {
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) {
			t.Parallel()
			d := &derived{T: t, log: newScript(t), truth: oracle.NewHistory(stageBase), said: map[string]string{}}
			d.write(seed + 1)
			told := d.follow()
			draw := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a test
			var sizes []int
			for left := len(d.log.msgs); left > 9; left -= sizes[len(sizes)-1] {
				sizes = append(sizes, 1+draw.IntN(9))
			}
			batches := newStage(t, d.log, Options{})
			batches.play(sizes...)
			rebuilt := newStage(t, d.log, Options{})
			rebuilt.play()
			for _, g := range []*stage{told, batches, rebuilt} {
				d.resume(g)
			}
		})
	}
}

// write draws a world and its history.
func (d *derived) write(seed uint64) {
	g := gen.New(seed)
	world := g.World(6, 5)
	var steps []gen.Step
	for _, n := range world.Nodes {
		d.nodes = append(d.nodes, n.ID)
		steps = append(steps, gen.Step{Kind: gen.Register, Node: gen.Node{ID: n.ID, Labels: map[string]string{}, Addresses: []string{}}})
	}
	for _, s := range g.WithRollouts(g.History(world, 60)) {
		if s.Kind != gen.Remove { // streams of a node that left end
			steps = append(steps, s)
		}
	}
	scribe := gen.NewScribe("00000000-0000-4000-8000-000000000000", seed)
	for i, s := range steps {
		e := scribe.Write(s)
		seq := uint64(i + 1) //nolint:gosec // a count
		d.log.msgs = append(d.log.msgs, streams.Message{Seq: seq, Subject: e.Subject, Body: e.Body, Time: stageBorn.Add(time.Duration(seq) * time.Second)})
		require.NoError(d, d.truth.Apply(seq, e.Body))
	}
}

// follow plays the log event by event to streams of all nodes.
func (d *derived) follow() *stage {
	var g *stage
	g = newStage(d, d.log, Options{Head: func(context.Context) (uint64, error) { return g.store.Applied(), nil }})
	first := len(d.nodes)
	require.NoError(d, g.store.Apply(d.log.msgs[:first]))
	g.fed = first
	var streams []*reader
	for _, n := range d.nodes {
		streams = append(streams, g.open(n, "", ""))
	}
	next := map[string]int{}
	for g.fed < len(d.log.msgs) {
		require.NoError(d, g.store.Apply(d.log.msgs[g.fed:g.fed+1]))
		g.fed++
		for i, n := range d.nodes {
			for _, x := range d.truth.Changes(n)[next[n]:] {
				if seq, _ := x.ID.Seq(stageBase); seq > uint64(g.fed) { //nolint:gosec // a count
					break
				}
				next[n]++
				f := streams[i].next()
				require.Equal(d, x.ID, f.ID, "%s at event %d", n, g.fed)
				var notice struct{ Payload json.RawMessage }
				require.NoError(d, json.Unmarshal(f.Data, &notice))
				d.hear(f.NoticeID, f.Event, notice.Payload)
			}
		}
	}
	require.NotEmpty(d, d.said)
	return g
}

// hear holds what is said under a name against what was said under it before.
func (d *derived) hear(name, kind string, payload []byte) {
	says := kind + " " + string(payload)
	if was, told := d.said[name]; told {
		require.Equal(d, was, says, name)
	}
	d.said[name] = says
}

// resume asks a worker for what followed every id and every event.
func (d *derived) resume(g *stage) {
	for _, node := range d.nodes {
		after := map[policy.EventID]bool{}
		for _, x := range d.truth.Changes(node) {
			after[x.ID] = true
		}
		for seq := range d.log.msgs {
			after[policy.EndOf(stageBase, uint64(seq))] = true //nolint:gosec // a count
		}
		for _, id := range slices.Sorted(maps.Keys(after)) {
			d.answer(g, policy.NodeID(node), id)
		}
	}
}

func (d *derived) answer(g *stage, node policy.NodeID, after policy.EventID) {
	a, err := g.relay.answer(d.Context(), node, after, false, nil)
	require.NoError(d, err)
	require.False(d, a.pull)
	last := after
	told := map[oracle.Thing]policy.EventID{}
	for i, n := range a.messages() {
		require.Greater(d, n.id, last)
		last = n.id
		d.hear(n.noticeID(node), n.kind, n.appendPayload(nil, node))
		told[oracle.Thing{Policy: a.items[i].Policy.String()}] = n.id
		x, ok := d.truth.Tells(string(node), n.id)
		require.True(d, ok, "%s hears %s", node, n.id)
		require.Equal(d, a.items[i].Gone, x.Gone)
	}
	newest := map[oracle.Thing]policy.EventID{}
	for _, x := range d.truth.Changes(string(node)) {
		newest[x.Thing] = x.ID
	}
	for thing, id := range newest {
		if id > after {
			require.GreaterOrEqual(d, told[thing], id, "%s after %s: %s", node, after, thing)
		}
	}
}
