package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

func TestTheGateOpensStopsOrWaits(t *testing.T) {
	strict := policy.Gate{MinApplied: 100}
	lax := policy.Gate{MinApplied: 0, MaxRefused: 100}
	share := func(nodes, applied, refused int) convergence.Share {
		return convergence.Share{Nodes: nodes, Applied: applied, Refused: refused}
	}
	for _, c := range []struct {
		name        string
		gate        policy.Gate
		all, newest convergence.Share
		phase       string
		want        Act
		why         string
	}{
		{name: "silent nodes are waited for", newest: share(3, 2, 0), all: share(3, 2, 0), why: "2 of 3 nodes of wave 2 applied it, and 95% must"},
		{name: "nobody has said anything", newest: share(3, 0, 0), all: share(3, 0, 0), why: "0 of 3 nodes of wave 2 applied it, and 95% must"},
		{name: "all have it", newest: share(3, 3, 0), all: share(5, 5, 0), want: Open, why: "5 of 5 nodes of all open waves applied it"},
		{name: "enough have it", newest: share(100, 95, 0), all: share(100, 95, 0), want: Open, why: "95 of 100 nodes of all open waves applied it"},
		{name: "one too few", newest: share(100, 94, 0), all: share(100, 94, 0), why: "94 of 100 nodes of wave 2 applied it, and 95% must"},
		{name: "a large wave does not speak for a small one", newest: share(1, 0, 0), all: share(101, 100, 0), why: "0 of 1 nodes of wave 2 applied it, and 95% must"},
		{name: "nor a new one for an old one", newest: share(1, 1, 0), all: share(3, 2, 0), why: "2 of 3 nodes of all open waves applied it, and 95% must"},
		{name: "one refused of a few", newest: share(3, 2, 1), all: share(3, 2, 1), want: Stop, why: "1 of 3 nodes of wave 2 refused it, and 1% may; n1: no room"},
		{name: "one refused of very many", newest: share(100, 99, 1), all: share(100, 99, 1), want: Open, why: "99 of 100 nodes of all open waves applied it"},
		{name: "a small wave refused it behind a large one", newest: share(1, 0, 1), all: share(1001, 1000, 1), want: Stop, why: "1 of 1 nodes of wave 2 refused it, and 1% may; n1: no room"},
		{name: "the first wave refuses it later", newest: share(10, 10, 0), all: share(20, 19, 1), want: Stop, why: "1 of 20 nodes of all open waves refused it, and 1% may; n1: no room"},
		{name: "refusals come before the rest", gate: strict, newest: share(2, 0, 1), all: share(2, 0, 1), want: Stop, why: "1 of 2 nodes of wave 2 refused it, and 0% may; n1: no room"},
		{name: "any number may refuse it, and none must have it", gate: lax, newest: share(2, 0, 2), all: share(2, 0, 2), want: Open, why: "0 of 2 nodes of all open waves applied it"},
		{name: "no wave has a node", why: "the open waves change no node"},
		{name: "no wave has a node, and none must have it", gate: lax, why: "the open waves change no node"},
		{name: "a later wave without nodes", all: share(2, 2, 0), want: Open, why: "2 of 2 nodes of all open waves applied it"},
		{name: "it has stopped", phase: projector.RolloutStopped, newest: share(3, 3, 0), all: share(3, 3, 0), why: "it has stopped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := convergence.Reached{All: c.all, Newest: c.newest}
			r.Rollout.Gate, r.Rollout.Opened, r.Rollout.Phase = policy.DefaultGate, make([]time.Time, 2), projector.RolloutUnderWay
			if c.gate != (policy.Gate{}) {
				r.Rollout.Gate = c.gate
			}
			if c.phase != "" {
				r.Rollout.Phase = c.phase
			}
			if c.all.Refused > 0 {
				r.Example = convergence.Refusal{Node: "n1", Reason: "no room"}
			}
			require.Equal(t, Decision{c.want, c.why}, Decide(r))
		})
	}
}

// What a node gives as its reason may fill the line of an event, and no more.
func TestAReasonFitsIntoItsEvent(t *testing.T) {
	for extra := range 3 {
		r := convergence.Reached{All: convergence.Share{Nodes: 1, Refused: 1}, Newest: convergence.Share{Nodes: 1, Refused: 1}}
		r.Rollout.Opened = make([]time.Time, 1)
		r.Example = convergence.Refusal{Node: "n1", Reason: strings.Repeat("x", extra) + strings.Repeat("é", 250)}
		id := uuid.MustParse("01900000-0000-7000-8000-000000000001")
		r.Rollout.Revision = id
		e := event(projector.PolicyRef{Project: id, Policy: id}, r.Rollout, Decide(r))
		_, err := policy.Decode(policy.Append(nil, e))
		require.NoError(t, err)
		require.Contains(t, e.(policy.RolloutStopped).Reason, "é…")
	}
}
