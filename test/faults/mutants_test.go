//go:build faults

package faults

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/test/check"
)

// mutants says which rule catches a mutant, and what stage it needs.
var mutants = []struct {
	mutant fault.Mutant
	rule   check.Rule
	with   cast
	seed   uint64
}{
	{fault.Drop, check.Complete, alone, 1},
	{fault.LostTombstone, check.Complete, alone, 1},
	{fault.CrossNode, check.Named, alone, 1},
	{fault.WrongID, check.Named, alone, 1},
	{fault.WrongRevision, check.Headed, alone, 3},
	{fault.TwoContents, check.Deterministic, alone, 1},
	{fault.WrongFingerprint, check.Hashed, alone, 1},
	{fault.Duplicate, check.Unique, alone, 1},
	{fault.Reorder, check.Ordered, alone, 1},
	{fault.Silence, check.Notified, alone, 1},
	{fault.StaleJoin, check.Complete, alone, 1},
	{fault.ForgottenLabels, check.Complete, alone, 1},
	{fault.ForgottenSelectors, check.Complete, alone, 1},
	{fault.WindowEdge, check.Notified, brief, 1},
	{fault.ResurrectedPolicy, check.True, alone, 1},
}

// attempts are how often a mutant is tried at most: what a stream that joins late has
// missed hangs on what the hub did meanwhile.
var attempts = map[fault.Mutant]int{fault.StaleJoin: 20}

// TestEveryMutantIsCaught turns on one mistake after another in the product's
// own path and wants the checker to name the rule it breaks. What the same
// seeds give without one is TestTheCheckerFindsNothingWhereNothingIsWrong.
func TestEveryMutantIsCaught(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "mutant\tpromise\trule\tseed\talso")
	caught := map[fault.Mutant]bool{}
	for _, m := range mutants {
		undo := fault.Mutate(m.mutant, m.seed)
		broken := check.Rules(scenario(t, m.seed, m.with, true))
		for n := 1; n < attempts[m.mutant] && !slices.Contains(broken, m.rule); n++ {
			broken = check.Rules(scenario(t, m.seed, m.with, true))
		}
		undo()
		if !slices.Contains(broken, m.rule) {
			t.Errorf("%s at seed %d, with %s: want %s broken, the checker finds %v", m.mutant, m.seed, m.with, m.rule, broken)
			continue
		}
		caught[m.mutant] = true
		also := slices.DeleteFunc(broken, func(r check.Rule) bool { return r == m.rule })
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%v\n", m.mutant, m.rule.Promise(), m.rule, m.seed, also)
	}
	require.NoError(t, w.Flush())
	t.Logf("\n%s", table.String())
	for _, m := range caughtAt {
		caught[m.mutant] = true
	}
	for m := range ownTest {
		caught[m] = true
	}
	for _, m := range fault.Mutants() {
		require.True(t, caught[m], "%s is not caught", m)
	}
}

var mutantSeeds = flag.Int("mutant.seeds", 0, "seeds to try each mutant at, to say how often it is caught")

// TestHowOftenAMutantIsCaught is for the long campaign.
func TestHowOftenAMutantIsCaught(t *testing.T) {
	for _, m := range mutants {
		n := 0
		for seed := range *mutantSeeds {
			undo := fault.Mutate(m.mutant, uint64(seed+2))
			if len(scenario(t, uint64(seed+2), m.with, true)) > 0 {
				n++
			}
			undo()
		}
		if *mutantSeeds > 0 {
			t.Logf("%s: caught at %d of %d seeds from 2 on", m.mutant, n, *mutantSeeds)
			require.Positive(t, n, m.mutant)
		}
	}
}
