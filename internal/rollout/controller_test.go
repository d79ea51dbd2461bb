package rollout

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// id is the n-th of a few.
func id(n byte) uuid.UUID {
	u := uuid.MustParse("01900000-0000-7000-8000-000000000000")
	u[15] = n
	return u
}

// world is a fold behind a log that takes whatever it is given, and what nodes report.
type world struct {
	*projector.Projector
	t      *testing.T
	seq    uint64
	all    convergence.Share
	early  bool
	before func() // is called when what nodes report was read, and not yet acted on
	behind func() // is called when the fold was asked, and nothing is appended yet
	// stored are the events that the log has, whose repeats it drops; nil: it takes them.
	stored map[uuid.UUID]uint64
	moved  []string
	ids    []uuid.UUID
}

func newWorld(t *testing.T) *world {
	fold, err := projector.Open(t.TempDir(), projector.Options{Partitions: 4, Created: time.Unix(1, 0), First: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fold.Close()) })
	w := &world{Projector: fold, t: t}
	rules := `"selector":{"source":"role=web","destination":"role=web"},
		"rules":[{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","ports":{"from":80,"to":80}}]`
	draft, err := policy.DecodeDraft([]byte(`{"slug":"web",` + rules + `}`))
	require.NoError(t, err)
	r := policy.Revision{ID: id(2), Selector: draft.Selector, Rules: draft.Rules, CreatedAt: time.Unix(1, 0), CreatedBy: "ann"}
	w.add(policy.RevisionCreated{ID: id(3), Project: id(0), Policy: id(1), Slug: "web", Revision: r})
	w.promote(4)
	return w
}

// promote stages a revision and promotes it, with three ids from n on.
func (w *world) promote(n byte) {
	var r policy.Revision
	w.Read(func(v *projector.View) {
		p, _, err := v.Policy(id(0), id(1))
		require.NoError(w.t, err)
		r = p.Head
	})
	r.Parent, r.ID = r.ID, id(n)
	w.add(policy.RevisionStaged{ID: id(n + 1), Project: id(0), Policy: id(1), Revision: r})
	e := policy.RevisionPromoted{ID: id(n + 2), Project: id(0), Policy: id(1), Revision: r.ID}
	e.Gate = policy.DefaultGate
	for _, label := range []string{"canary=true", "region=eu"} {
		wave, faults := policy.ParseExpr(label)
		require.Empty(w.t, faults)
		e.Waves = append(e.Waves, wave)
	}
	w.add(e)
}

func (w *world) add(e policy.Event) uint64 {
	w.seq++
	m := streams.Message{Seq: w.seq, Subject: wire.Subject(e), Body: policy.Append(nil, e), Time: time.Unix(int64(w.seq), 0)}
	require.NoError(w.t, w.Apply([]streams.Message{m}))
	return w.seq
}

func (w *world) Publish(_ context.Context, a streams.Append) (uint64, bool, error) {
	w.ids = append(w.ids, a.Event.EventID())
	if then := w.behind; then != nil {
		w.behind = nil
		then()
	}
	if seq, has := w.stored[a.Event.EventID()]; has && !a.Again {
		return seq, true, nil
	}
	seq := w.add(a.Event)
	if w.stored != nil {
		w.stored[a.Event.EventID()] = seq
	}
	return seq, false, nil
}

func (w *world) RolloutMoved(event string) { w.moved = append(w.moved, event) }
func (w *world) Moved() <-chan struct{}    { return nil }

func (w *world) Reached(_ context.Context, project, policy uuid.UUID) (r convergence.Reached, ok bool, err error) {
	if w.early {
		return r, false, &convergence.NotReadyError{}
	}
	w.Read(func(v *projector.View) { r.Rollout, ok = projector.RolloutOf(v, project, policy) })
	r.All, r.Newest = w.all, w.all
	if then := w.before; then != nil {
		w.before = nil
		then()
	}
	return r, ok, nil
}

func (w *world) controller() *Controller {
	return New(Options{
		Model: w, Reports: w, Log: w, Metrics: w, Logger: slog.New(slog.DiscardHandler), Due: func() bool { return true },
		Clock: func() time.Time { return time.Unix(int64(w.seq), 0) },
	})
}

// stands says how far the rollout has come.
func (w *world) stands(phase string, opened int) {
	w.t.Helper()
	w.Read(func(v *projector.View) {
		r, ok := projector.RolloutOf(v, id(0), id(1))
		require.True(w.t, ok)
		require.Equal(w.t, phase, r.Phase)
		require.Len(w.t, r.Opened, opened)
	})
}

var (
	fine = convergence.Share{Nodes: 2, Applied: 2}
	bad  = convergence.Share{Nodes: 2, Refused: 1}
)

func TestOfTwoControllersOneEventCounts(t *testing.T) {
	w := newWorld(t)
	w.all = fine
	w.before = func() { require.True(t, w.controller().look(t.Context())) } // the other, between the look of the first and its act
	require.True(t, w.controller().look(t.Context()))
	w.stands(projector.RolloutUnderWay, 2)
	require.Len(t, w.ids, 2)
	require.Equal(t, w.ids[0], w.ids[1], "the log drops the second, and so does the fold")
	require.Equal(t, []string{policy.TypeWaveOpened}, w.moved)
	require.True(t, w.controller().look(t.Context()))
	w.stands(projector.RolloutCompleted, 3)
	require.NotEqual(t, w.ids[1], w.ids[2])
	require.False(t, w.controller().look(t.Context()), "nothing is under way")
	w.promote(10)
	require.True(t, w.controller().look(t.Context()))
	w.stands(projector.RolloutUnderWay, 2)
	require.NotEqual(t, w.ids[0], w.ids[3], "another rollout")
}

func TestAPersonMayBeFirst(t *testing.T) {
	for name, c := range map[string]struct {
		said   convergence.Share
		person policy.Event
		phase  string
		opened int
	}{
		"both open the next wave":   {fine, policy.WaveOpened{ID: id(50), Project: id(0), Policy: id(1), Revision: id(4), Wave: 2}, projector.RolloutUnderWay, 2},
		"the plane would stop it":   {bad, policy.WaveOpened{ID: id(50), Project: id(0), Policy: id(1), Revision: id(4), Wave: 2}, projector.RolloutUnderWay, 2},
		"the person aborts":         {fine, policy.RolloutAborted{ID: id(50), Project: id(0), Policy: id(1), Revision: id(4)}, projector.RolloutAborted, 1},
		"another worker stopped it": {fine, policy.RolloutStopped{ID: id(50), Project: id(0), Policy: id(1), Revision: id(4), Wave: 1}, projector.RolloutStopped, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.all = c.said
			w.before = func() { w.add(c.person) }
			require.True(t, w.controller().look(t.Context()))
			w.stands(c.phase, c.opened)
			require.Len(t, w.ids, 1)
			require.Empty(t, w.moved, "what it appended was refused")
		})
	}
}

func TestNothingIsDoneByWhoDoesNotKnow(t *testing.T) {
	w := newWorld(t)
	w.all, w.early = bad, true
	require.True(t, w.controller().look(t.Context()))
	w.early = false
	w.all = convergence.Share{Nodes: 2}
	require.True(t, w.controller().look(t.Context()))
	w.all = fine
	other := w.controller()
	other.opt.Due = func() bool { return false }
	require.True(t, other.look(t.Context()))
	require.Empty(t, w.ids)
	w.stands(projector.RolloutUnderWay, 1)
}

// TestAStoppedRolloutIsLeftAlone until a person goes on.
func TestAStoppedRolloutIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.all = bad
	require.True(t, w.controller().look(t.Context()))
	w.stands(projector.RolloutStopped, 1)
	w.all = fine
	require.False(t, w.controller().look(t.Context()))
	w.add(policy.WaveOpened{ID: id(50), Project: id(0), Policy: id(1), Revision: id(4), Wave: 2})
	require.True(t, w.controller().look(t.Context()))
	w.stands(projector.RolloutCompleted, 3)
	require.Equal(t, []string{policy.TypeRolloutStopped, policy.TypeWaveOpened}, w.moved)
}

// A wave that a quota holds up is not appended, so that it opens as soon as there is room: the
// log takes the same event for a repeat for two minutes.
func TestAWaveWaitsForTheQuotaOfItsProject(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.all = fine
	limit := func(n byte, q policy.Quota) {
		w.add(policy.ProjectQuotaUpdated{ID: id(n), Project: id(0), Quota: q, CreatedBy: "root"})
	}
	limit(20, policy.Quota{BytesPerDay: 1})
	for range 3 {
		c.look(t.Context())
	}
	w.stands(projector.RolloutUnderWay, 1)
	require.Empty(t, w.ids)
	limit(21, policy.Quota{})
	c.look(t.Context())
	w.stands(projector.RolloutUnderWay, 2)
	limit(22, policy.Quota{BytesPerDay: 1})
	w.all = bad
	c.look(t.Context())
	w.stands(projector.RolloutStopped, 2)
}

// The last of a project's room may go between the look and the append. Then the log has an event
// that the fold refused, and drops its repeats: the wave opens all the same soon after there is room.
func TestAWaveThatWasRefusedForItsQuotaOpensLater(t *testing.T) {
	w := newWorld(t)
	w.stored = map[uuid.UUID]uint64{}
	c := w.controller()
	w.all = fine
	limit := func(n byte, q policy.Quota) {
		w.add(policy.ProjectQuotaUpdated{ID: id(n), Project: id(0), Quota: q, CreatedBy: "root"})
	}
	w.behind = func() { limit(20, policy.Quota{BytesPerDay: 1}) }
	c.look(t.Context())
	w.stands(projector.RolloutUnderWay, 1)
	require.Len(t, c.held, 1, "it says what the rollout waits for")
	limit(21, policy.Quota{})
	later := c.opt.Clock().Add(retry)
	c.opt.Clock = func() time.Time { return later }
	c.look(t.Context())
	w.stands(projector.RolloutUnderWay, 2)
	require.Empty(t, c.held)
	require.Equal(t, []string{policy.TypeWaveOpened}, w.moved)
}

// A clock that is ahead of the log's sees room that the fold does not see. The log gets no event
// for each look, the log of the plane no line, and a stop waits for nothing.
func TestAWaveThatIsRefusedForItsQuotaIsNotAppendedAtEachLook(t *testing.T) {
	w := newWorld(t)
	w.stored = map[uuid.UUID]uint64{}
	w.all = fine
	w.add(policy.ProjectQuotaUpdated{ID: id(20), Project: id(0), Quota: policy.Quota{BytesPerDay: 1}, CreatedBy: "root"})
	c := w.controller()
	var said bytes.Buffer
	c.log = slog.New(slog.NewTextHandler(&said, nil))
	now := time.Unix(int64(w.seq), 0).Add(48 * time.Hour)
	c.opt.Clock = func() time.Time { return now }
	had := w.seq
	for range 10 {
		c.look(t.Context())
	}
	require.Equal(t, had+1, w.seq)
	now = now.Add(retry)
	for range 10 {
		c.look(t.Context())
	}
	require.Equal(t, had+2, w.seq)
	require.Equal(t, 1, strings.Count(said.String(), "\n"), said.String())
	w.all = bad
	c.look(t.Context())
	w.stands(projector.RolloutStopped, 1)
}

// Nothing is remembered of a policy that is deleted while a quota holds up its wave.
func TestARolloutThatIsGoneIsForgotten(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.all = fine
	w.add(policy.ProjectQuotaUpdated{ID: id(20), Project: id(0), Quota: policy.Quota{BytesPerDay: 1}, CreatedBy: "root"})
	c.look(t.Context())
	require.Len(t, c.held, 1)
	w.add(policy.PolicyDeleted{ID: id(21), Project: id(0), Policy: id(1)})
	c.look(t.Context())
	require.Empty(t, c.held)
}

// A log that is slow holds up no rollout beyond its own answer: who waits does no work.
func TestTheWaitForTheLogIsNoWork(t *testing.T) {
	w := newWorld(t)
	w.all = fine
	c := w.controller()
	began := c.opt.Clock()
	require.True(t, c.look(t.Context()))
	w.stands(projector.RolloutUnderWay, 2)
	require.Equal(t, began.Add(time.Second), c.opt.Clock(), "the event took a second")
	require.Equal(t, leastPause, c.pause(began))
	require.Equal(t, 2*shareOfTime*time.Second, c.pause(c.opt.Clock().Add(-2*time.Second)), "work is work")
}
