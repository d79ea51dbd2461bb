package convergence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// truth is the report of a node that has applied everything.
func (w *world) truth(n policy.NodeID) policy.Report {
	return policy.Report{Version: w.head(), Fingerprint: w.merged(n, w.head())}
}

func (w *world) rollout(x *Tracker, id uuid.UUID) Rollout {
	r, ok, err := x.Rollout(w.t.Context(), home, id, 10)
	require.NoError(w.t, err)
	require.True(w.t, ok)
	return r
}

func TestTimesAreThoseOfTheFirstReportThatProvesAChange(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	a, b := w.id(), w.id()
	for _, n := range []policy.NodeID{"n1", "n2", "n3"} {
		w.put(n, "a")
	}
	w.put("n4", "b")
	w.revise(a, "a,b", 1) // 5
	for i, n := range []policy.NodeID{"n1", "n2", "n3", "n4"} {
		w.report(x, uint64(i+1), n, w.truth(n), time.Duration(1+i)*10*time.Second)
	}
	require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, 40 * time.Second}, w.took)
	r := w.rollout(x, a)
	require.InEpsilon(t, 20, *r.P50, 0.05)
	require.InEpsilon(t, 40, *r.P99, 0.05)

	w.report(x, 5, "n1", w.truth("n1"), time.Hour) // said again
	w.revise(b, "a", 1)                            // 6
	w.report(x, 6, "n1", w.truth("n1"), 5*time.Second)
	require.Len(t, w.took, 5, "a report of another change proves nothing anew")
	r = w.rollout(x, a)
	require.InEpsilon(t, 20, *r.P50, 0.05)
	require.InEpsilon(t, 5, *w.rollout(x, b).P50, 0.05)

	// A revision that changes the row of nobody but n4 asks nothing of the others.
	w.revise(a, "a", 1) // 7
	w.revise(b, "a", 2) // 8
	w.report(x, 7, "n1", w.truth("n1"), 3*time.Second)
	require.Len(t, w.took, 6)
	require.Equal(t, 3*time.Second, w.took[5])
	r = w.rollout(x, a)
	require.Nil(t, r.P50, "nobody it touched has reported it")
	require.Equal(t, []Lagging{{"n4", at(7)}}, lagOf(r, "n4"))
	w.report(x, 8, "n4", w.truth("n4"), 9*time.Second)
	r = w.rollout(x, a)
	require.Equal(t, 1, r.Dropped)
	require.InEpsilon(t, 10, *r.P50, 0.05, "from 7 to 9 s after 8")
}

func lagOf(r Rollout, n policy.NodeID) (out []Lagging) {
	for _, l := range r.Lagging {
		if l.Node == n {
			out = append(out, l)
		}
	}
	return out
}

func TestANodeLagsSinceTheFirstChangeItDoesNotHave(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	id := w.id()
	w.put("n1", "a")
	w.put("n2", "a")
	w.revise(id, "a", 1) // 3
	w.report(x, 1, "n1", w.truth("n1"), 0)
	w.revise(id, "a", 2) // 4
	w.revise(id, "a", 1) // 5
	w.revise(id, "a", 2) // 6
	require.Equal(t, []Lagging{{"n2", at(3)}, {"n1", at(4)}}, w.rollout(x, id).Lagging)
	w.report(x, 2, "n1", policy.Report{Version: 6, Fingerprint: rules("wrong")}, time.Minute)
	w.put("n2", "b") // 7
	w.put("n2", "a") // 8
	require.Equal(t, []Lagging{{"n1", at(6).Add(time.Minute)}, {"n2", at(8)}}, w.rollout(x, id).Lagging)
	f, err := x.Fleet(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, []Lagging{{"n1", at(6).Add(time.Minute)}}, f.Lagging)
}

// A machine that takes the place of another has applied nothing before it says so, and a
// node that somebody spoke for before it was there has said nothing.
func TestANodeThatReturnsIsSilent(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	id := w.id()
	w.put("n1", "a")
	w.put("n2", "a")
	w.revise(id, "a", 1)
	audits := w.truth("n1")
	audits.Audited = []policy.AuditCount{{Policy: id, Egress: 5}}
	w.report(x, 1, "n1", audits, 0)
	refuses := w.truth("n2")
	refuses.Outcome, refuses.Reason = policy.OutcomeRefused, "no room"
	w.report(x, 2, "n2", refuses, 0)
	require.Equal(t, 1, w.rollout(x, id).Applied)
	x.keep([]arrival{{"n3", w.truth("n1"), at(w.head())}})
	early := arrival{"n3", w.truth("n1"), at(w.head())}
	for _, n := range []policy.NodeID{"n1", "n2"} {
		w.publish(policy.NodeRemoved{ID: w.id(), Project: home, Node: n})
		w.put(n, "a")
	}
	w.put("n3", "a")
	x.keep([]arrival{early}) // as a worker does that starts now
	r := w.rollout(x, id)
	require.Equal(t, []int{3, 0, 3, 0}, []int{r.Desired, r.Applied, r.Behind, len(r.Refusals)})
	require.Zero(t, r.Audited)
	f, err := x.Fleet(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, f.Reported)
	require.Equal(t, 3, f.States[StateSilent])
	require.Zero(t, x.table.not)
	require.Empty(t, x.table.reasons.of)

	w.report(x, 3, "n1", w.truth("n1"), 0)
	w.put("n1", "b") // other labels are not another node
	w.put("n1", "a")
	require.Equal(t, 1, w.rollout(x, id).Applied)
}

// A node can speak for itself alone, and nonsense is counted.
func TestWhatIsNoReportTouchesNobody(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	id := w.id()
	w.put("n1", "a")
	w.revise(id, "a", 1)
	w.report(x, 1, "n1", w.truth("n1"), 0)
	before := w.rollout(x, id)
	good := string(policy.AppendReport(nil, w.truth("n1")))
	var batch []streams.Message
	for i, m := range []struct{ node, body string }{
		{"N1", good},
		{"n1.n2", good},
		{"", good},
		{"n1", "{}"},
		{"n2", good},
		{"n3", `{"version":99,"fingerprint":"T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="}`},
		{"n6", `{"event_id":"` + policy.NewEventID(base, 99, 0).String() + `","fingerprint":"T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="}`},
		{"n7", `{"event_id":"7","node_seq":7,"fingerprint":"T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="}`},
		{"n4", `{"version":18446744073709551616,"fingerprint":""}`},
		{"n5", good + strings.Repeat(" ", policy.MaxReport)},
	} {
		batch = append(batch, streams.Message{Seq: uint64(i + 2), Subject: "edict.report.node." + m.node, Body: []byte(m.body), Time: at(9)})
	}
	require.NoError(t, x.take(t.Context(), batch, 0))
	require.Equal(t, map[string]int{Holds: 1, Malformed: 7, Unknown: 1, Ahead: 2}, w.reported)
	require.Equal(t, before, w.rollout(x, id))
}

// An id of a log that was there before says nothing of this one's events: what
// the node holds decides, and it is behind everything that it does not hold.
func TestAReportOfAnotherLogSpeaksByItsFingerprint(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	id := w.id()
	w.put("n1", "a")
	w.revise(id, "a", 1) // 2
	old := policy.NewEventID(base-1000, 999, 7)
	w.report(x, 1, "n1", policy.Report{Event: old, Fingerprint: rules("another")}, 0)
	require.Equal(t, []Lagging{{"n1", at(2)}}, w.rollout(x, id).Lagging)
	w.report(x, 2, "n1", policy.Report{Event: old, Fingerprint: w.merged("n1", w.head())}, 0)
	require.Equal(t, 1, w.rollout(x, id).Applied)
	require.Equal(t, map[string]int{Lags: 1, Holds: 1}, w.reported)
}

// Of a flood only the last word is judged.
func TestOfAFloodTheLastReportCounts(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	w.put("n1", "a")
	var batch []streams.Message
	for i := range uint64(1000) {
		r := policy.Report{Version: 1, Fingerprint: rules(fmt.Sprint(i))}
		if i == 999 {
			r = w.truth("n1")
		}
		batch = append(batch, streams.Message{Seq: i + 1, Subject: "edict.report.node.n1", Body: policy.AppendReport(nil, r), Time: at(9)})
	}
	require.NoError(t, x.take(t.Context(), batch, 0))
	require.Equal(t, map[string]int{Holds: 1}, w.reported)
}

// A worker that starts later judges what was said before it when it is asked,
// and does not take its own ignorance for the time a node took.
func TestAWorkerThatStartsLaterKnowsWhatWasReported(t *testing.T) {
	w := newWorld(t, 1)
	x := w.tracker()
	a, b := w.id(), w.id()
	w.put("n1", "a")
	w.put("n2", "a")
	w.revise(a, "a", 1) // 3
	var batch []streams.Message
	say := func(n policy.NodeID) {
		m := streams.Message{Seq: uint64(len(batch) + 1), Subject: streams.ReportSubject(n), Body: policy.AppendReport(nil, w.truth(n)), Time: at(w.head() + 5)}
		batch = append(batch, m)
		require.NoError(t, x.take(t.Context(), []streams.Message{m}, 0))
	}
	say("n1")
	say("n2")
	w.revise(b, "a", 1) // 4
	say("n1")
	before := len(w.took)
	late := w.tracker()
	require.NoError(t, late.take(t.Context(), batch, 100))
	require.Len(t, w.took, before, "nothing is measured twice")
	for _, id := range []uuid.UUID{a, b} {
		mine, theirs := w.rollout(x, id), w.rollout(late, id)
		require.Equal(t, mine.Applied, theirs.Applied)
		require.Equal(t, mine.Lagging, theirs.Lagging)
	}
	require.InEpsilon(t, 5, *w.rollout(late, b).P50, 0.05)
	require.InEpsilon(t, 5, *w.rollout(late, a).P50, 0.05, "n2's, whose version is that change")
}

func TestNobodyIsAnsweredBeforeTheReportsAreRead(t *testing.T) {
	w := newWorld(t, 1)
	x := New(Options{Model: w.fold, Events: w, Metrics: w})
	var early *NotReadyError
	_, _, err := x.Rollout(t.Context(), home, w.id(), 1)
	require.ErrorAs(t, err, &early)
	_, err = x.Fleet(t.Context(), 1)
	require.ErrorAs(t, err, &early)
	require.ErrorAs(t, x.Report(t.Context(), "n1", policy.Report{}), &early)
}

func TestATrackerGoesOnTryingUntilItIsStopped(t *testing.T) {
	w := newWorld(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	x := New(Options{Model: w.fold, Events: w, Metrics: w, Open: func(context.Context) (Reports, error) {
		if tries++; tries == 3 {
			cancel()
		}
		return nil, errors.New("away")
	}})
	require.NoError(t, x.Run(ctx))
	require.Equal(t, 3, tries)
}

// What a node costs, and what asking costs. Of a fleet of so many nodes a
// policy has a hundred.
func BenchmarkMemoryOfAMillionNodes(b *testing.B) {
	require.LessOrEqual(b, unsafe.Sizeof(report{}), uintptr(64))
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		const nodes = 1_000_000
		x := newTable()
		for i := range uint32(nodes) {
			var r policy.Report
			binary.BigEndian.PutUint32(r.Fingerprint[:], i)
			r.Version = uint64(i)
			x.put(i%64<<26|i/64, r, at(1), true)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/nodes, "B/node")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
		require.Equal(b, nodes, x.count)
	}
}

func BenchmarkRolloutOfAHundredNodes(b *testing.B) {
	for _, nodes := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(nodes, " nodes"), func(b *testing.B) {
			x, id := crowd(b, nodes)
			for b.Loop() {
				r, _, err := x.Rollout(b.Context(), home, id, 100)
				require.NoError(b, err)
				require.Equal(b, 100, r.Desired)
			}
		})
	}
}

func BenchmarkFleet(b *testing.B) {
	x, _ := crowd(b, 100_000)
	for b.Loop() {
		f, err := x.walk(b.Context(), 100)
		require.NoError(b, err)
		require.Equal(b, 100_000, f.Desired)
	}
}

// crowd is so many nodes, of which a hundred have a policy.
func crowd(b *testing.B, nodes int) (*Tracker, uuid.UUID) {
	w := newWorld(b, 1)
	var batch []streams.Message
	for i := range nodes {
		role := "b"
		if i%(nodes/100) == 0 {
			role = "a"
		}
		e := policy.NodeUpdated{ID: w.id(), Project: home, Node: policy.NodeID(fmt.Sprint("n", i)), Labels: label(role)}
		batch = append(batch, streams.Message{Seq: uint64(i + 1), Subject: wire.Subject(e), Body: policy.Append(nil, e), Time: at(uint64(i + 1))})
	}
	require.NoError(b, w.fold.Apply(batch))
	w.msgs = batch
	id := w.id()
	w.revise(id, "a", 1)
	x := w.tracker()
	var reports []streams.Message
	for i := range nodes {
		r := policy.Report{Version: w.head(), Fingerprint: rules("x")}
		reports = append(reports, streams.Message{
			Seq: uint64(i + 1), Subject: fmt.Sprint("edict.report.node.n", i), Body: policy.AppendReport(nil, r), Time: at(1),
		})
	}
	began := time.Now()
	require.NoError(b, x.take(b.Context(), reports, 0))
	b.ReportMetric(float64(time.Since(began).Microseconds())/float64(nodes), "µs/report")
	return x, id
}
