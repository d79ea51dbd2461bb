package convergence

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

func (w *world) refusal(n policy.NodeID, o policy.Outcome, why string) policy.Report {
	r := w.truth(n)
	r.Outcome, r.Reason = o, why
	return r
}

// A node that says that it refused what it must hold lags, whatever fingerprint it
// names, until it says otherwise; and the time it took counts from the change.
func TestWhatANodeRefusedIsNotApplied(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	id := w.id()
	w.put("n1", "a")
	w.put("n2", "a")
	w.report(x, 1, "n1", w.truth("n1"), 0)
	w.revise(id, "a", 1) // 3
	w.report(x, 2, "n1", w.refusal("n1", policy.OutcomeRefused, "no room"), 10*time.Second)
	w.report(x, 3, "n2", w.refusal("n2", policy.OutcomeStale, ""), 5*time.Second)
	r := w.rollout(x, id)
	require.Zero(t, r.Applied)
	require.Equal(t, []Refusal{
		{"n2", policy.OutcomeStale, "", at(3).Add(5 * time.Second)}, {"n1", policy.OutcomeRefused, "no room", at(3).Add(10 * time.Second)},
	}, r.Refusals, "those for the longest first")
	require.Equal(t, map[string]int{Lags: 0, Holds: 1, Refused: 1, Stale: 1}, plus(w.reported, Lags))

	w.report(x, 4, "n1", w.refusal("n1", policy.OutcomeRefused, "no room at all"), 20*time.Second)
	require.Equal(t, Refusal{"n1", policy.OutcomeRefused, "no room at all", at(3).Add(10 * time.Second)}, w.rollout(x, id).Refusals[1], "since it began")
	w.report(x, 5, "n1", w.refusal("n1", policy.OutcomeDrift, "x"), 30*time.Second)
	require.Equal(t, at(3).Add(30*time.Second), w.rollout(x, id).Refusals[1].Since, "another outcome begins anew")
	one, ok, err := x.Rollout(t.Context(), home, id, 1)
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, one.Refusals, 1)

	before := len(w.took)
	w.report(x, 6, "n1", w.truth("n1"), 40*time.Second)
	require.Equal(t, []time.Duration{40 * time.Second}, w.took[before:], "until it was in force")
	r = w.rollout(x, id)
	require.Equal(t, 1, r.Applied)
	require.InEpsilon(t, 40, *r.P50, 0.05)
	require.Len(t, r.Refusals, 1)
	require.Empty(t, x.table.reasons.of, "a reason is kept as long as it holds")

	// It broke later: nothing is measured again once it is right again.
	w.report(x, 7, "n1", w.refusal("n1", policy.OutcomeDrift, "others"), time.Minute)
	require.Zero(t, w.rollout(x, id).Applied)
	w.report(x, 8, "n1", w.truth("n1"), time.Hour)
	require.Equal(t, 1, w.rollout(x, id).Applied)
	require.Len(t, w.took, before+1)
}

func plus(counts map[string]int, names ...string) map[string]int {
	for _, n := range names {
		counts[n] += 0
	}
	return counts
}

// A node that is gone counts no more.
func TestOnlyNodesThatExistAreNotApplied(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	w.put("n1", "a")
	w.put("n2", "a")
	w.report(x, 1, "n1", w.refusal("n1", policy.OutcomeRefused, "a"), 0)
	w.report(x, 2, "n2", w.refusal("n2", policy.OutcomeRefused, "b"), 0)
	count, err := x.NotApplied(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[policy.Outcome]int{policy.OutcomeRefused: 2}, count)
	w.publish(policy.NodeRemoved{ID: w.id(), Project: home, Node: "n1"})
	count, err = x.NotApplied(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[policy.Outcome]int{policy.OutcomeRefused: 1}, count)
	w.report(x, 3, "n2", w.truth("n2"), 0)
	count, err = x.NotApplied(t.Context())
	require.NoError(t, err)
	require.Zero(t, count[policy.OutcomeRefused])
}

// However many nodes give reasons, what is kept of them is bounded.
func TestReasonsAreBounded(t *testing.T) {
	var x reasons
	long := strings.Repeat("x", policy.MaxReason)
	const many = 2 * maxReasons / (policy.MaxReason + reasonCost)
	for i := range uint32(many) {
		x.note(i, policy.Report{Outcome: policy.OutcomeRefused, Reason: long})
		require.LessOrEqual(t, x.size, maxReasons)
		require.Equal(t, long, x.of[i], "the newest is known")
	}
	require.Greater(t, len(x.of), many/3)
	for i := range uint32(many) {
		x.note(i, policy.Report{Reason: "it does not matter why something is right"})
	}
	require.Empty(t, x.of)
	require.Zero(t, x.size)
}
