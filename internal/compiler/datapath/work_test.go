package datapath_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// many are policies of 1,024 rules each, every other one for any peer, the others
// for a block of its own, with port ranges that overlap those of thousands.
func many(policies int) (rules []datapath.Rule) {
	for p := range policies {
		for i := range 1024 {
			n := p*1024 + i
			r := datapath.Rule{
				Ref: datapath.Ref{Policy: fmt.Sprintf("p%02d", p), Revision: "r", Index: i}, Direction: datapath.Egress,
				Tier: datapath.Normal, Priority: uint32(p), Ordered: true, Verdict: datapath.Allow,
				Protocol: datapath.TCP, Ports: policy.Ports{From: uint16(1 + n), To: uint16(5000 + n)},
				Peer: datapath.Peer{Any: true},
			}
			if i%2 == 0 {
				a := netip.AddrFrom4([4]byte{10, byte(n >> 14), byte(n >> 6), byte(n << 2)})
				r.Peer = datapath.Peer{CIDR: netip.PrefixFrom(a, 30)}
			}
			rules = append(rules, r)
		}
	}
	return rules
}

// Each rule for a block met each of those for any peer: ten seconds for four
// policies, which fit.
func TestRulesForBlocksDoNotPayForThoseForAnyPeer(t *testing.T) {
	gen.Unraced()
	steps := func(policies int) int {
		w := datapath.NewWork(datapath.Options{}.Budget(), nil)
		_, err := datapath.Build(many(policies), nil, datapath.Options{Work: w, Capacity: 1 << 20})
		require.NoError(t, err)
		return w.Steps()
	}
	two, four := steps(2), steps(4)
	require.Less(t, four, 3*two, "the steps grow as the square of the rules")
	require.Less(t, four, 1000*4*1024)
}

func TestAListThatIsTooMuchWorkIsRefused(t *testing.T) {
	w := datapath.NewWork(1<<20, nil)
	_, err := datapath.Build(many(2), nil, datapath.Options{Work: w})
	require.Equal(t, &datapath.WorkError{Steps: 1 << 20}, err)
	require.ErrorAs(t, datapath.NewWork(datapath.Options{}.Budget(), nil).Rules(datapath.StepsPerEntry*datapath.DefaultCapacity), new(*datapath.WorkError), "before one of its rules is read")
}

// TestTheBudgetNeverChangesAnAnswer: what is made under a bound is what is made
// without, and what a table may hold may always be made.
func TestTheBudgetNeverChangesAnAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3)).IntN)
		rules, ids := w.all()
		free, err := datapath.Build(rules, ids, datapath.Options{})
		require.NoError(t, err)
		work := datapath.NewWork(datapath.Options{}.Budget(), nil)
		bound, err := datapath.Build(rules, ids, datapath.Options{Work: work})
		require.NoError(t, err)
		require.Equal(t, string(free.AppendJSON(nil)), string(bound.AppendJSON(nil)))

		takes := work.Steps()
		steps := rapid.IntRange(0, 2*takes).Draw(t, "steps")
		bound, err = datapath.Build(rules, ids, datapath.Options{Work: datapath.NewWork(steps, nil)})
		if steps < takes {
			require.Equal(t, &datapath.WorkError{Steps: steps}, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, string(free.AppendJSON(nil)), string(bound.AppendJSON(nil)))
	})
}

func TestWorkThatIsStoppedLeavesTheTableAsItWas(t *testing.T) {
	gen.Unraced()
	enough := errors.New("nobody waits any more")
	waits := true
	w := datapath.NewWork(1<<30, func() error {
		if !waits {
			return enough
		}
		return nil
	})
	s := datapath.NewState(datapath.Options{Work: w, Capacity: 1 << 20})
	first := many(2)
	_, err := s.Apply(datapath.Batch{AddRules: first[:200]})
	require.NoError(t, err)
	before := string(s.Table().AppendJSON(nil))
	waits = false
	_, err = s.Apply(datapath.Batch{AddRules: first[200:]})
	require.ErrorIs(t, err, enough)
	require.Equal(t, before, string(s.Table().AppendJSON(nil)))
	waits = true
	_, err = s.Apply(datapath.Batch{AddRules: first[200:]})
	require.NoError(t, err)
	fresh, err := datapath.Build(first, nil, datapath.Options{Capacity: 1 << 20})
	require.NoError(t, err)
	require.Equal(t, string(fresh.AppendJSON(nil)), string(s.Table().AppendJSON(nil)))
}
