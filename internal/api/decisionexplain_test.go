package api_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/api"
)

// recorded is a plane that keeps what it decides, without what the mask takes out.
func recorded(t *testing.T, mask ...string) (*plane, *decided) {
	log := &decided{}
	m, err := admission.ParseMask(mask)
	require.NoError(t, err)
	return newPlane(t, func(d *api.Deps) {
		d.Decisions = log
		d.Admission = admission.NewRegistry(d.Model, admission.RegistryOptions{Decided: func(x admission.Decision) {
			r := admission.NewRecord("w1", x)
			m.Apply(&r)
			log.record(t, r)
		}})
	}), log
}

func (l *decided) record(t *testing.T, r admission.Record) {
	text, err := json.Marshal(r)
	require.NoError(t, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(text)
}

func (p *plane) explained(seq int) resource.DecisionExplanation {
	p.t.Helper()
	a := p.do("GET", fmt.Sprintf("%s/%d/explanation", decisions, seq), "")
	p.want(200, "", a)
	return into[resource.DecisionExplanation](p.t, a)
}

// outcomes are what policies said, by name.
func outcomes(t *testing.T, v *resource.Verdict) (found []string) {
	t.Helper()
	if v == nil {
		return nil
	}
	found = append(found, v.Status)
	for _, raw := range v.Explain.Steps {
		var s admission.Step
		require.NoError(t, json.Unmarshal(raw, &s))
		found = append(found, s.PolicyName+" "+string(s.Outcome))
	}
	return found
}

func TestADecisionIsExplainedByThePoliciesOfThen(t *testing.T) {
	p, log := recorded(t)
	limit := func(result string) string { return admissionDraft(t, "limit", "Global", 1, specified(result)) }
	id := p.admit(t, limit(`{"patch": {"limited": true}}`))
	gone := p.admit(t, admissionDraft(t, "gone", "Global", 2, specified(`{"constraints": {"limited": {"const": true}}}`)))
	p.admit(t, admissionDraft(t, "same", "Global", 3, specified(`{}`)))
	p.admit(t, admissionDraft(t, "hint", "Global", 4, specified(`{"reject": true}`), "mode", "shadow"))
	p.want(200, "", p.do("POST", evaluating, `{"request_payload": {"service_type": "vm"}}`))
	before := p.explained(1)
	require.Equal(t, []string{"MODIFIED", "limit applied", "gone applied", "same applied", "hint rejected"}, outcomes(t, before.Now))
	require.Equal(t, before.Now, before.Then, "nothing has changed")

	p.want(200, "", p.do("PUT", admissions+"/"+id, limit(`{"reject": true, "reason": "no"}`)))
	p.want(204, "", p.do("DELETE", admissions+"/"+gone, ""))
	p.admit(t, admissionDraft(t, "new", "Global", 2, specified(`{}`)))
	x := p.explained(1)
	require.Equal(t, "modified", x.Decision.Outcome)
	require.Equal(t, uint64(1), x.Decision.Seq)
	require.Equal(t, []string{"MODIFIED", "limit applied", "gone applied", "same applied", "hint rejected"}, outcomes(t, x.Then))
	require.Equal(t, x.Decision.SnapshotVersion, x.Then.Explain.SnapshotVersion)
	require.Equal(t, []string{"rejected_by_policy", "limit rejected", "new not_run", "same not_run", "hint not_run"}, outcomes(t, x.Now))
	require.Equal(t, &resource.Deciding{ID: id, Name: "limit"}, x.Now.Policy)
	states := map[string]string{}
	for _, d := range x.Policies {
		states[d.Name] = fmt.Sprint(d.State, " ", d.Version, " ", d.Present)
	}
	require.Equal(t, map[string]string{"limit": "changed 1 5", "gone": "gone 2 0", "same": "unchanged 3 3", "hint": "unchanged 4 4"}, states)
	require.Len(t, log.all, 1, "to explain is to decide nothing")
}

func TestADecisionThatCannotBeMadeAgainSaysWhy(t *testing.T) {
	p, log := recorded(t, "/request_payload/password")
	id := p.admit(t, admissionDraft(t, "limit", "Global", 1, specified(`{}`)))
	p.want(200, "", p.do("POST", evaluating, `{"request_payload": {"password": "x"}}`))
	p.want(200, "", p.do("POST", evaluating, `{"request_payload": {"cpu": 1}}`))
	old, err := admission.ReadRecord(log.all[1].Body)
	require.NoError(t, err)
	old.Policies = nil // as a worker of a release before wrote it
	log.record(t, old)
	require.NotNil(t, p.explained(3).Then, "the policies are those of then")
	p.want(200, "", p.do("PUT", admissions+"/"+id, admissionDraft(t, "limit", "Global", 1, specified(`{"reject": true}`))))

	x := p.explained(1)
	require.Equal(t, "a part of the request was masked", x.Unjudged)
	require.Nil(t, x.Now)
	require.Equal(t, resource.PolicyChanged, x.Policies[0].State)
	x = p.explained(3)
	require.Contains(t, x.Unjudged, "does not name")
	require.Nil(t, x.Then)
	require.Equal(t, "rejected_by_policy", x.Now.Status)
	require.Empty(t, x.Policies)

	p.deps.Event = nil
	p.Handler = judged(t, api.New(p.deps))
	require.Contains(t, p.explained(2).Unjudged, "the log does not have the policies of then")
	for _, seq := range []string{"0", "4", "x", "-1", "99999999999999999999999"} {
		p.want(404, "decision_not_found", p.do("GET", decisions+"/"+seq+"/explanation", ""))
	}
	p.want(404, "no_decision_log", newPlane(t).do("GET", decisions+"/1/explanation", ""))
}

func TestANetworkPolicysDecisionIsExplainedAsItWasMade(t *testing.T) {
	p, _ := recorded(t)
	id := p.admit(t, admissionDraft(t, "bill", "Global", 1, specified(`{"patch": {"billing_tag": "x"}}`)))
	p.create("web")
	p.want(200, "", p.do("PUT", admissions+"/"+id, admissionDraft(t, "bill", "Global", 1, specified(`{"patch": {"rules": []}}`))))
	x := p.explained(1)
	require.Equal(t, "approved", x.Decision.Outcome, "what a network policy does not have is left out")
	require.Equal(t, []string{"APPROVED", "bill applied"}, outcomes(t, x.Then))
	require.Equal(t, "invalid_after_patch", x.Now.Status)
}
