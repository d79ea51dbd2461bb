package datapath_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// Whatever nodes came and went, a census is what sorting those comes to that are
// there, to the step.
func TestACensusIsWhatSortingTheNodesComesTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var heads []datapath.Head
		for i := range rapid.IntRange(1, 4).Draw(t, "policies") {
			heads = append(heads, fleetHead(t, i))
		}
		rules := datapath.List(fleetNode(t, "self"), heads).Rules
		kinds := datapath.NewKinds(rules)
		census := kinds.Census()
		type there struct {
			node policy.Node
			kind *datapath.Kind
		}
		nodes := map[policy.NodeID]there{}
		for i := range rapid.IntRange(1, 30).Draw(t, "events") {
			if i == 10 {
				census.Settled()
			}
			id := policy.NodeID(fmt.Sprint("n", rapid.IntRange(0, 5).Draw(t, "node")))
			if n, ok := nodes[id]; ok {
				census.Go(n.node, n.kind)
				delete(nodes, id)
			}
			if rapid.IntRange(0, 3).Draw(t, "comes") > 0 {
				n := fleetNode(t, string(id))
				kind, err := census.Come(n, nil)
				require.NoError(t, err)
				nodes[id] = there{n, kind}
			}
			var all []policy.Node
			members := map[string]int{}
			for _, id := range slices.Sorted(maps.Keys(nodes)) {
				n := nodes[id]
				all = append(all, n.node)
				want, known := kinds.Of(n.node)
				require.Equal(t, known, n.kind != nil)
				if known {
					require.Equal(t, want.Name, n.kind.Name)
					require.Same(t, n.kind, census.Kind(want.Name))
					members[want.Name]++
				}
			}
			work := datapath.NewWork(1<<40, nil)
			population, err := kinds.Sort(all, work)
			require.NoError(t, err)
			require.Equal(t, population.Identities, census.Identities())
			require.Equal(t, work.Steps(), census.Steps())
			for _, k := range population.Identities {
				require.Len(t, population.Members[k.Name], members[k.Name])
				require.Equal(t, members[k.Name], census.Kind(k.Name).Nodes)
			}
		}
	})
}
