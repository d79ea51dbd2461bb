package projector

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

// TestWhatIsStagedNextHidesNoRolloutBeforeIt: one that was aborted changed what nodes
// have, whatever takes its place; live, after a reload and after a replay.
func TestWhatIsStagedNextHidesNoRolloutBeforeIt(t *testing.T) {
	d, j := newDisk(), &journal{}
	trial := staged(t, 3, 1, 2, 1, "role=web", 81)
	trial.Revision.Order.Tier = policy.Admin
	for _, e := range []policy.Event{
		update(t, 1, 1, "a", "role", "web", "canary", "true"),
		revise(t, 2, 1, 1, 1, 0, "web", "role=web", 80), trial, promoted(t, 4, 1, 2, "canary=true"),
		aborted(5, 1, 2), staged(t, 6, 1, 3, 1, "role=web", 82), promoted(t, 7, 1, 3, "canary=true"), aborted(8, 1, 3), staged(t, 9, 1, 4, 1, "role=web", 83),
	} {
		j.add(e)
	}
	says := func(p *Projector) {
		p.Read(func(v *View) {
			require.Equal(t, []Head{{tenant(1), pol(1), 8, logTime(j.msgs[7].Time.UnixNano())}}, v.Heads("a", 7))
			require.Empty(t, v.Heads("a", 8), "what is staged changes nothing")
			steps, ok, err := v.Steps(tenant(1), pol(1), 9)
			require.NoError(t, err)
			require.True(t, ok)
			var seqs []uint64
			for _, s := range steps {
				seqs = append(seqs, s.Seq)
				require.Equal(t, s.Seq == 4 || s.Seq == 7, s.Trial.Reached(labels(t, "canary", "true")), "%d", s.Seq)
			}
			require.Equal(t, []uint64{8, 7, 5, 4, 2}, seqs)
			few, _, err := v.Steps(tenant(1), pol(1), 3)
			require.NoError(t, err)
			require.Equal(t, steps[:3], few)
		})
		e, ok, err := p.Enforcement("a")
		require.NoError(t, err)
		require.True(t, ok)
		defer e.Close()
		require.EqualValues(t, 8, e.Generation)
		for after, want := range map[uint64]bool{3: true, 4: true, 5: false, 7: false} {
			was, err := e.WasExtended(after)
			require.NoError(t, err)
			require.Equal(t, want, was, "above %d", after)
		}
	}
	p := d.open(t)
	for _, m := range j.msgs {
		require.Equal(t, "applied", verdict(t, p, m))
		p.Read(func(v *View) {
			moves := slices.Contains([]uint64{2, 4, 5, 7, 8}, m.Seq)
			require.Equal(t, moves, len(v.Heads("a", m.Seq-1)) > 0, "what the node has changes at %d", m.Seq)
		})
	}
	says(p)
	require.NoError(t, p.Close())
	p = d.open(t)
	says(p)
	require.NoError(t, p.Close())
	p = openFresh(t)
	require.NoError(t, p.Apply(j.msgs))
	says(p)
}

// TestARevisionThatComesAgainIsWhatItIsThen: what was aborted may be staged again under
// its id, as another, and an id is its policy's own.
func TestARevisionThatComesAgainIsWhatItIsThen(t *testing.T) {
	p, j := openFresh(t), &journal{}
	fold := func(e policy.Event) { require.Equal(t, "applied", verdict(t, p, j.add(e))) }
	extended := func() (of []bool) {
		past, err := p.Past("a", 0, nil)
		require.NoError(t, err)
		for _, i := range past.Items {
			of = append(of, i.Extended)
		}
		return of
	}
	fold(update(t, 1, 1, "a", "role", "web", "canary", "true"))
	fold(revise(t, 2, 1, 1, 1, 0, "web", "role=web", 80))
	first := staged(t, 3, 1, 2, 1, "role=web", 81)
	first.Revision.Order.Tier = policy.Admin
	fold(first)
	fold(promoted(t, 4, 1, 2, "canary=true"))
	require.Equal(t, []bool{true}, extended())
	fold(aborted(5, 1, 2))
	require.Equal(t, []bool{false}, extended())
	fold(staged(t, 6, 1, 2, 1, "role=web", 82))
	fold(promoted(t, 7, 1, 2, "canary=true"))
	require.Equal(t, []bool{false}, extended())
	other := revise(t, 8, 1, 2, 2, 0, "other", "role=web", 83)
	other.Revision.Order.Tier = policy.Admin
	fold(other)
	require.Equal(t, []bool{false, true}, extended())
}
