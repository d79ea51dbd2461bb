package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
)

// leaving is a read model whose reader leaves after some reads.
type leaving struct {
	*projector.Projector
	reads int
	leave context.CancelFunc // at the last of them; nil: nobody does
}

func (m *leaving) Read(f func(v *projector.View)) {
	m.Projector.Read(f)
	if m.reads--; m.reads == 0 && m.leave != nil {
		m.leave()
	}
}

// Of what lasts, each part looks whether somebody still waits for it. Where nobody
// does, nothing is written, nothing is logged, and nobody is said to be at fault.
func TestNothingIsWrittenToAClientThatLeft(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	var log strings.Builder
	m := &leaving{}
	p := newPlane(t, func(d *api.Deps) {
		m.Projector = d.Model.(*projector.Projector)
		d.Model, d.Metrics, d.Trace = m, api.NewMetrics(reg), slog.New(slog.NewTextHandler(&log, nil))
		d.Admission = admission.NewRegistry(m.Projector, admission.RegistryOptions{})
	})
	var lines strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&lines, `{"id":"n%d","labels":{"role":"web"},"addresses":[]}`+"\n", i)
	}
	p.want(200, "", p.do("POST", nodes+":batch", lines.String(), "Content-Type: application/x-ndjson"))
	p.create("web")
	tested := admissionDraft(t, "tested", "Global", 2, specified("{}"), "test_cases", []any{
		map[string]any{"name": "fails", "request": map[string]any{"request_payload": map[string]any{}}, "expect": map[string]any{"status": "REJECTED"}},
	})
	for name, x := range map[string]struct {
		method, path, body string
		reads              int // after which nobody waits any more; 0: from the start
		more               int // reads that there may be afterwards
	}{
		"nodes with labels that none has": {"GET", nodes + "?label_selector=role=db", "", 2, 0},
		"policies":                        {"GET", policies, "", 0, 0},
		"facts":                           {"GET", "/v1/facts", "", 0, 0},
		"unchanged nodes":                 {"POST", nodes + ":batch", lines.String(), 100, 64},
		"tests of an admission policy":    {"POST", "/api/v1/policies", tested, 0, 0},
		"the digest":                      {"GET", "/v1/status?digest=true", "", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if m.reads, m.leave = x.reads, leave; x.reads == 0 {
				leave()
			}
			r := httptest.NewRequestWithContext(ctx, x.method, x.path, strings.NewReader(x.body))
			r.Header.Set("Content-Type", "application/json")
			if strings.HasSuffix(x.path, ":batch") {
				r.Header.Set("Content-Type", "application/x-ndjson")
			}
			w := httptest.NewRecorder()
			require.PanicsWithValue(t, http.ErrAbortHandler, func() { p.Handler.ServeHTTP(w, r) })
			require.Empty(t, w.Body.String())
			require.LessOrEqual(t, -m.reads, x.more, "what was read for nobody")
		})
	}
	require.NotContains(t, log.String(), "failed")
	counted := 0
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == "status" && l.GetValue() == "499" {
					counted += int(m.Counter.GetValue())
				}
			}
		}
	}
	require.Equal(t, 6, counted)
}
