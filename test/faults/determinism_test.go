package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
)

// announced collects what a plane stores for nodes: Edict-Id → everything that
// must not depend on who announced it, which is all but signature and sequence.
type announced struct {
	mu   sync.Mutex
	said map[string]string
}

func (p *plane) collect() *announced {
	a := &announced{said: map[string]string{}}
	sub, err := p.nc.Subscribe("edict.live.node.>", func(m *nats.Msg) {
		var e map[string]json.RawMessage
		if err := json.Unmarshal(m.Data, &e); err != nil {
			p.t.Error(err)
			return
		}
		delete(e, "signature")
		body, err := json.Marshal(e) // raw values stay as they are
		if err != nil {
			p.t.Error(err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		id := m.Header.Get("Edict-Id")
		if was, told := a.said[id]; told && was != string(body) {
			p.t.Errorf("%s was told as %s and as %s", id, was, body)
		}
		a.said[id] = string(body)
	})
	require.NoError(p.t, err)
	require.NoError(p.t, sub.SetPendingLimits(-1, -1))
	require.NoError(p.t, p.nc.Flush())
	return a
}

// TestAnnouncementsDoNotDependOnWhoMadeThem folds and announces one log twice:
// by one worker that is left in peace, and on a second server by two that are
// fed in other batches, restarted, exchange their partitions and lose a disk.
// Stores and announcements are equal, byte for byte.
func TestAnnouncementsDoNotDependOnWhoMadeThem(t *testing.T) {
	const seed = 1
	calm, wild := newPlane(t, seed), newPlane(t, seed+1)
	want, got := calm.collect(), wild.collect()
	r := rand.New(rand.NewPCG(seed, 8))
	feed := func() *tap {
		draw := rand.New(rand.NewPCG(r.Uint64(), 9))
		return &tap{Log: calm.log, cut: func() int { return 1 + draw.IntN(4) }}
	}
	one := calm.start(t.TempDir(), calm.connect(""), relay.Options{})
	calm.eventually("all is owned before anything is written", func() bool { return one.told(0) })

	conn := wild.connect("")
	_, _, err := streams.RemakeNodes(t.Context(), conn, streams.NodesOptions{LogID: calm.log.ID()}, 0)
	require.NoError(t, err)
	wild.nodes, _, err = streams.OpenNodes(t.Context(), conn, streams.NodesOptions{LogID: calm.log.ID()})
	require.NoError(t, err)
	dirs := []string{t.TempDir(), t.TempDir()}
	history := steps(seed)
	phases := [][2][]int{
		{{0, 1}, {2, 3}}, // they share
		{{2, 3}, {0, 1}}, // and exchange
		{{0, 1, 2, 3}, {}},
		{{}, {0, 1, 2, 3}}, // the second one's disk was lost
	}
	var pair []*worker
	for i, owns := range phases {
		if i == len(phases)-1 {
			dirs[1] = t.TempDir()
		}
		pair = nil
		for k, dir := range dirs {
			pair = append(pair, wild.fold(dir, feed(), conn, relay.Options{Announce: owns[k], Lanes: 1 + r.IntN(4)}))
		}
		if i == 0 {
			wild.eventually("all is owned before anything is written", func() bool { return pair[0].told(0) && pair[1].told(0) })
		}
		from, to := i*len(history)/len(phases), (i+1)*len(history)/len(phases)
		at := calm.publish(history[from:to]...)
		if i%2 == 0 { // else they are stopped in the midst of it
			wild.eventually("all is announced", func() bool { return pair[0].told(at) && pair[1].told(at) })
		}
		if i == len(phases)-1 {
			wild.eventually("all is announced in the end", func() bool { return pair[0].told(at) && pair[1].told(at) })
			calm.eventually("and in peace, too", func() bool { return one.told(at) })
			break
		}
		pair[0].stop()
		pair[1].stop()
	}
	calm.quiet(0)
	wild.quiet(0)
	one.finish("one", nil)
	for i, w := range pair {
		w.p = calm
		w.finish(fmt.Sprint("wild ", i+1), nil)
	}
	for name, digest := range calm.run.Digests {
		require.Equal(t, calm.run.Digests["one"], digest, name)
	}
	want.mu.Lock()
	defer want.mu.Unlock()
	got.mu.Lock()
	defer got.mu.Unlock()
	require.Greater(t, len(want.said), 50)
	require.Equal(t, want.said, got.said)
	for _, w := range append(pair, one) {
		w.stop()
	}
}
