package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

func TestEventsThatWentPastTheAPIAreListed(t *testing.T) {
	p := newPlane(t)
	p.log.mu.Lock()
	for range 3 {
		p.log.store("edict.log."+project+".node.n1", []byte(`{"id":`))
	}
	p.log.mu.Unlock()
	page := into[resource.Page[resource.Rejection]](t, p.do("GET", "/v1/rejected?limit=2", ""))
	require.Len(t, page.Items, 2)
	require.Equal(t, "undecodable", page.Items[0].Code)
	require.Equal(t, "2", *page.NextCursor)
	require.Empty(t, into[resource.Page[resource.Rejection]](t, p.do("GET", "/v1/rejected?after=18446744073709551615", "")).Items)
	page = into[resource.Page[resource.Rejection]](t, p.do("GET", "/v1/rejected?after="+*page.NextCursor, ""))
	require.Len(t, page.Items, 1)
	require.Nil(t, page.NextCursor)
	require.Equal(t, uint64(3), page.Items[0].Seq)
	require.Equal(t, uint64(3), into[resource.Status](t, p.do("GET", "/v1/status", "")).Rejected)
}

func TestStatusTellsLag(t *testing.T) {
	p := newPlane(t, impatient)
	p.put("n1", `{}`)
	p.log.Hold()
	p.do("PUT", nodes+"/n2", `{}`)
	s := into[resource.Status](t, p.do("GET", "/v1/status", ""))
	require.Equal(t, []resource.Worker{{Name: "w1", Applied: 1, Lag: 1}}, s.Workers)
	require.Empty(t, s.Partitions, "nobody says who publishes")
	require.Empty(t, s.Digest)
	d := into[resource.Status](t, p.do("GET", "/v1/status?digest", ""))
	require.Len(t, d.Digest, 64)
	require.Equal(t, uint64(1), d.Applied)
}

func TestReadinessNamesWhatIsMissing(t *testing.T) {
	p := newPlane(t, impatient, func(d *api.Deps) {
		d.Checks = []api.Check{{Name: "clock", Probe: func(context.Context) error { return nil }}}
	})
	p.want(http.StatusOK, "", p.do("GET", "/livez", ""))
	p.want(http.StatusOK, "", p.do("GET", "/readyz", ""))
	ready := into[resource.Readiness](t, p.do("GET", "/readyz?verbose", ""))
	require.Equal(t, resource.Check{Name: "durability", Status: "info", Detail: "strict"}, ready.Checks[len(ready.Checks)-1])
	require.Contains(t, ready.Checks, resource.Check{Name: "clock", Status: "ok"})

	p.relay.set(0, errors.New("the gate is shut"))
	a := p.do("GET", "/readyz?verbose", "")
	p.want(http.StatusServiceUnavailable, "starting", a)
	require.Contains(t, a.problem(t).Checks, resource.Check{Name: "relay", Status: "failed", Detail: "the gate is shut"})
	require.Contains(t, a.problem(t).Detail, "relay (the gate is shut)")
	p.relay.set(7, nil)

	p.log.Fail(errDown)
	a = p.do("GET", "/readyz", "")
	p.want(http.StatusServiceUnavailable, "starting", a)
	require.Contains(t, a.problem(t).Detail, "log (connection refused)")
	p.want(http.StatusOK, "", p.do("GET", "/livez", ""))
}

// TestAFoldThatLagsLeavesOtherChecksTheirTime: what is wrong is named, and nothing else.
func TestAFoldThatLagsLeavesOtherChecksTheirTime(t *testing.T) {
	p := newPlane(t, impatient, func(d *api.Deps) {
		d.Checks = []api.Check{{Name: "clock", Probe: func(ctx context.Context) error { return ctx.Err() }}}
	})
	p.log.Hold()
	p.do("PUT", nodes+"/n1", `{}`)
	a := p.do("GET", "/readyz", "")
	p.want(http.StatusServiceUnavailable, "starting", a)
	require.Equal(t, "not ready: projection (folded up to 0 of 1)", a.problem(t).Detail)
}

func TestAPanicIsContained(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) { d.Durability = func() string { panic("boom") } })
	a := p.do("GET", "/v1/status", "")
	p.want(http.StatusInternalServerError, "internal", a)
	require.NotContains(t, string(a.body), "boom")
	p.want(http.StatusOK, "", p.do("GET", "/livez", ""))
}

func TestMetricsAreWellFormedAndHaveNoUnboundedLabel(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := api.NewMetrics(reg)
	p := newPlane(t, func(d *api.Deps) {
		d.Metrics = m
		d.MetricsPage = promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
	})
	m.Watch(api.Deps{
		Log: p.log, Model: p.fold, LimitDeps: api.LimitDeps{Writable: func() error { return errDown }},
		StatusDeps: api.StatusDeps{
			Partitions: func() ([]resource.Partition, error) {
				return []resource.Partition{{Publisher: "w", UpTo: 1}, {Publisher: "w"}, {}}, nil
			},
			Past: func() projector.PastStatus { return projector.PastStatus{From: 7, Records: 8, Bytes: 9, Dropped: 10} },
		},
	})
	m.Build("v1.2.3")
	m.Durability("strict")
	m.Folded(3, 0.01)
	m.Rejected("invalid", time.Now())
	m.Published(9, 10)
	m.HubDropped(3)
	m.Beyond()
	m.Clients(1)
	m.Resumed("live")
	m.Delivered(1)
	p.put("node-with-a-name", `{}`)
	p.do("GET", "/v1/nodes/node-with-a-name/state", "")
	p.do("BREW", "/v1/wishes", "")

	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	a := p.do("GET", "/metrics", "")
	p.want(http.StatusOK, "", a)
	text := string(a.body)
	for _, line := range []string{
		"edict_log_head_sequence 1", "edict_log_applied_sequence 1", "edict_nodes 1", "edict_identities 1",
		"edict_past_from_seq 7", "edict_past_records 8", "edict_past_bytes 9", "edict_past_dropped_total 10",
		"edict_storage_low 1", "edict_publish_lag_events 1", "edict_partitions_unpublished 1",
		"edict_published_total 9", "edict_published_skipped_total 10", "edict_hub_dropped_total 3", "edict_resumes_beyond_log_total 1",
		`edict_durability_info{mode="strict"} 1`, `edict_rejected_events_total{code="invalid"} 1`,
		`edict_rejected_events_total{code="stale_event"} 0`, `edict_sse_resumes_total{source="past"} 0`,
		`edict_sse_resumes_total{source="live"} 1`, `edict_http_requests_total{method="none",route="none",status="404"} 1`,
		`edict_http_requests_total{method="GET",route="/v1/nodes/{node}/state",status="200"} 1`,
	} {
		require.Contains(t, text, line+"\n")
	}
	require.NotContains(t, text, "node-with-a-name")
	require.NotContains(t, text, "BREW")
}

// A worker that makes its read model anew folds every event of the log again. What was rejected
// long ago is no news then, and calls nobody.
func TestTheRejectionsOfThePastAreNotCountedAgain(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	rejected := api.NewMetrics(reg).Projector().Rejected
	rejected("invalid", time.Now().Add(-2*time.Hour))
	rejected("undecodable", time.Now().Add(-time.Minute))
	rejected("undecodable", time.Now().Add(time.Minute)) // the log's clock is ahead
	require.InDelta(t, 0, sample(t, reg, "edict_rejected_events_total", "invalid"), 0)
	require.InDelta(t, 2, sample(t, reg, "edict_rejected_events_total", "undecodable"), 0)
}

// sample is what a counter or gauge says, of these values of its labels, which are by name.
func sample(t *testing.T, reg prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if f.GetName() == name && slices.Equal(values, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	require.Failf(t, "no such sample", "%s %v", name, labels)
	return 0
}

// Prometheus sees no increase in a series that appears with its first count, and a fault of
// Edict mostly comes once: its series is there before, or EdictFaults never calls.
func TestTheFirstFaultOfARouteIsSeen(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	api.New(newPlane(t, func(d *api.Deps) { d.Metrics = api.NewMetrics(reg) }).deps)
	all := api.Routes()
	shown, err := testutil.GatherAndCount(reg, "edict_http_requests_total")
	require.NoError(t, err)
	require.Equal(t, len(all), shown, "none but these")
	for _, r := range all {
		require.Zero(t, sample(t, reg, "edict_http_requests_total", r.Method, r.Pattern, "500"))
	}
}

// What another worker published is known as of its last sign of life, seconds ago. What was
// folded since is not late: beside a log that grows all the time no publisher would ever be
// seen to keep up, and EdictPublishingStalled would call.
func TestWhatAPublisherDidSinceItsLeaseIsNotLate(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	p := newPlane(t)
	for i := range 5 {
		p.put(fmt.Sprintf("n%d", i), `{}`)
	}
	upTo, folded := uint64(2), uint64(2)
	api.NewMetrics(reg).Watch(api.Deps{Log: p.log, Model: p.fold, StatusDeps: api.StatusDeps{
		Partitions: func() ([]resource.Partition, error) {
			return []resource.Partition{{Publisher: "w1", Owner: "A", UpTo: 5}, {Publisher: "w2", Owner: "B", UpTo: upTo}}, nil
		},
		Workers: func(uint64) []resource.Worker {
			return []resource.Worker{{Name: "w1", Owner: "A", Applied: 5}, {Name: "w2", Owner: "B", Applied: folded}}
		},
	}})
	late := func() float64 { return sample(t, reg, "edict_publish_lag_events") }
	require.Zero(t, late(), "it kept up when it was heard last")
	folded = 4
	require.EqualValues(t, 2, late(), "it had folded two that it had not published")
	upTo, folded = 9, 9
	require.Zero(t, late(), "it is ahead of this worker")
}

// TestAScrapeKnowsTheHeadByItself: nobody reads the API, and the head moves.
func TestAScrapeKnowsTheHeadByItself(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	p := newPlane(t)
	api.NewMetrics(reg).Watch(api.Deps{Log: p.log, Model: p.fold})
	shows := func(head, applied int) {
		t.Helper()
		want := fmt.Sprintf("# HELP edict_log_head_sequence %s\n# TYPE edict_log_head_sequence gauge\nedict_log_head_sequence %d\n", headHelp, head) +
			fmt.Sprintf("# HELP edict_log_applied_sequence %s\n# TYPE edict_log_applied_sequence gauge\nedict_log_applied_sequence %d\n", appliedHelp, applied)
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(want), "edict_log_head_sequence", "edict_log_applied_sequence"))
	}
	shows(0, 0)
	p.log.Hold()
	for i := range 2 {
		_, _, err := p.log.Publish(t.Context(), streams.Append{Event: policy.NodeUpdated{
			ID: uuid.New(), Project: uuid.MustParse(project), Node: policy.NodeID(fmt.Sprintf("n%d", i)),
		}})
		require.NoError(t, err)
	}
	shows(2, 0)
	p.log.Release()
	p.log.Fail(errDown)
	shows(2, 2)
}

const (
	headHelp    = "Last sequence of the log. Each scrape asks the log's server; while that does not answer, it is the last known sequence. If the applied sequence is below it, this process lags."
	appliedHelp = "Last sequence of the log that this process has folded and committed. If it stands still below the head, the fold is stuck."
)
