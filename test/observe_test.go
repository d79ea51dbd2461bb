package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

const metricsPage = "docs/metrics.md"

// TestASmallStoryAsAnOperatorSeesIt drives the built binary through a start, a
// fleet that grows, a producer's fault, a kill -9 and a stop, and reads what it
// shows meanwhile: its measurements, and its log.
func TestASmallStoryAsAnOperatorSeesIt(t *testing.T) {
	p := serve(t, "--log-format=json", "--durability=relaxed")
	p.importNodes(0, 10)
	heard := p.listener("n-1")
	p.do("POST", "/v1/projects/"+defaultProject+"/policies", policyFor("web", 80), 201)
	heard.next()
	p.publishNonsense()
	p.do("GET", "/v1/nodes/n-1/state", nil, 200)
	p.do("GET", "/metrics", nil, 200) // a route's series is there once it was asked for
	few := p.scrape()
	p.importNodes(10, 1000)
	p.do("GET", "/v1/nodes/n-999/state", nil, 200)
	many := p.scrape()
	old := scrapeOldLog(t)

	t.Run("metrics are well formed", func(t *testing.T) {
		problems, err := promlint.New(bytes.NewReader(many.page)).Lint()
		require.NoError(t, err)
		require.Empty(t, problems)
	})
	t.Run("a young log knows no pace", func(t *testing.T) {
		require.Contains(t, many.families, "edict_log_room_bytes")
		require.NotContains(t, many.families, "edict_log_growth_bytes_per_day")
		require.NotContains(t, many.families, "edict_log_full_seconds")
	})
	for _, name := range []string{"edict_log_growth_bytes_per_day", "edict_log_full_seconds"} {
		require.Contains(t, old.families, name)
		many.families[name] = old.families[name]
	}
	t.Run("metrics are documented, and no others", func(t *testing.T) { many.documented(t) })
	t.Run("alerts ask for no other metric", func(t *testing.T) { alertsAsk(t, many) })
	t.Run("nor does the board", func(t *testing.T) { boardAsks(t, many) })
	t.Run("a hundred times the nodes are not one more series", func(t *testing.T) {
		require.EqualValues(t, 10, few.values["edict_nodes{}"])
		require.EqualValues(t, 1000, many.values["edict_nodes{}"])
		require.Equal(t, slices.Sorted(maps.Keys(few.values)), slices.Sorted(maps.Keys(many.values)))
	})
	t.Run("the head is the log's", func(t *testing.T) {
		require.EqualValues(t, 1002, many.values["edict_log_head_sequence{}"]) // a thousand nodes, a policy, and nonsense
		require.EqualValues(t, 1, many.values[`edict_rejected_events_total{code="undecodable"}`])
	})

	p.kill()
	first := bytes.Clone(p.log.Bytes())
	p.start()
	p.do("GET", "/v1/nodes/n-1/state", nil, 200)
	p.announced()
	p.terminate()
	for name, run := range map[string][]byte{"killed": first, "stopped": p.log.Bytes()[len(first):]} {
		t.Run("the log of a process that was "+name, func(t *testing.T) { checkLog(t, run, name == "stopped") })
	}
}

// checkLog reads one process's log.
func checkLog(t *testing.T, run []byte, stopped bool) {
	keys, messages := table(t, logsPage, "key"), table(t, logsPage, "message")
	seen, logged := map[string]bool{}, []string{}
	for _, text := range strings.Split(strings.TrimSpace(string(run)), "\n") {
		var line map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &line), "%s", text)
		for k := range line {
			require.Contains(t, keys, k, "%s", text)
		}
		message := line["msg"].(string)
		require.Contains(t, messages, message)
		require.Equal(t, messages[message][0], strings.ToLower(line["level"].(string)), "%s", text)
		require.NotContains(t, text, "role", "no labels")
		require.NotContains(t, text, "TTL state", "that is how a start after a kill is")
		delete(line, "time")
		same := fmt.Sprint(line)
		require.False(t, seen[same], "said before: %s", text)
		seen[same] = true
		logged = append(logged, message)
	}
	want := []string{"ready", "partitions are published here now"}
	if stopped {
		want = append(want, "stopped")
		require.Equal(t, "stopped", logged[len(logged)-1])
	} else {
		want = append(want, "made the log's witness", "event rejected")
	}
	for _, message := range want {
		require.Equal(t, 1, strings.Count("|"+strings.Join(logged, "|")+"|", "|"+message+"|"), "%q in %q", message, logged)
	}
}

func (p *process) importNodes(from, to int) {
	p.t.Helper()
	var b bytes.Buffer
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, `{"id":"n-%d","labels":{"role":"web","host":"h%d"},"addresses":[]}`+"\n", i, i%7)
	}
	p.batch(&b)
}

// batch states the facts of nodes, a line each.
func (p *process) batch(lines *bytes.Buffer) {
	p.t.Helper()
	resp, err := http.Post("http://"+p.http+"/v1/projects/"+defaultProject+"/nodes:batch", "application/x-ndjson", lines)
	require.NoError(p.t, err)
	require.NoError(p.t, resp.Body.Close())
	require.Equal(p.t, http.StatusOK, resp.StatusCode)
}

// publishNonsense does what no producer should, and waits until it was judged.
func (p *process) publishNonsense() {
	p.t.Helper()
	nc, err := nats.Connect("nats://" + p.nats)
	require.NoError(p.t, err)
	defer nc.Close()
	_, err = nc.Request("edict.log."+defaultProject+".node.n-1", []byte("nonsense"), 5*time.Second)
	require.NoError(p.t, err)
	require.True(p.t, waitFor(10*time.Second, func() bool {
		return bytes.Contains(p.do("GET", "/v1/rejected", nil, 200), []byte("undecodable"))
	}))
}

// scraped is a page of measurements.
type scraped struct {
	page     []byte
	values   map[string]float64 // by series; of a histogram, its count
	families map[string][]string
}

func (p *process) scrape() scraped {
	p.t.Helper()
	return scrapedFrom(p.t, p.do("GET", "/metrics", nil, 200))
}

// longLog is a log that has been there for some time.
type longLog struct{ api.Log }

// State implements api.Log.
func (longLog) State(context.Context) (streams.State, error) {
	return streams.State{First: 1, Last: 2, Messages: 2, Bytes: 200}, nil
}

// scrapeOldLog is what is shown of a log that is older than an hour, which that of no
// test is.
func scrapeOldLog(t *testing.T) scraped {
	t.Helper()
	store, err := projector.Open(t.TempDir(), projector.Options{Partitions: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	known := func() (uint64, bool) { return 100, true }
	reg := prometheus.NewPedanticRegistry()
	api.NewMetrics(reg).Watch(api.Deps{Log: longLog{}, Model: store, StatusDeps: api.StatusDeps{LogPerDay: known, LogRoom: known}})
	page := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return scrapedFrom(t, page.Body.Bytes())
}

func scrapedFrom(t *testing.T, page []byte) scraped {
	t.Helper()
	s := scraped{page: page, values: map[string]float64{}, families: map[string][]string{}}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(s.page))
	require.NoError(t, err)
	for name, f := range families {
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			var pairs []string
			for _, l := range m.GetLabel() {
				pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
				labels["`"+l.GetName()+"`"] = true
			}
			sort.Strings(pairs)
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			s.values[name+"{"+strings.Join(pairs, ",")+"}"] = value
		}
		s.families[name] = []string{
			strings.ToLower(f.GetType().String()), strings.Join(slices.Sorted(maps.Keys(labels)), " "), f.GetHelp(),
		}
	}
	return s
}

// documented holds the page against the table, which says of each metric what
// its help says.
func (s scraped) documented(t *testing.T) {
	rows := table(t, metricsPage, "metric")
	for _, name := range slices.Sorted(maps.Keys(s.families)) {
		is := s.families[name]
		if !strings.HasPrefix(name, "edict_") {
			require.True(t, strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_"), name)
			continue
		}
		row := rows[name]
		delete(rows, name)
		if is[1] != "" {
			is[1] = strings.Trim(is[1], "`") // as the table's reader does
		}
		if !slices.Equal(row, is) {
			label := is[1]
			if label != "" {
				label = "`" + label + "`"
			}
			t.Errorf("%s wants the row\n| `%s` | %s | %s | %s |", metricsPage, name, is[0], label, is[2])
		}
	}
	for name := range rows {
		t.Errorf("%s has %s, which the plane does not show", metricsPage, name)
	}
}
