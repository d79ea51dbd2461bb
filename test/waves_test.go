package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// voyage is a rollout in two named waves: of c1 and c2, then of e1; z1 is in none.
type voyage struct {
	*process
	at   string // where its policy is
	said map[string]string
}

// embark publishes a policy for four nodes, and promotes its next revision.
func embark(p *process) voyage {
	for id, labels := range map[string]map[string]string{
		"c1": {"role": "web", "canary": "true"}, "c2": {"role": "web", "canary": "true"}, "e1": {"role": "web", "region": "eu"}, "z1": {"role": "web"},
	} {
		p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/"+id, map[string]any{"labels": labels}, 201)
	}
	says := func(port int, slug string) []byte {
		return fmt.Appendf(nil, `{%s"selector":{"source":"role=web","destination":"role=none"},"rules":[{"action":"allow","protocol":"tcp",
			"source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","ports":{"from":%d,"to":%d}}]}`, slug, port, port)
	}
	var made struct{ ID string }
	all := "/v1/projects/" + defaultProject + "/policies"
	require.NoError(p.t, json.Unmarshal(p.do("POST", all, says(80, `"slug":"web",`), 201), &made))
	v := voyage{p, all + "/" + made.ID, map[string]string{}}
	v.do("POST", v.at+"/stage", says(81, ""), 200)
	v.do("POST", v.at+"/promote", []byte(`{"waves":["canary=true","region=eu"]}`), 200)
	return v
}

// report has a node say what became of what it has.
func (v voyage) report(node, outcome string) {
	v.said[node] = outcome
	body, next := v.state(node)
	var has struct{ Policy struct{ Fingerprint string } }
	require.NoError(v.t, json.Unmarshal([]byte(body), &has))
	v.do("POST", "/v1/nodes/"+node+"/applied", map[string]string{
		"event_id": next.String(), "fingerprint": has.Policy.Fingerprint, "outcome": outcome,
	}, 202)
}

// stands is the phase of the rollout and its newest wave, from a worker that has read
// all reports.
func (v voyage) stands() string {
	var r struct {
		Waves struct {
			Phase  string
			Opened int
		}
	}
	require.NoError(v.t, json.Unmarshal(v.do("GET", v.at+"/rollout", nil, 200), &r))
	return fmt.Sprint(r.Waves.Phase, " ", r.Waves.Opened)
}

// again kills the plane, starts it, and waits until it has read the reports that there
// are. Those of before the kill may be lost, so nodes that connect report again.
func (v voyage) again() {
	v.t.Helper()
	v.kill()
	v.start()
	require.True(v.t, waitFor(20*time.Second, func() bool {
		_, code := v.run("policy", "rollout", "web", "-o", "json")
		return code < 2
	}))
	for node, outcome := range v.said {
		v.report(node, outcome)
	}
}

// TestAKillInAWaveNeitherOpensNorStopsOne kills the plane between any two reports of
// a rollout. What a wave waits for it waits for afterwards, and what was said counts.
func TestAKillInAWaveNeitherOpensNorStopsOne(t *testing.T) {
	v := embark(serve(t))
	v.again()
	require.Equal(t, "progressing 1", v.stands(), "nobody has said anything")
	v.report("c1", "applied")
	v.again()
	require.Equal(t, "progressing 1", v.stands(), "c2 has said nothing")
	v.report("c2", "applied")
	v.again()
	require.True(t, waitFor(20*time.Second, func() bool { return v.stands() == "progressing 2" }))
	v.again()
	require.Equal(t, "progressing 2", v.stands(), "e1 has said nothing")
	v.report("e1", "refused")
	v.again()
	require.True(t, waitFor(20*time.Second, func() bool { return v.stands() == "stopped 2" }))
	v.again()
	require.Equal(t, "stopped 2", v.stands(), "it stays")

	events, code := v.run("audit", "-o", "json")
	require.Zero(t, code)
	require.Equal(t, 1, strings.Count(events, `"policy_wave_opened"`))
	require.Equal(t, 1, strings.Count(events, `"policy_rollout_stopped"`))
	_, code = v.run("replay", "--verify")
	require.Zero(t, code, "a replay has the same waves")
}
