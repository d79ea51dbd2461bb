package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// memReports are reports in memory. Each arrives a second after the newest event.
type memReports struct {
	log  *memLog // whose server keeps the reports, too
	mu   sync.Mutex
	msgs []streams.Message
	more chan struct{}
}

func newMemReports(log *memLog) *memReports { return &memReports{log: log, more: make(chan struct{})} }

func (r *memReports) State(context.Context) (streams.State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := uint64(len(r.msgs))
	return streams.State{First: 1, Last: n, Messages: n}, nil
}

func (r *memReports) Publish(_ context.Context, id policy.NodeID, rep policy.Report) (uint64, error) {
	s, err := r.log.State(context.Background())
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seq := uint64(len(r.msgs) + 1)
	r.msgs = append(r.msgs, streams.Message{
		Seq: seq, Subject: streams.ReportSubject(id), Body: policy.AppendReport(nil, rep),
		Time: epoch.Add(time.Duration(s.Last+1) * time.Second),
	})
	close(r.more)
	r.more = make(chan struct{})
	return seq, nil
}

func (*memReports) Forget(context.Context, string, uint64) error { return nil }

func (r *memReports) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		for {
			r.mu.Lock()
			batch, more := r.msgs[from-1:], r.more
			r.mu.Unlock()
			if len(batch) > 0 && !yield(batch, nil) {
				return
			}
			from += uint64(len(batch))
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (l *memLog) Get(_ context.Context, seq uint64) (streams.Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq == 0 || seq > uint64(len(l.msgs)) {
		return streams.Message{}, streams.ErrNotFound
	}
	return l.msgs[seq-1], nil
}

// startTracker follows a plane's reports until the test ends.
func startTracker(t testing.TB, p *plane) *convergence.Tracker {
	reports := newMemReports(p.log)
	return runTracker(t, convergence.Options{
		Model: p.fold, Events: p.log,
		Open: func(context.Context) (convergence.Reports, error) { return reports, nil },
	})
}

func runTracker(t testing.TB, opt convergence.Options) *convergence.Tracker {
	opt.Metrics = api.NewMetrics(nil)
	tracker := convergence.New(opt)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tracker.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	require.Eventually(t, func() bool {
		_, err := tracker.Fleet(ctx, 1)
		return err == nil
	}, waitFor, tick)
	return tracker
}

// report says that a node applied its present state, as the state itself tells.
func (p *plane) report(node string) {
	p.t.Helper()
	a := p.do("GET", "/v1/nodes/"+node+"/state", "")
	p.want(http.StatusOK, "", a)
	var state resource.NodeState
	require.NoError(p.t, json.Unmarshal(a.body, &state))
	fp := fingerprint("[]")
	if state.Policy != nil {
		fp = state.Policy.Fingerprint
	}
	p.want(http.StatusAccepted, "", p.do("POST", "/v1/nodes/"+node+"/applied",
		fmt.Sprintf(`{"version":%s,"fingerprint":%q}`, a.Header.Get("Edict-Log-Seq"), fp)))
}

func (p *plane) rollout(id string) resource.Rollout {
	p.t.Helper()
	a := p.do("GET", policies+"/"+id+"/rollout", "")
	p.want(http.StatusOK, "", a)
	return into[resource.Rollout](p.t, a)
}

func TestARolloutSaysWhoHasAPolicyAndWhoLags(t *testing.T) {
	p := newPlane(t)
	p.put("a", `{"labels":{"role":"web"}}`) // 1
	p.put("b", `{"labels":{"role":"db"}}`)  // 2
	p.put("c", `{"labels":{"role":"ops"}}`) // 3
	made := p.create("web")                 // 4
	id := made.ID.String()
	r := p.rollout(id)
	require.Equal(t, 2, r.Desired)
	require.Zero(t, r.Applied)
	require.Nil(t, r.P50Seconds)
	since := epoch.Add(4 * time.Second)
	require.Equal(t, []resource.Lagging{{NodeID: "a", Since: &since}, {NodeID: "b", Since: &since}}, r.Lagging)

	p.report("a")
	r = p.rollout(id)
	require.Equal(t, 1, r.Applied)
	require.Len(t, r.Lagging, 1)
	require.NotNil(t, r.P50Seconds)
	require.InEpsilon(t, 1, *r.P50Seconds, 0.06, "one second after the commit")
	p.report("b")
	r = p.rollout(id)
	require.Equal(t, 2, r.Applied)
	require.Empty(t, r.Lagging)

	// Taken from b, and then from everybody.
	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+id, `{"selector":{"source":"role=web","destination":"role=web"}}`))
	r = p.rollout(id)
	require.Equal(t, resource.Rollout{Desired: 1, Applied: 1, Lagging: r.Lagging, P50Seconds: r.P50Seconds, P99Seconds: r.P99Seconds, Arrivals: r.Arrivals}, r)
	first := r.Arrivals[len(r.Arrivals)-1]
	require.Equal(t, 2, first.Nodes, "how the revision before arrived")
	require.NotNil(t, first.RevisionID)
	require.NotNil(t, first.Time)
	require.Equal(t, 2, first.Curve[len(first.Curve)-1].Nodes)
	require.Len(t, r.Lagging, 1)
	require.Equal(t, "b", r.Lagging[0].NodeID)
	p.report("b")
	require.Equal(t, 1, p.rollout(id).Dropped)
	p.want(http.StatusNoContent, "", p.do("DELETE", policies+"/"+id, ""))
	r = p.rollout(id)
	require.Zero(t, r.Desired)
	require.Equal(t, 1, r.Dropped)
	require.Len(t, r.Lagging, 1)
	p.report("a")
	r = p.rollout(id)
	require.Equal(t, 2, r.Dropped)
	require.Empty(t, r.Lagging)

	p.want(http.StatusNotFound, "policy_not_found", p.do("GET", policies+"/"+nowhere+"/rollout", ""))
	p.want(http.StatusNotFound, "policy_not_found", p.do("GET", "/v1/projects/"+other+"/policies/"+id+"/rollout", ""))
}

// say reports the present state of a node with an outcome and a reason.
func (p *plane) say(node, outcome, reason string) answer {
	p.t.Helper()
	a := p.do("GET", "/v1/nodes/"+node+"/state", "")
	p.want(http.StatusOK, "", a)
	return p.do("POST", "/v1/nodes/"+node+"/applied",
		fmt.Sprintf(`{"version":%s,"fingerprint":%q,"outcome":%q,"reason":%q}`, a.Header.Get("Edict-Log-Seq"), into[resource.NodeState](p.t, a).Policy.Fingerprint, outcome, reason))
}

func TestARefusalIsShownWithItsReason(t *testing.T) {
	p := newPlane(t)
	p.put("a", `{"labels":{"role":"web"}}`)
	p.put("b", `{"labels":{"role":"db"}}`)
	id := p.create("web").ID.String() // 3
	p.report("b")
	p.want(http.StatusAccepted, "", p.say("a", "refused", "rule 3 requires authentication"))
	r := p.rollout(id)
	require.Equal(t, 1, r.Applied)
	require.Len(t, r.Lagging, 1)
	at := epoch.Add(4 * time.Second)
	require.Equal(t, []resource.Refusal{{NodeID: "a", Outcome: "refused", Reason: "rule 3 requires authentication", Since: at}}, r.Refusals)
	status := func() resource.Convergence {
		return *into[resource.Status](t, p.do("GET", "/v1/status", "")).Convergence
	}
	require.Equal(t, resource.NotApplied{Refused: 1}, status().NotApplied)
	require.Equal(t, 1, status().Applied)

	p.want(http.StatusAccepted, "", p.say("b", "drift", ""))
	require.Equal(t, resource.NotApplied{Refused: 1, Drift: 1}, status().NotApplied)
	require.Zero(t, p.rollout(id).Applied, "nothing counts that is not applied")
	require.Len(t, into[resource.Rollout](t, p.do("GET", policies+"/"+id+"/rollout?limit=1", "")).Refusals, 1)

	p.want(http.StatusAccepted, "", p.say("a", "applied", "as it should be"))
	p.report("b")
	r = p.rollout(id)
	require.Equal(t, 2, r.Applied)
	require.Empty(t, r.Refusals)
	require.Zero(t, status().NotApplied)

	p.want(http.StatusUnprocessableEntity, "unknown_outcome", p.say("a", "failed", ""))
	p.want(http.StatusUnprocessableEntity, "control_character", p.say("a", "refused", "two\nlines"))
	p.want(http.StatusUnprocessableEntity, "text_too_long", p.say("a", "refused", strings.Repeat("x", 513)))
	require.Equal(t, 2, p.rollout(id).Applied)
}

// A node whose block is resolved knows no fingerprint but that of the block. What it
// says counts like that of any other node.
func TestANodeReportsTheBlockThatItsStateHas(t *testing.T) {
	p := newPlane(t)
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.put("web", `{"labels":{"role":"web"},"addresses":["10.2.0.1"]}`)
	made := p.do("POST", policies, ordered("walls", `,"tier":"admin"`, fromTen, denyWeb))
	p.want(http.StatusCreated, "", made)
	id := into[resource.Policy](t, made).ID.String()
	require.Contains(t, string(p.do("GET", "/v1/nodes/db/state", "").body), `"resolved":true`)
	p.report("db")
	r := p.rollout(id)
	require.Equal(t, 1, r.Applied)
	require.Equal(t, "web", r.Lagging[0].NodeID)
	p.report("web")
	status := func() int { return into[resource.Status](t, p.do("GET", "/v1/status", "")).Convergence.Applied }
	require.Equal(t, 2, status(), "they hold what they must")

	// An older block is none that the node must have now.
	old := into[resource.NodeState](t, p.do("GET", "/v1/nodes/db/state", "")).Policy.Fingerprint
	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+id, `{"rules":[`+strings.ReplaceAll(fromTen, "80", "81")+`]}`))
	p.want(http.StatusAccepted, "", p.do("POST", "/v1/nodes/db/applied", fmt.Sprintf(`{"version":%d,"fingerprint":%q}`, p.log.Len(), old)))
	require.Zero(t, status())
}

func TestStatusSaysHowFarTheNodesAre(t *testing.T) {
	p := newPlane(t)
	for i := range 5 {
		p.put(fmt.Sprint("n", i), `{"labels":{"role":"web"}}`)
	}
	p.put("idle", `{"labels":{"role":"ops"}}`)
	p.create("web")
	p.report("n3")
	s := into[resource.Status](t, p.do("GET", "/v1/status?limit=2", ""))
	require.Equal(t, 6, s.Nodes)
	require.Equal(t, 6, s.Convergence.Desired)
	require.Equal(t, 2, s.Convergence.Applied, "one that reported, one of which nothing is asked")
	require.Equal(t, 1, s.Convergence.Reported)
	require.Len(t, s.Convergence.Lagging, 2) // two of four that lag since the same moment
	var lagging []string
	for _, l := range into[resource.Status](t, p.do("GET", "/v1/status?limit=9", "")).Convergence.Lagging {
		require.Equal(t, epoch.Add(7*time.Second), *l.Since)
		lagging = append(lagging, l.NodeID)
	}
	require.Equal(t, []string{"n0", "n1", "n2", "n4"}, lagging)
}

func TestAReportThatCannotBeIsRefused(t *testing.T) {
	p := newPlane(t, impatient)
	p.put("a", `{}`)
	empty := fingerprint("[]")
	say := func(node, body string) answer { return p.do("POST", "/v1/nodes/"+node+"/applied", body) }
	p.want(http.StatusAccepted, "", say("a", `{"version":1,"fingerprint":"`+empty+`"}`))
	p.want(http.StatusUnprocessableEntity, "version_ahead", say("a", `{"version":2,"fingerprint":"`+empty+`"}`))
	p.want(http.StatusNotFound, "node_not_found", say("ghost", `{"version":1,"fingerprint":"`+empty+`"}`))
	p.want(http.StatusUnprocessableEntity, "invalid_node_id", say("A", `{"version":1,"fingerprint":"`+empty+`"}`))
	p.want(http.StatusBadRequest, "malformed_json", say("a", `{"version":1`))
	id := func(seq uint64) string {
		return fmt.Sprintf(`{"event_id":%q,"fingerprint":%q}`, policy.NewEventID(p.fold.Base(), seq, 3), empty)
	}
	p.want(http.StatusAccepted, "", say("a", id(1)))
	p.want(http.StatusUnprocessableEntity, "version_ahead", say("a", id(2)))
	p.want(http.StatusAccepted, "", say("a", `{"event_id":"7","fingerprint":"`+empty+`"}`)) // of a log that was there before
	p.want(http.StatusUnprocessableEntity, "invalid_version", say("a", `{"event_id":"x","fingerprint":"`+empty+`"}`))
	p.want(http.StatusBadRequest, "unknown_field", say("a", `{"version":1,"node_seq":1,"fingerprint":"`+empty+`"}`))
	a := say("a", `{"version":1.5,"fingerprint":"x"}`)
	p.want(http.StatusUnprocessableEntity, "invalid_version", a)
	require.Len(t, a.problem(t).Errors, 2, "every fault at once")
	p.want(http.StatusUnprocessableEntity, "required", say("a", `{}`))
	p.log.Hold()
	p.log.store("edict.log.x", nil)
	p.want(http.StatusServiceUnavailable, "projection_behind", say("ghost", `{"version":1,"fingerprint":"`+empty+`"}`))
	p.want(http.StatusServiceUnavailable, "projection_behind", say("a", `{"version":2,"fingerprint":"`+empty+`"}`))
	p.log.Release()
	p.log.Fail(errDown)
	p.want(http.StatusServiceUnavailable, "log_unavailable", say("a", `{"version":1,"fingerprint":"`+empty+`"}`))
}

// once is a model that is not asked anew by whoever reads it: where the fold waits between the
// two to write, the fold, the reader and everybody behind them would wait for ever.
type once struct {
	api.Model
	t       *testing.T
	reading bool
}

func (m *once) Read(f func(v *projector.View)) {
	m.Model.Read(func(v *projector.View) {
		m.reading = true
		defer func() { m.reading = false }()
		f(v)
	})
}

func (m *once) Base() uint64 {
	require.False(m.t, m.reading, "the fold cannot go on")
	return m.Model.Base()
}

func TestAReportDoesNotStopTheFold(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) { d.Model = &once{Model: d.Model, t: t} })
	p.put("a", `{}`)
	p.want(http.StatusAccepted, "", p.do("POST", "/v1/nodes/a/applied",
		fmt.Sprintf(`{"event_id":%q,"fingerprint":%q}`, policy.NewEventID(p.fold.Base(), 1, 3), fingerprint("[]"))))
}

// A change that no row shows has arrived at a node that enforces tables when its table
// is right as of the change, and not before.
func TestAChangeOfTheTableAloneIsNotAppliedBeforeTheNodeHasIt(t *testing.T) {
	p := newPlane(t)
	p.deps.Convergence = startTracker(t, p)
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.put("web", `{"labels":{"role":"web"},"addresses":["10.1.0.2"]}`)
	a := p.do("POST", policies, ordered("walls", `,"tier":"admin"`, allowWeb, denyWeb))
	p.want(http.StatusCreated, "", a)
	id := into[resource.Policy](t, a).ID.String()
	// Both have no plain rules; db enforces tables, web does not.
	say := func(node, table string) answer {
		return p.do("POST", "/v1/nodes/"+node+"/applied", fmt.Sprintf(`{"version":3,"fingerprint":%q%s}`, fingerprint("[]"), table))
	}
	served := p.do("GET", tableOfDB, "")
	require.Equal(t, "3", served.Header.Get("Edict-Log-Seq"))
	p.want(http.StatusAccepted, "", say("db", `,"table_version":3`))
	p.want(http.StatusAccepted, "", say("web", ""))
	require.Equal(t, 2, p.rollout(id).Applied)

	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+id, `{"rules":[`+denyWeb+","+allowWeb+`]}`)) // 4
	r := p.rollout(id)
	require.Equal(t, 1, r.Applied)
	require.Len(t, r.Lagging, 1)
	require.Equal(t, "db", r.Lagging[0].NodeID)
	require.NotNil(t, r.Lagging[0].Since)
	p.want(http.StatusUnprocessableEntity, api.CodeVersionAhead, say("db", `,"table_version":5`))
	require.Equal(t, 1, p.rollout(id).Applied)
	confirmed := p.do("GET", tableOfDB, "", "If-None-Match: "+p.do("GET", tableOfDB, "").Header.Get("ETag"))
	require.Equal(t, http.StatusNotModified, confirmed.StatusCode)
	p.want(http.StatusAccepted, "", say("db", `,"table_version":`+confirmed.Header.Get("Edict-Log-Seq")))
	require.Equal(t, 2, p.rollout(id).Applied)
	require.Empty(t, p.rollout(id).Lagging)

	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+id, `{"display_name":"Walls"}`)) // 5: it may be any change
	require.Equal(t, 1, p.rollout(id).Applied)
	p.want(http.StatusAccepted, "", say("db", "")) // it enforces tables no more
	require.Equal(t, 2, p.rollout(id).Applied)
}
