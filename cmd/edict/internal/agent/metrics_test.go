//go:build linux

package agent_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/edict/internal/agent"
)

// shows holds metrics to be so.
func shows(t *testing.T, reg *prometheus.Registry, lines string, names ...string) {
	t.Helper()
	count, err := testutil.GatherAndCount(reg, names...)
	require.NoError(t, err)
	require.Equal(t, strings.Count(lines, "\n")+1, count)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(helped(t, reg, lines)), names...))
}

// helped is lines with the help and the type that the registry has for them.
func helped(t *testing.T, reg *prometheus.Registry, lines string) string {
	t.Helper()
	all, err := reg.Gather()
	require.NoError(t, err)
	var head strings.Builder
	for _, m := range all {
		if strings.Contains(lines, m.GetName()) {
			head.WriteString("# HELP " + m.GetName() + " " + m.GetHelp() + "\n# TYPE " + m.GetName() + " " + strings.ToLower(m.GetType().String()) + "\n")
			for line := range strings.Lines(lines) {
				if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, m.GetName()+"{") || name == m.GetName() {
					head.WriteString(strings.TrimSpace(line) + "\n")
				}
			}
		}
	}
	return head.String()
}

func TestAnAgentMeasuresWhatIsInForce(t *testing.T) {
	reg, b := prometheus.NewRegistry(), newBench(t)
	b.shown = agent.NewMetrics(reg)
	b.plane.put(tableOf(7, allowTCP(80)), nil)
	b.life(func(next func() agent.Status) {
		require.Equal(t, agent.StateCurrent, next().State)
		shows(t, reg, `edict_agent_table_version 7
			edict_agent_confirmed_timestamp_seconds 1.8e+09`, "edict_agent_table_version", "edict_agent_confirmed_timestamp_seconds")
		b.plane.put(nil, errors.New("away"))
		next() // no look that the plane answered is under way when the time has passed
		b.later(2 * time.Minute)
		require.Equal(t, agent.StateStale, next().State)
	})
	shows(t, reg, `edict_agent_state{state="current"} 0
		edict_agent_state{state="none"} 0
		edict_agent_state{state="polling"} 0
		edict_agent_state{state="refused"} 0
		edict_agent_state{state="stale"} 1
		edict_agent_table_version 7`, "edict_agent_state", "edict_agent_table_version")
	count, err := testutil.GatherAndCount(reg, "edict_agent_looks_total")
	require.NoError(t, err)
	require.Equal(t, 2, count, "looks that went well, and that failed")
}

func TestAnAgentMeasuresWhatIsInstalled(t *testing.T) {
	reg, d := prometheus.NewRegistry(), newDisk(t, true)
	a := d.open(t, agent.Options{Metrics: agent.NewMetrics(reg)})
	require.NoError(t, a.Offer(release{version: 5}.make()))
	require.NoError(t, a.Offer(release{version: 6, node: "beta"}.make()))
	shows(t, reg, `edict_agent_sets_total{outcome="installed"} 1
		edict_agent_sets_total{outcome="refused"} 1
		edict_agent_set_version{dir="`+dir+`"} 5`, "edict_agent_sets_total", "edict_agent_set_version")
	again := prometheus.NewRegistry()
	d.open(t, agent.Options{Metrics: agent.NewMetrics(again)})
	shows(t, again, `edict_agent_set_version{dir="`+dir+`"} 5`, "edict_agent_set_version")
	// Prometheus sees no increase in a series that appears with its first count.
	shows(t, again, `edict_agent_looks_total{outcome="failed"} 0
		edict_agent_looks_total{outcome="ok"} 0
		edict_agent_sets_total{outcome="installed"} 0
		edict_agent_sets_total{outcome="refused"} 0`, "edict_agent_looks_total", "edict_agent_sets_total")
}
