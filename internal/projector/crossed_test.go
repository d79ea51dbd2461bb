package projector

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/policy"
)

// TestWhatIsCrossedIsWhatEachMatches holds identities that are crossed with selectors,
// few of either and many, against each selector's word on each identity.
func TestWhatIsCrossedIsWhatEachMatches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newState(testPartitions)
		p := s.project(tenant(1))
		var selectors []*selector
		for i := range rapid.IntRange(0, 40).Draw(rt, "selectors") {
			side := expr(rt, rapid.StringMatching(`(role|!zone|role=v[1-3]|role!=v1|zone in \(v1,v2\)|host=h1?[0-9])(,!turn-[0-9]{1,3})?`).Draw(rt, "side"))
			x := &selector{ordinal: uint32(i), project: p, sel: policy.Selector{Source: side, Destination: side}}
			p.selectors[fmt.Sprint(i)] = x
			p.index.file(x)
			selectors = append(selectors, x)
		}
		var ids set
		share := rapid.IntRange(1, 100).Draw(rt, "one of so many is asked for")
		for i := range rapid.IntRange(0, 600).Draw(rt, "label sets") {
			kv := []string{"host", fmt.Sprintf("h%d", i)}
			for k, key := range []string{"role", "zone"} {
				if v := (i + k*i/3) % 5; v > 0 {
					kv = append(kv, key, fmt.Sprintf("v%d", v))
				}
			}
			id := &identity{ordinal: uint32(i), project: p, labels: labels(rt, kv...)}
			s.identities = append(s.identities, id)
			p.index.enter(id)
			for _, x := range id.find() {
				x.identities.add(id.ordinal)
			}
			if i%share == 0 {
				ids.add(id.ordinal)
			}
		}
		found, any := s.cross(p, &ids), map[*selector]bool{}
		require.Equal(rt, ids.members(), found.ids)
		for place, o := range found.ids {
			var want []*selector
			for _, x := range selectors {
				if x.matches(s.identities[o].labels) {
					want, any[x] = append(want, x), true
				}
			}
			require.Equal(rt, len(want), len(found.of(place)))
			for i, x := range found.of(place) {
				require.Same(rt, want[i], x)
			}
		}
		meeting := s.meeting(p, &ids)
		require.Len(rt, meeting, len(any))
		for i, x := range meeting {
			require.True(rt, any[x])
			require.True(rt, i == 0 || meeting[i-1].ordinal < x.ordinal)
		}
	})
}
