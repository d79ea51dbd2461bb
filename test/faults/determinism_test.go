package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// published collects what is published for nodes: Edict-Id → everything that must
// not depend on who publishes it, which is all but the signature.
type published struct {
	mu      sync.Mutex
	said    map[string]string
	doubles int
}

func (p *plane) collect() *published {
	a := &published{said: map[string]string{}}
	sub, err := p.nc.Subscribe("edict.node.>", func(m *nats.Msg) {
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
		if was, known := a.said[id]; known {
			a.doubles++
			if was != string(body) {
				p.t.Errorf("%s was sent as %s and as %s", id, was, body)
			}
		}
		a.said[id] = string(body)
	})
	require.NoError(p.t, err)
	require.NoError(p.t, sub.SetPendingLimits(-1, -1))
	require.NoError(p.t, p.nc.Flush())
	return a
}

// TestWhatIsPublishedDoesNotDependOnWhoPublishesIt has one log published by one
// worker that is left in peace, on two of the partitions, and by two that are fed
// in other batches, restarted, exchange their partitions and lose a disk. All of
// them, and clients that resume at each of them, are sent the same under one id,
// byte for byte, and stores are equal.
func TestWhatIsPublishedDoesNotDependOnWhoPublishesIt(t *testing.T) {
	const seed = 1
	p := newPlane(t, seed)
	said := p.collect()
	r := rand.New(rand.NewPCG(seed, 8))
	one := p.start(t.TempDir(), casting{share: owns(0, 1, 2, 3)})
	p.eventually("all is owned before anything is written", func() bool { return one.announced(0) })
	dirs := []string{t.TempDir(), t.TempDir()}
	history := steps(seed)
	phases := [][2][]int{
		{{0, 1}, {2, 3}}, // they share
		{{2, 3}, {0, 1}}, // and exchange
		{{0, 1, 2, 3}, {}},
		{{}, {0, 1, 2, 3}}, // the second one's disk was lost
	}
	marks := map[int]uint64{}
	var at uint64
	for i, shares := range phases {
		if i == len(phases)-1 {
			dirs[1] = t.TempDir()
		}
		var pair []*worker
		for k, dir := range dirs {
			draw := rand.New(rand.NewPCG(r.Uint64(), 9))
			pair = append(pair, p.start(dir, casting{
				share: owns(shares[k]...), cut: func() int { return 1 + draw.IntN(4) },
				marks: func(id int) (uint64, bool) { seq, ok := marks[id]; return seq, ok },
			}))
		}
		from, to := i*len(history)/len(phases), (i+1)*len(history)/len(phases)
		at = p.publish(history[from:to]...)
		if i%2 == 0 || i == len(phases)-1 { // else they are stopped in the midst of it
			p.eventually("all is sent", func() bool { return one.announced(at) && pair[0].announced(at) && pair[1].announced(at) })
		}
		for _, w := range pair {
			for id, seq := range w.progress.Published() {
				marks[id] = max(marks[id], seq)
			}
		}
		if i == len(phases)-1 {
			p.resumeAtEveryID(append(pair, one))
			for k, w := range append(pair, one) {
				w.finish(fmt.Sprint("worker ", k+1), nil)
			}
		}
		pair[0].stop()
		pair[1].stop()
	}
	require.NoError(t, p.nc.Flush())
	said.mu.Lock()
	defer said.mu.Unlock()
	require.Greater(t, len(said.said), 50)
	require.Greater(t, said.doubles, len(said.said)/2, "two published")
	require.Empty(t, p.verdict())
	one.stop()
}

// resumeAtEveryID has a client of each node ask each worker, and its stream over
// SSE, for what followed each of the ids that the node was sent.
func (p *plane) resumeAtEveryID(workers []*worker) {
	for node := range map[string]bool{"node-0": true, "node-1": true, "node-2": true} {
		for _, x := range p.truth.Changes(node) {
			for _, w := range workers {
				f := p.from(node, x.ID)
				f.open(p.t.Context(), w, w.http.URL)
				p.eventually("it hears what followed", func() bool { return p.hasHeard(f) })
				f.cut()
			}
		}
	}
}
