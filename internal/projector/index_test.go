package projector

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/policy"
)

// TestAMatchBySetsIsAMatchOneByOne asks an index of many label sets for random
// selectors, and each label set for the same. Enough of them have a term in
// common that sets are bitmaps, and few enough that some are not.
func TestAMatchBySetsIsAMatchOneByOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newState(testPartitions)
		p := s.project(tenant(1))
		spread := rapid.IntRange(1, 6).Draw(rt, "values of a key")
		n := rapid.IntRange(0, 150).Draw(rt, "label sets")
		for i := range n {
			kv := []string{"host", fmt.Sprintf("h%d", i)}
			for _, key := range []string{"role", "env", "zone"} {
				if v := rapid.IntRange(0, spread).Draw(rt, key); v > 0 {
					kv = append(kv, key, fmt.Sprintf("v%d", v))
				}
			}
			id := &identity{ordinal: uint32(i), project: p, labels: labels(rt, kv...)}
			s.identities.put(id.ordinal, id)
			p.index.enter(id)
		}
		for gone := range n / 5 {
			p.index.leave(s.identities.at(uint32(gone * 5)))
			s.identities.put(uint32(gone*5), nil)
		}
		side := func(name string) policy.Expr {
			return expr(rt, rapid.StringMatching(`(role|env|zone|!role|!zone|role=v[1-4]|env=v[12]|host=h3|host!=h4|role!=v[1-3]|zone!=v1|env in \(v1,v3,v9\)|host in \(h1,h2,h7\))(,(role|!env|env=v1|zone!=v2|env in \(v2,v3\)|zone=v1)){0,3}`).Draw(rt, name))
		}
		sel := policy.Selector{Source: side("source"), Destination: side("destination")}
		filed := &selector{sel: sel}
		p.index.file(filed)
		got := s.match(p, filed)
		p.index.unfile(filed)
		var have, want []uint32
		got.each(func(o uint32) bool { have = append(have, o); return true })
		for i := range s.identities.all() {
			if sel.Matches(i.labels) {
				want = append(want, i.ordinal)
			}
		}
		require.Equal(rt, want, have)
		require.Equal(rt, len(want), got.len())
		for i := range s.identities.all() {
			p.index.leave(i)
		}
		require.Empty(rt, p.index.keys, "an empty index keeps nothing, and what it gave away is not its own")
	})
}

// TestASelectorOfSeveralValuesIsFoundByEach looks at where the index has it: a label
// set with another value of the key must not be tried against it.
func TestASelectorOfSeveralValuesIsFoundByEach(t *testing.T) {
	p := newState(testPartitions).project(tenant(1))
	s := &selector{sel: policy.Selector{Source: expr(t, "role in (db,web)"), Destination: expr(t, "role in (db,web)")}}
	p.index.file(s)
	k := p.index.keys["role"]
	require.Empty(t, k.selectors)
	require.Equal(t, bucketSelectors{s}, k.values["web"].selectors)
	require.Equal(t, bucketSelectors{s}, k.values["db"].selectors)
	p.index.unfile(s)
	require.Empty(t, p.index.keys)
}
