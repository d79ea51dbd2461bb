package convergence

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// now is what a node truly says of what it has now.
func (w *world) now(n policy.NodeID) policy.Report {
	r := policy.Report{Version: w.head()}
	w.fold.Read(func(v *projector.View) {
		s, ok := v.NodeSummary(n)
		require.True(w.t, ok)
		var err error
		r.Fingerprint, _, _, err = v.Merged(s.Identity)
		require.NoError(w.t, err)
	})
	return r
}

func (w *world) reached(x *Tracker, id uuid.UUID) Reached {
	r, ok, err := x.Reached(w.t.Context(), home, id)
	require.NoError(w.t, err)
	require.True(w.t, ok)
	return r
}

// stage stages what a policy is to say, and promotes it in waves of roles.
func (w *world) promote(id uuid.UUID, roles string, port uint16, waves ...string) policy.RevisionPromoted {
	drafted, err := policy.DecodeDraft([]byte(`{"slug":"x","selector":{"source":"role in (` + roles + `)","destination":"role=none"},
		"rules":[{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","ports":{"from":` + string(rune('0'+port)) + `,"to":` + string(rune('0'+port)) + `}}]}`))
	require.NoError(w.t, err)
	return w.stage(id, policy.Revision{Selector: drafted.Selector, Rules: drafted.Rules}, waves...)
}

// promoteOrder stages the head at another priority, and promotes it.
func (w *world) promoteOrder(id uuid.UUID, waves ...string) policy.RevisionPromoted {
	r := w.heads[id]
	r.Order.Priority = policy.Priority{N: 7, Set: true}
	return w.stage(id, r, waves...)
}

func (w *world) stage(id uuid.UUID, r policy.Revision, waves ...string) policy.RevisionPromoted {
	r.ID, r.Parent, r.CreatedAt, r.CreatedBy = w.id(), w.heads[id].ID, at(1), "ann"
	w.publish(policy.RevisionStaged{ID: w.id(), Project: home, Policy: id, Revision: r})
	e := policy.RevisionPromoted{ID: w.id(), Project: home, Policy: id, Revision: r.ID}
	e.Gate = policy.DefaultGate
	for _, role := range waves {
		sel, faults := policy.ParseExpr("role=" + role)
		require.Empty(w.t, faults)
		e.Waves = append(e.Waves, sel)
	}
	w.publish(e)
	return e
}

// TestWhatTheNodesOfTheWavesSay follows the nodes of two waves: those that the
// rollout asks nothing of do not count.
func TestWhatTheNodesOfTheWavesSay(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	id := w.id()
	for n, role := range map[policy.NodeID]string{"a1": "a", "a2": "a", "b1": "b", "c1": "c", "z1": "z"} {
		w.put(n, role)
	}
	w.revise(id, "a,b,z", 1)
	_, ok, err := x.Reached(t.Context(), home, id)
	require.NoError(t, err)
	require.False(t, ok, "there is no rollout")
	w.report(x, 1, "a1", w.now("a1"), 0)
	old := w.now("a2")
	old.Outcome, old.Reason = policy.OutcomeRefused, "of before"
	w.report(x, 2, "a2", old, 0)

	e := w.promote(id, "a,b,c", 2, "a", "b")
	r := w.reached(x, id)
	require.Equal(t, Share{Nodes: 2}, r.All, "what was said before says nothing of the wave")
	require.Equal(t, r.All, r.Newest)
	require.Equal(t, projector.RolloutUnderWay, r.Rollout.Phase)
	w.report(x, 3, "a1", w.now("a1"), 0)
	for _, o := range []policy.Outcome{policy.OutcomeStale, policy.OutcomeDrift} {
		said := w.now("a2")
		said.Outcome = o
		w.report(x, 4+2*uint64(o), "a2", said, 0)
		require.Equal(t, Share{Nodes: 2, Applied: 1}, w.reached(x, id).All, "%v is no refusal", o)
	}
	no := w.now("a2")
	no.Outcome, no.Reason = policy.OutcomeRefused, "no room"
	w.report(x, 20, "a2", no, time.Second)
	w.report(x, 21, "b1", no, 0)
	r = w.reached(x, id)
	require.Equal(t, Share{2, 1, 1}, r.All)
	require.Equal(t, policy.NodeID("a2"), r.Example.Node)
	require.Equal(t, "no room", r.Example.Reason)

	// The next wave, and a node that comes to the first one now.
	w.report(x, 22, "a2", w.now("a2"), 0)
	w.publish(policy.WaveOpened{ID: w.id(), Project: home, Policy: id, Revision: e.Revision, Wave: 2})
	w.put("a3", "a")
	r = w.reached(x, id)
	require.Equal(t, Share{4, 2, 0}, r.All, "b1 refused what it was sent before")
	require.Equal(t, Share{Nodes: 1}, r.Newest)
	w.report(x, 24, "b1", w.now("b1"), 0)
	w.report(x, 26, "a3", w.now("a3"), 0)
	r = w.reached(x, id)
	require.Equal(t, Share{4, 4, 0}, r.All)
	require.Equal(t, Share{1, 1, 0}, r.Newest)

	// A worker that has just started reads the same reports.
	again := w.tracker()
	again.ready = false
	_, _, err = again.Reached(t.Context(), home, id)
	require.ErrorAs(t, err, new(*NotReadyError), "until it has read them it says nothing")

	w.publish(policy.WaveOpened{ID: w.id(), Project: home, Policy: id, Revision: e.Revision, Wave: 3})
	_, ok, err = x.Reached(t.Context(), home, id)
	require.NoError(t, err)
	require.False(t, ok, "it has ended")
}

// TestAWaveThatTakesRulesAwayIsReached: nodes that the staged revision is not for let
// go of the head; those whose row stays as it was are asked for nothing.
func TestAWaveThatTakesRulesAwayIsReached(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	id := w.id()
	w.put("a1", "a")
	w.put("b1", "b")
	w.revise(id, "a,b", 1)
	w.promote(id, "b,z", 1, "a", "b")
	require.Equal(t, Share{Nodes: 1}, w.reached(x, id).All)
	w.report(x, 1, "a1", w.now("a1"), 0)
	require.Equal(t, Share{1, 1, 0}, w.reached(x, id).All)
	w.promote(w.id(), "b", 1, "b") // of no policy
	none := w.id()
	w.revise(none, "b", 1)
	w.promote(none, "b", 1, "b")
	require.Zero(t, w.reached(x, none).All, "its rules are those of the head")
}

// TestAWaveThatNoRowShowsWaitsForTables: a staged revision that changes the order alone
// asks the nodes that enforce tables for theirs, and no others for anything.
func TestAWaveThatNoRowShowsWaitsForTables(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	id := w.id()
	w.put("a1", "a")
	w.put("a2", "a")
	w.put("b1", "b")
	w.revise(id, "a,b", 1)
	told := func(seq, table uint64, n policy.NodeID) {
		said := w.now(n)
		said.Table = table
		w.report(x, seq, n, said, 0)
	}
	told(1, w.head(), "a1")
	told(2, 0, "a2")
	told(3, w.head(), "b1")
	e := w.promoteOrder(id, "a")
	require.Equal(t, Share{Nodes: 1}, w.reached(x, id).All, "only a1 enforces tables")
	told(4, w.head()-1, "a1")
	require.Equal(t, Share{Nodes: 1}, w.reached(x, id).All)
	told(5, w.head(), "a1")
	require.Equal(t, Share{1, 1, 0}, w.reached(x, id).All)
	r, ok, err := x.Rollout(t.Context(), home, id, 10)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 3, r.Applied, "b1 has what it had")
	w.publish(policy.RolloutAborted{ID: w.id(), Project: home, Policy: id, Revision: e.Revision})
	r, _, err = x.Rollout(t.Context(), home, id, 10)
	require.NoError(t, err)
	require.Equal(t, 2, r.Applied, "a1 goes back")
	require.Equal(t, policy.NodeID("a1"), r.Lagging[0].Node)
}

// TestARefusalOfBeforeSaysNothingOfAWaveThatNoRowShows: the row is older than what the
// node refused, the wave is not.
func TestARefusalOfBeforeSaysNothingOfAWaveThatNoRowShows(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	id := w.id()
	w.put("a1", "a")
	w.revise(id, "a", 1)
	said := w.now("a1")
	said.Table = w.head()
	w.report(x, 1, "a1", said, 0)
	no := w.now("a1")
	no.Outcome, no.Reason = policy.OutcomeRefused, "of before"
	w.report(x, 2, "a1", no, 0)
	w.promoteOrder(id, "a")
	require.Equal(t, Share{Nodes: 1}, w.reached(x, id).All)
	no = w.now("a1")
	no.Outcome, no.Reason = policy.OutcomeRefused, "no room"
	w.report(x, 3, "a1", no, 0)
	require.Equal(t, Share{Nodes: 1, Refused: 1}, w.reached(x, id).All)
}
