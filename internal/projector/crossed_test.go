package projector

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/streams"
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
			s.identities.put(id.ordinal, id)
			p.index.enter(id)
			for _, x := range id.selectors() {
				x.identities.add(id.ordinal)
			}
			if i%share == 0 {
				ids.add(id.ordinal)
			}
		}
		if rapid.Bool().Draw(rt, "nothing is known") {
			p.index.refiled++
		}
		any := map[*selector]bool{}
		for range 2 { // what the first found is known to the second
			found := s.cross(p, &ids)
			require.Equal(rt, ids.members(), found.ids)
			for place, o := range found.ids {
				var want []*selector
				for _, x := range selectors {
					if x.matches(s.identities.at(o).labels) {
						want, any[x] = append(want, x), true
					}
				}
				requireSame(rt, want, found.of(place))
				requireSame(rt, want, s.identities.at(o).glance())
			}
			if rapid.Bool().Draw(rt, "nothing is known any more") {
				p.index.refiled++
			}
			meeting := s.meeting(p, &ids)
			require.Len(rt, meeting, len(any))
			for i, x := range meeting {
				require.True(rt, any[x])
				require.True(rt, i == 0 || meeting[i-1].ordinal < x.ordinal)
			}
		}
	})
}

func requireSame(t require.TestingT, want, got []*selector) {
	require.Len(t, got, len(want))
	for i, x := range got {
		require.Same(t, want[i], x)
	}
}

// TestWhatIsAheadIsFound tries each place of lists of each length.
func TestWhatIsAheadIsFound(t *testing.T) {
	var list []uint32
	for n := range uint32(40) {
		list = append(list, 3*n+n%2)
		for at, x := range list {
			require.Equal(t, at, ahead(list, x))
		}
	}
}

// TestSelectorsThatEndedKeepNoLabelSets: label sets that nobody asks about keep what once
// matched them, and that must not keep as much as it had matched.
func TestSelectorsThatEndedKeepNoLabelSets(t *testing.T) {
	p, j, n, head := openFresh(t), &journal{}, 0, 0
	event := func() int { n++; return n }
	do := func(m streams.Message) { require.NoError(t, p.Apply([]streams.Message{m})) }
	for i := range smallSet + 1 { // so that what matches all has a bitmap
		do(j.add(update(t, event(), 1, fmt.Sprintf("n%d", i), "host", fmt.Sprintf("h%d", i))))
	}
	var ended []weak.Pointer[bitmap]
	for i := range 20 {
		revision := 1000 + i
		do(j.add(revise(t, event(), 1, 1, revision, head, "p", fmt.Sprintf("!turn-%d", i), 80)))
		head = revision
		ended = append(ended, weak.Make(p.state.policies[pol(1)].selector.identities.big))
		require.Len(t, p.state.nodes["n0"].identity.selectors(), 1)
		do(j.add(update(t, event(), 1, fmt.Sprintf("later%d", i), "host", fmt.Sprintf("l%d", i))))
	}
	runtime.GC()
	for _, b := range ended[:len(ended)-1] {
		require.Nil(t, b.Value())
	}
}

// TestReadersMayFindAtOnce has readers look for what matches while the fold goes on.
func TestReadersMayFindAtOnce(t *testing.T) {
	p, j := openFresh(t), &journal{}
	for i := range 50 {
		j.add(update(t, i+1, 1, fmt.Sprintf("n%d", i), "host", fmt.Sprintf("h%d", i%30), "role", "web"))
	}
	require.NoError(t, p.Apply(j.msgs))
	web := []policy.Selector{{Source: expr(t, "role"), Destination: expr(t, "role")}}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for _, read := range []func(v *View){
		func(v *View) { v.Generation("n7") },
		func(v *View) { v.NodeSummaries(nil, NodeCursor{}, 100) },
		func(v *View) { v.Matched(tenant(1), web) },
		func(v *View) { v.Heads("n8", 0) },
	} {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					p.Read(read)
				}
			}
		})
	}
	head := 0
	for i := range 200 {
		revision := 1000 + i
		require.NoError(t, p.Apply([]streams.Message{j.add(revise(t, 100+i, 1, 1, revision, head, "p", fmt.Sprintf("role=web,!turn-%d", i), 80))}))
		head = revision
	}
	close(done)
	readers.Wait()
	for i := range p.state.identities.all() {
		requireSame(t, p.state.projects[tenant(1)].index.matching(i.labels), i.selectors())
	}
}
