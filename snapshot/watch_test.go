package snapshot

import (
	"flag"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/compiler/datapath"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
)

var watchSeeds = flag.Int("watch.seeds", 6, "histories that a watch of tables is held against")

// reader is a node that reads its table whenever it is told something, and now
// and then unasked.
type reader struct {
	rows  []projector.HeadRef
	now   string // its table
	moved bool   // it was another at some event since the last look
	holds string // the table it read last
}

// watching is a plane whose readers are looked after by a Watch alone.
type watching struct {
	t       *testing.T
	p       *projector.Projector
	tables  *Tables
	readers map[policy.NodeID]*reader
}

// step lets one event pass and says of each node what it did to it.
func (w *watching) step(ordered map[policy.NodeID]bool, pulls func() bool) {
	seen := map[policy.NodeID]bool{}
	extended, err := w.p.Extended()
	require.NoError(w.t, err)
	matters := map[string]bool{}
	for _, ids := range extended {
		for _, id := range ids {
			matters[id.String()] = true
		}
	}
	for project := range extended {
		m, ok := w.p.Muster(project, 0)
		require.True(w.t, ok)
		require.NoError(w.t, m.Each(func(e *projector.Enforcement) error {
			seen[e.Node.ID] = true
			return w.meet(e, matters, ordered, pulls)
		}))
		require.NoError(w.t, m.Close())
	}
	for id := range w.readers {
		if !seen[id] {
			delete(w.readers, id)
			delete(ordered, id)
		}
	}
}

func (w *watching) meet(e *projector.Enforcement, matters map[string]bool, ordered map[policy.NodeID]bool, pulls func() bool) error {
	id := e.Node.ID
	ordered[id] = false
	for _, h := range e.Matched {
		ordered[id] = ordered[id] || matters[h.Policy.String()]
	}
	a, _, err := w.tables.Of(id)
	if err != nil {
		return err
	}
	now := a.Fingerprint.String()
	r := w.readers[id]
	if r == nil { // it comes, and reads before it listens
		w.readers[id] = &reader{rows: e.Matched, now: now, holds: now, moved: true}
		return nil
	}
	if now != r.now {
		r.moved = true
	}
	told := len(r.rows) != len(e.Matched)
	for i := range e.Matched {
		told = told || r.rows[i].Policy != e.Matched[i].Policy || r.rows[i].Fingerprint != e.Matched[i].Fingerprint
	}
	r.rows, r.now = e.Matched, now
	if told || pulls() {
		r.holds = now
	}
	return nil
}

// After every look, each node that enforces an ordered policy holds its table,
// however many events a look meets and whenever nodes read; and where a look
// meets one event, none is told whose table stayed as it was.
func TestEveryNodeHearsOfItsTableAndNoneWithoutNeed(t *testing.T) {
	base := rand.Uint64()
	looks, told, quiet := 0, 0, 0
	for seed := base; seed < base+uint64(*watchSeeds); seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		msgs := drawnHistory(t, r, 60)
		p, err := projector.Open("live", options.On(vfs.NewMem()))
		require.NoError(t, err)
		parts := 64
		own := map[int]uint64{}
		for i := range parts {
			own[i] = 0
		}
		w := &watching{t: t, p: p, tables: NewTables(p, datapath.Options{}), readers: map[policy.NodeID]*reader{}}
		watch := NewWatch(p, NewTables(p, datapath.Options{}), slog.New(slog.DiscardHandler))
		ordered, before := map[policy.NodeID]bool{}, map[policy.NodeID]bool{}
		gap, last := 1+r.IntN(4), 0
		for i := range msgs {
			require.NoError(t, p.Apply(msgs[i:i+1]))
			w.step(ordered, func() bool { return r.IntN(6) == 0 })
			if r.IntN(gap) > 0 {
				continue
			}
			seq, changed, err := watch.Look(own, parts)
			require.NoError(t, err)
			require.Equal(t, uint64(i+1), seq)
			for _, id := range changed {
				x := w.readers[id]
				if x == nil {
					continue // gone with the last ordered policy of the project
				}
				told++
				require.True(t, x.moved || !before[id] || i+1-last > 1, "seed %d at %d: node %s is told, and its table stayed", seed, seq, id)
				x.holds = x.now
			}
			for id, x := range w.readers {
				if ordered[id] {
					require.Equal(t, x.now, x.holds, "seed %d at %d: node %s", seed, seq, id)
				}
				if !x.moved {
					quiet++
				}
				x.moved, before[id] = false, ordered[id]
			}
			last = i + 1
			looks++
		}
		require.NoError(t, p.Close())
	}
	t.Logf("%d looks, %d words, %d silences", looks, told, quiet)
	require.Positive(t, told)
}
