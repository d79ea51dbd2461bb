package datapath_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/test/gen"
)

// permutations calls f with every order of list, which it changes.
func permutations[T any](list []T, f func([]T)) {
	if len(list) == 0 {
		f(list)
		return
	}
	var from func(k int)
	from = func(k int) {
		if k == len(list) {
			f(list)
			return
		}
		for i := k; i < len(list); i++ {
			list[k], list[i] = list[i], list[k]
			from(k + 1)
			list[k], list[i] = list[i], list[k]
		}
	}
	from(0)
}

func TestEveryOrderOfASmallInputGivesTheSameBytes(t *testing.T) {
	gen.Unraced()
	for seed := range uint64(12) {
		w := newWorld(rand.New(rand.NewPCG(seed, 6)).IntN)
		rules, ids := w.all()
		rules, ids = rules[:min(5, len(rules))], ids[:min(3, len(ids))]
		table, err := datapath.Build(rules, ids, datapath.Options{})
		require.NoError(t, err)
		want := string(table.AppendJSON(nil))
		permutations(rules, func(rules []datapath.Rule) {
			table, err := datapath.Build(rules, ids, datapath.Options{})
			require.NoError(t, err)
			require.Equal(t, want, string(table.AppendJSON(nil)))
		})
		permutations(ids, func(ids []datapath.Identity) {
			table, err := datapath.Build(rules, ids, datapath.Options{})
			require.NoError(t, err)
			require.Equal(t, want, string(table.AppendJSON(nil)))
		})
	}
}

func TestRandomOrdersOfALargeInputGiveTheSameBytes(t *testing.T) {
	gen.Unraced()
	r := rand.New(rand.NewPCG(7, 7))
	w := newWorld(r.IntN)
	for range 200 {
		w.addRule()
	}
	for range 60 {
		w.addNode()
	}
	rules, ids := w.all()
	options := datapath.Options{Capacity: 1 << 20}
	table, err := datapath.Build(rules, ids, options)
	require.NoError(t, err)
	require.Greater(t, table.Len(), 500)
	for range 6 {
		r.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		other, err := datapath.Build(rules, ids, options)
		require.NoError(t, err)
		require.Equal(t, table.Fingerprint(), other.Fingerprint())

		// One by one is another order too.
		s := datapath.NewState(options)
		for chunk := range slices.Chunk(rules, 50) {
			_, err = s.Apply(datapath.Batch{AddRules: chunk})
			require.NoError(t, err)
		}
		for i := range ids {
			_, err = s.Apply(datapath.Batch{AddIdentities: ids[i : i+1]})
			require.NoError(t, err)
		}
		require.Equal(t, table.Fingerprint(), s.Table().Fingerprint())
	}
}

// TestRulesThatShareANameHaveAnOrder holds what no policy can write: nothing but
// their content tells such rules apart.
func TestRulesThatShareANameHaveAnOrder(t *testing.T) {
	var rules []datapath.Rule
	for _, text := range []string{"r0 g t/80 A", "r0 g t/80 A!", "r0 h t/80-90 A", "r0 g u/80 A"} {
		rules = append(rules, vector{rules: text}.parse(t)...)
	}
	var want string
	permutations(rules, func(rules []datapath.Rule) {
		table, err := datapath.Build(rules, numbered("5 6"), datapath.Options{})
		require.NoError(t, err)
		got := string(table.AppendJSON(nil))
		if want == "" {
			want = got
		}
		require.Equal(t, want, got)
	})
}
