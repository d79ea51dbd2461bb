package api_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api"
)

// TestAPolicyOfTheLogIsCompiledWhenItIsAsked has one that another process checked.
func TestAPolicyOfTheLogIsCompiledWhenItIsAsked(t *testing.T) {
	var compiled atomic.Int64
	p := newPlane(t, func(d *api.Deps) {
		d.Admission = admission.NewRegistry(d.Model, admission.RegistryOptions{Metrics: admission.Metrics{Compiled: func(time.Duration) { compiled.Add(1) }}})
	})
	p.raw(t, "vm", specified(`{"patch": {"seen": true}}`))
	ask := func(service string) answer {
		a := p.do("POST", evaluating, `{"request_payload":{"service_type":"`+service+`"}}`)
		p.want(200, "", a)
		return a
	}
	ask("other")
	require.Zero(t, compiled.Load())
	for range 2 {
		require.Contains(t, string(ask("vm").body), "seen")
		require.EqualValues(t, 1, compiled.Load())
	}
	p.admit(t, admissionDraft(t, "n", "Global", 7, specified("{}"), "service_type", "vm"))
	ask("vm")
	require.EqualValues(t, 2, compiled.Load(), "once in the process that takes it")
}
