package projector

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

// TestARolloutIsJudgedByWhereItStands: what the fold says of each event about a
// rollout, in the order of one log.
func TestARolloutIsJudgedByWhereItStands(t *testing.T) {
	p, j := openFresh(t), &journal{}
	elsewhere := staged(t, 90, 1, 90, 1, "role=web", 81)
	elsewhere.Project = tenant(2)
	broken := staged(t, 91, 1, 91, 1, "role=web")
	for i, c := range []struct {
		event policy.Event
		want  string
		why   string
	}{
		{staged(t, 1, 1, 1, 0, "role=web", 80), CodeRevisionConflict, "there is nothing beside which it could stand"},
		{promoted(t, 2, 1, 1), CodeRevisionConflict, "of a policy that nobody has published"},
		{revise(t, 3, 1, 1, 1, 0, "web", "role=web", 80), "applied", ""},
		{promoted(t, 4, 1, 2), CodeNotStaged, "nothing is"},
		{elsewhere, CodePolicyNotOwned, ""},
		{broken, policy.Invalid, "no rules"},
		{staged(t, 5, 1, 2, 7, "role=web", 81), CodeRevisionConflict, "upon another head"},
		{staged(t, 6, 1, 2, 1, "role=web", 81), "applied", ""},
		{staged(t, 6, 1, 2, 1, "role=web", 81), "duplicate", "met again"},
		{staged(t, 7, 1, 3, 1, "role=web", 82), "applied", "in the place of the other"},
		{staged(t, 6, 1, 2, 1, "role=web", 81), "duplicate", "an old one undoes nothing"},
		{promoted(t, 8, 1, 2, "canary=true"), CodeNotStaged, "another is by now"},
		{opened(9, 1, 3, 1), CodeNoRollout, "it is only staged"},
		{stopped(10, 1, 3, 1), CodeNoRollout, "likewise"},
		{promoted(t, 11, 1, 3, "canary=true", "region=eu"), "applied", ""},
		{promoted(t, 11, 1, 3, "canary=true", "region=eu"), "duplicate", ""},
		{promoted(t, 12, 1, 3), CodeRolloutUnderWay, ""},
		{staged(t, 13, 1, 4, 1, "role=web", 83), CodeRolloutUnderWay, ""},
		{revise(t, 14, 1, 1, 5, 1, "web", "role=web", 84), CodeRolloutUnderWay, ""},
		{revise(t, 15, 1, 1, 5, 9, "web", "role=web", 84), CodeRevisionConflict, "which it would be anyhow"},
		{opened(16, 1, 3, 1), CodeWaveConflict, "it is open"},
		{opened(17, 1, 3, 3), CodeWaveConflict, "not the next"},
		{opened(18, 1, 4, 2), CodeNoRollout, "of another revision"},
		{opened(19, 1, 3, 2), "applied", ""},
		{opened(19, 1, 3, 2), "duplicate", ""},
		{opened(20, 1, 3, 2), CodeWaveConflict, "another controller was first"},
		{stopped(21, 1, 3, 1), CodeWaveConflict, "it judged wave 1, and wave 2 is open"},
		{opened(22, 1, 3, 3), "applied", "all others"},
		{opened(23, 1, 3, 4), CodeNoRollout, "it has ended"},
		{aborted(24, 1, 3), CodeNoRollout, "likewise"},
		{staged(t, 25, 1, 3, 3, "role=web", 82), "duplicate", "it is the head"},
		{staged(t, 26, 1, 6, 3, "role=web", 85), "applied", ""},
		{aborted(27, 1, 6), "applied", "what is staged goes"},
		{promoted(t, 28, 1, 6), CodeNotStaged, ""},
		{staged(t, 29, 1, 7, 3, "role=web", 85), "applied", ""},
		{revise(t, 30, 1, 1, 8, 3, "web", "role=web", 86), "applied", "staging holds up nobody"},
		{promoted(t, 31, 1, 7), CodeRevisionConflict, "the head is another"},
		{staged(t, 32, 1, 9, 8, "role=web", 87), "applied", ""},
		{aborting(t, 33, 1, 9, "canary=true"), "applied", ""},
		{stopped(34, 1, 9, 1), "applied", ""},
		{opened(35, 1, 9, 2), CodeNoRollout, "it went back, as its gate says"},
		{revise(t, 36, 1, 1, 10, 8, "web", "role=web", 88), "applied", "the head never moved"},
		{staged(t, 37, 1, 11, 10, "role=web", 89), "applied", ""},
		{promoted(t, 38, 1, 11, "canary=true", "region=eu"), "applied", ""},
		{stopped(41, 1, 11, 1), "applied", "it stays where it is"},
		{stopped(41, 1, 11, 1), "duplicate", ""},
		{stopped(42, 1, 11, 1), CodeWaveConflict, "another controller was first"},
		{gated(43, 1, 11, 2), CodeWaveConflict, "who saw the gate met did not see the stop"},
		{revise(t, 44, 1, 1, 12, 10, "web", "role=web", 90), CodeRolloutUnderWay, "it has not ended"},
		{opened(45, 1, 11, 2), "applied", "a person goes on"},
		{gated(46, 1, 11, 2), CodeWaveConflict, "and was first"},
		{stopped(47, 1, 11, 2), "applied", "it may stop again"},
		{remove(39, 1, 1), "applied", "whatever is under way"},
		{opened(40, 1, 11, 2), CodeRevisionConflict, "of a policy that is deleted"},
	} {
		require.Equal(t, c.want, verdict(t, p, j.add(c.event)), "%d: %s %s", i, c.event.EventType(), c.why)
	}
	require.Zero(t, count(t, p, keySelector))
	require.Zero(t, count(t, p, keyPayload))
}

// TestACanaryWaveComesAndGoes walks through a rollout that is stopped and one that
// is completed.
func TestACanaryWaveComesAndGoes(t *testing.T) {
	p, j := openFresh(t), &journal{}
	told := listen(p)
	edges := func(e policy.Event) string {
		require.Equal(t, "applied", verdict(t, p, j.add(e)))
		out := ""
		for _, x := range told.take(t) {
			out += fmt.Sprintf("%d: have %v lost %v; ", x.Revision[15], nodeIDs(x.Have), nodeIDs(x.Lost))
		}
		return out
	}
	edges(update(t, 1, 1, "a", "role", "web", "canary", "true"))
	edges(update(t, 2, 1, "b", "role", "web", "region", "eu"))
	edges(update(t, 3, 1, "c", "role", "web"))
	edges(update(t, 4, 1, "d", "role", "db", "canary", "true"))
	require.Equal(t, "1: have [a b c] lost []; ", edges(revise(t, 5, 1, 1, 1, 0, "web", "role=web", 80)))
	require.Empty(t, edges(staged(t, 6, 1, 2, 1, "role=db", 81)), "nobody is told what is staged")
	require.Equal(t, "2: have [d] lost [a]; ", edges(promoted(t, 7, 1, 2, "canary=true", "region=eu")))
	require.Equal(t, "2: have [] lost [b]; ", edges(opened(8, 1, 2, 2)))
	require.Empty(t, edges(update(t, 9, 1, "c", "role", "web", "zone", "z")), "no wave has it")
	require.Equal(t, "1: have [] lost [c]; ", edges(update(t, 10, 1, "c", "role", "web", "canary", "true")), "the revision of its wave is not for it")
	require.Empty(t, edges(stopped(11, 1, 2, 2)), "nodes keep what they have")
	p.Read(func(v *View) {
		r, _ := RolloutOf(v, tenant(1), pol(1))
		require.Equal(t, RolloutStopped, r.Phase)
		require.Equal(t, "2 of 3 refused", r.Reason)
		require.EqualValues(t, 11, r.Seq)
		require.Equal(t, []PolicyRef{{tenant(1), pol(1)}}, RolloutsIn(v, RolloutStopped))
		require.Empty(t, RolloutsIn(v, RolloutUnderWay))
	})
	require.Equal(t, "1: have [a b c] lost [d]; ", edges(aborted(12, 1, 2)))
	edges(staged(t, 13, 1, 3, 1, "role", 82))
	require.Equal(t, "3: have [a c d] lost []; ", edges(aborting(t, 14, 1, 3, "canary=true")))
	require.Equal(t, "1: have [a c] lost [d]; ", edges(stopped(15, 1, 3, 1)), "it goes back by itself")
	edges(staged(t, 16, 1, 4, 1, "role", 82))
	require.Equal(t, "4: have [a c d] lost []; ", edges(promoted(t, 17, 1, 4, "canary=true")))
	require.Equal(t, "4: have [b] lost []; ", edges(gated(18, 1, 4, 2)))
	p.Read(func(v *View) {
		r, ok := RolloutOf(v, tenant(1), pol(1))
		require.True(t, ok)
		require.Equal(t, RolloutCompleted, r.Phase)
		require.Len(t, r.Opened, 2)
		pol, _, err := v.Policy(tenant(1), pol(1))
		require.NoError(t, err)
		require.Equal(t, rev(4), pol.Head.ID)
		steps, ok, err := v.Steps(tenant(1), pol.ID, 10)
		require.NoError(t, err)
		require.True(t, ok)
		var seqs []uint64
		for _, s := range steps {
			seqs = append(seqs, s.Seq)
		}
		require.Equal(t, []uint64{18, 17, 15, 14, 12, 8, 7, 5}, seqs)
		require.True(t, steps[1].Trial.Reached(labels(t, "canary", "true")))
		require.False(t, steps[0].Trial.Reached(labels(t, "canary", "true")))
	})
}

// TestARolloutIsUponAHeadOfTheSameBatch: what the fold must know of a head is not in
// the store yet, and other revisions came since.
func TestARolloutIsUponAHeadOfTheSameBatch(t *testing.T) {
	for _, c := range []struct{ head, trial policy.Tier }{{}, {head: policy.Admin}, {trial: policy.Admin}, {policy.Admin, policy.Admin}} {
		p, j := openFresh(t), &journal{}
		told := listen(p)
		head, trial := revise(t, 2, 1, 1, 1, 0, "web", "role=web", 80), staged(t, 4, 1, 3, 1, "role=web", 81)
		head.Revision.Order.Tier, trial.Revision.Order.Tier = c.head, c.trial
		for _, e := range []policy.Event{
			update(t, 1, 1, "a", "role", "web", "canary", "true"), head, revise(t, 3, 1, 2, 2, 0, "other", "role=web", 80),
			trial, promoted(t, 5, 1, 3, "canary=true"), aborted(6, 1, 3),
		} {
			j.add(e)
		}
		require.NoError(t, p.Apply(j.msgs))
		list, _, whole := p.ChangesAbove(4)
		require.True(t, whole)
		require.Len(t, list, 2)
		require.Equal(t, c.head != "" || c.trial != "", list[0].Extended, "some node has what is: %v", c)
		require.Equal(t, c.head != "", list[1].Extended, "all have the head again: %v", c)
		edges := told.take(t)
		require.Len(t, edges, 4)
		require.Equal(t, []bool{c.trial != "", c.head != ""}, []bool{edges[2].Extended, edges[3].Extended}, c)
	}
}
