package snapshot

import (
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
)

func factsOf(t *testing.T, msgs []streams.Message, only policy.NodeID) iter.Seq2[projector.Fact, error] {
	t.Helper()
	p, err := projector.Open("store", options.On(vfs.NewMem()))
	require.NoError(t, err)
	require.NoError(t, p.Apply(msgs))
	_, facts := p.Facts(only)
	var all []projector.Fact
	for f, err := range facts {
		require.NoError(t, err)
		all = append(all, f)
	}
	require.NoError(t, p.Close())
	return yielding(all)
}

func yielding(all []projector.Fact) iter.Seq2[projector.Fact, error] {
	return func(yield func(projector.Fact, error) bool) {
		for _, f := range all {
			if !yield(f, nil) {
				return
			}
		}
	}
}

func TestOfEqualReadModelsNoFactDiffers(t *testing.T) {
	msgs := drawnHistory(t, rand.New(rand.NewPCG(8, 8)), 120)
	d, err := Compare(factsOf(t, msgs, ""), factsOf(t, msgs, ""))
	require.NoError(t, err)
	require.Nil(t, d)
}

// The facts of one sequence, each in turn left out, added or changed on the
// live side: the difference names it, whatever stands around it.
func TestTheFirstFactThatDiffersIsNamed(t *testing.T) {
	var all []projector.Fact
	for f := range factsOf(t, drawnHistory(t, rand.New(rand.NewPCG(5, 5)), 40), "") {
		all = append(all, f)
	}
	require.Greater(t, len(all), 10)
	for i, f := range all {
		d, err := Compare(yielding(slices.Delete(slices.Clone(all), i, i+1)), yielding(all))
		require.NoError(t, err)
		require.Nil(t, d.Live)
		require.Equal(t, f, *d.Log)
		require.Contains(t, d.String(), ": the log has it, the live read model does not: ")
		d, err = Compare(yielding(all), yielding(slices.Delete(slices.Clone(all), i, i+1)))
		require.NoError(t, err)
		require.Equal(t, f, *d.Live)
		require.Contains(t, d.String(), ": the live read model has it, the log does not: ")

		changed := f
		changed.Values = map[string]string{}
		for name, v := range f.Values {
			changed.Values[name] = v
		}
		for name, v := range f.Values {
			changed.Values[name] = v + "?"
			d, err = Compare(yielding(append(append(slices.Clone(all[:i]), changed), all[i+1:]...)), yielding(all))
			require.NoError(t, err)
			require.Contains(t, d.String(), ": live has "+name+" ")
			_, id, _ := strings.Cut(f.Key, "/")
			if f.Kind == projector.FactRevision {
				id = strings.TrimLeft(id, "0")
			}
			require.Contains(t, d.String(), id)
			require.Equal(t, name == "rows", d.Node() != "")
			changed.Values[name] = v
		}
	}
}

// A live read model that missed a revision differs in its rows, and of them the
// first is named with both revisions.
func TestARowThatDiffersIsNamedWithBothRevisions(t *testing.T) {
	rows := []projector.Fact{
		{Kind: projector.FactRow, Key: "web-1/P", Values: map[string]string{"revision": "A", "fingerprint": "F"}},
		{Kind: projector.FactRow, Key: "web-1/Q", Values: map[string]string{"revision": "A", "fingerprint": "F"}},
	}
	other := slices.Clone(rows)
	other[1].Values = map[string]string{"revision": "B", "fingerprint": "F"}
	d, err := Compare(yielding(rows), yielding(other))
	require.NoError(t, err)
	require.Equal(t, "node web-1, policy Q: live has revision A, the log says B", d.String())
}
