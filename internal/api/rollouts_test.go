package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// A rollout is refused what does not follow, each with a code of its own.
func TestARolloutIsRefusedWhatDoesNotFollow(t *testing.T) {
	p := newPlane(t)
	one := policies + "/" + p.create("web").ID.String()
	preview := `{"selector":{"source":"role=web","destination":"role=db"},"rules":` + webRules + `}`
	p.want(409, "not_staged", p.do("POST", one+"/promote", `{}`))
	p.want(409, "no_rollout", p.do("POST", one+"/abort", `{}`))
	p.want(409, "no_rollout", p.do("POST", one+"/waves", `{"wave":1}`))
	p.want(http.StatusOK, "", p.do("POST", one+"/stage", preview))
	p.want(422, "unknown_on_refusal", p.do("POST", one+"/promote", `{"on_refusal":"panic"}`))
	x := into[resource.Waves](t, p.do("POST", one+"/promote", `{"waves":["canary=true"]}`))
	require.Equal(t, resource.Waves{
		RevisionID: x.RevisionID, ParentRevisionID: x.ParentRevisionID, Phase: "progressing", Waves: []string{"canary=true"}, Opened: 1,
		MinAppliedPercent: 95, MaxRefusedPercent: 1, OnRefusal: "stop", UpdatedAt: x.UpdatedAt,
	}, x)
	p.want(409, "rollout_under_way", p.do("POST", one+"/stage", preview))
	p.want(409, "rollout_under_way", p.do("POST", one+"/promote", `{}`))
	p.want(409, "rollout_under_way", p.do("PATCH", one, `{"display_name":"Other"}`))
	p.want(409, "rollout_under_way", p.do("PATCH", one, `{"display_name":"Other","expected_revision_id":"`+x.ParentRevisionID.String()+`"}`))
	p.want(409, "wave_conflict", p.do("POST", one+"/waves", `{"wave":3}`))
	p.want(http.StatusOK, "", p.do("POST", one+"/waves", `{"wave":2}`))
	require.Equal(t, x.RevisionID, into[resource.Policy](t, p.do("GET", one, "")).HeadRevisionID)
}

// What is staged is what admission policies made of it, and its author is told. A
// display name is not staged, and he is told that, too.
func TestWhatIsStagedIsWhatAdmissionMadeOfIt(t *testing.T) {
	p := newPlane(t)
	p.admit(t, admissionDraft(t, "naming", "Global", 1, specified(`{"patch": {"display_name": "Other", "selector": {"destination": "env=prod"}}}`)))
	one := p.create("web")
	p.want(http.StatusOK, "", p.do("PATCH", policies+"/"+one.ID.String(), `{"rules":`+webRules+`}`))
	p.want(http.StatusNoContent, "", p.do("DELETE", admissions+"/"+p.only(t), ""))
	p.admit(t, admissionDraft(t, "renaming", "Global", 1, specified(`{"patch": {"display_name": "Another", "selector": {"destination": "env=test"}}}`)))
	a := p.do("POST", policies+"/"+one.ID.String()+"/stage", `{"selector":{"source":"role=web","destination":"role=db"},"rules":`+webRules+`}`)
	x := into[resource.Waves](t, a)
	require.Equal(t, "MODIFIED", x.Admission.Status)
	patch := x.Admission.Patches[0]
	require.Equal(t, []string{"/display_name"}, patch.Dropped)
	require.Len(t, patch.Changes, 1)
	require.Equal(t, "/selector/destination", patch.Changes[0].Path)
	require.Contains(t, strings.Join(a.Header.Values("Warning"), " "), "the display name stays as it is")
	p.want(http.StatusOK, "", p.do("POST", policies+"/"+one.ID.String()+"/promote", `{}`))
	after := into[resource.Policy](t, p.do("GET", policies+"/"+one.ID.String(), ""))
	require.Equal(t, "Other", after.DisplayName)
	require.Equal(t, "env=test", after.Head.Selector.Destination)
	require.Equal(t, "completed", after.Waves.Phase)
	require.Nil(t, after.Waves.Admission, "only whoever writes is told")
}

// Lists and reads show how far rollouts have come, and the rollout what it waits for.
func TestHowFarARolloutHasComeIsShown(t *testing.T) {
	p := newPlane(t)
	p.put("a", `{"labels":{"role":"web","canary":"true"}}`)
	p.put("b", `{"labels":{"role":"web"}}`)
	one := p.create("web").ID.String()
	list := func() *resource.Waves {
		return into[resource.Page[resource.Policy]](t, p.do("GET", policies, "")).Items[0].Waves
	}
	require.Nil(t, list())
	p.want(http.StatusOK, "", p.do("POST", policies+"/"+one+"/stage", `{"selector":{"source":"role=web","destination":"role=db"},"rules":`+
		strings.Replace(webRules, "5432", "5433", 2)+`}`))
	require.Equal(t, "staged", list().Phase)
	require.Nil(t, p.rollout(one).Waves.Reached)
	p.want(http.StatusOK, "", p.do("POST", policies+"/"+one+"/promote", `{"waves":["canary=true"],"on_refusal":"abort"}`))
	require.Equal(t, "progressing", list().Phase)
	require.Equal(t, "abort", list().OnRefusal)
	x := p.rollout(one).Waves
	require.Equal(t, &resource.Reached{Nodes: 1}, x.Reached)
	require.Equal(t, "0 of 1 nodes of wave 1 applied it, and 95% must", x.WaitsFor)
	p.report("a")
	x = p.rollout(one).Waves
	require.Equal(t, &resource.Reached{Nodes: 1, Applied: 1}, x.Reached)
	require.Empty(t, x.WaitsFor)
	p.want(http.StatusOK, "", p.do("PUT", "/v1/projects/"+project+"/quota", `{"events_per_day":1,"bytes_per_day":1}`))
	require.Contains(t, p.rollout(one).Waves.WaitsFor, "has a quota of")
	p.want(http.StatusOK, "", p.do("POST", policies+"/"+one+"/abort", `{"reason":"no"}`))
	x = p.rollout(one).Waves
	require.Nil(t, x.Reached)
	require.Equal(t, "aborted", into[resource.Policy](t, p.do("GET", policies+"/"+one, "")).Waves.Phase)
}

// What names no revision is about the one that there is, whichever worker is asked.
func TestARolloutIsMovedAsItStandsAtAnyWorker(t *testing.T) {
	a := newPlane(t)
	one := policies + "/" + a.create("web").ID.String()
	b, _ := lateWorker(t, a)
	b.want(http.StatusOK, "", b.do("GET", one, ""))
	preview := `{"selector":{"source":"role=web","destination":"role=db"},"rules":` + webRules + `}`

	a.want(http.StatusOK, "", a.do("PATCH", one, `{"display_name":"Other"}`))
	b.want(http.StatusOK, "", b.do("POST", one+"/stage", preview))
	a.want(http.StatusOK, "", a.do("POST", one+"/stage", preview))
	b.want(http.StatusOK, "", b.do("POST", one+"/promote", `{"waves":["canary=true","zone=a"]}`))
	b.want(http.StatusOK, "", b.do("POST", one+"/abort", `{}`))
	a.want(http.StatusOK, "", a.do("POST", one+"/stage", preview))
	a.want(http.StatusOK, "", a.do("POST", one+"/promote", `{"waves":["canary=true","zone=a"]}`))
	b.want(http.StatusOK, "", b.do("POST", one+"/waves", `{"wave":2}`))
	a.want(http.StatusOK, "", a.do("POST", one+"/abort", `{}`))
	a.want(http.StatusOK, "", a.do("POST", one+"/stage", preview))
	b.want(http.StatusOK, "", b.do("POST", one+"/abort", `{"reason":"no"}`))
	a.onlyApplied()
}

// stageBody is a revision for whoever has a role.
func stageBody(role string) string {
	return `{"selector":{"source":"role=` + role + `","destination":"role=db"},"rules":[{"action":"deny","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}]}`
}

// A key stands for the write that was made under it, whatever admission policies say by now, and
// whether or not the project's quota has room for another.
func TestWhatWasStagedUnderAKeyIsAnsweredAsItWasMade(t *testing.T) {
	p := newPlane(t)
	at := policies + "/" + p.create("web").ID.String() + "/stage"
	first := p.do("POST", at, stageBody("a"), keyed)
	p.want(http.StatusOK, "", first)
	p.admit(t, admissionDraft(t, "closed", "Global", 1, specified(`{"reject": true}`)))
	p.want(http.StatusOK, "", p.do("PUT", "/v1/projects/"+project+"/quota", `{"events_per_day":1,"bytes_per_day":1}`))
	again := p.do("POST", at, stageBody("a"), keyed)
	p.want(http.StatusOK, "", again)
	require.Equal(t, string(first.body), string(again.body))
	p.want(http.StatusUnprocessableEntity, "idempotency_key_reused", p.do("POST", at, stageBody("b"), keyed))
	p.want(http.StatusForbidden, "rejected_by_policy", p.do("POST", at, stageBody("a")))
	p.want(http.StatusForbidden, "rejected_by_policy", p.do("POST", at+"?dry_run", stageBody("a"), keyed))
}

// The answer to who stages names what he staged, though another has taken its place by then:
// he may promote what the answer names.
func TestWhoStagesIsToldOfHisOwnRevision(t *testing.T) {
	p := newPlane(t)
	at := policies + "/" + p.create("web").ID.String()
	stage := func(role string, header ...string) answer {
		a := p.do("POST", at+"/stage", stageBody(role), header...)
		p.want(http.StatusOK, "", a)
		return a
	}
	mine := stage("a", keyed)
	theirs := stage("b")
	require.NotEqual(t, into[resource.Waves](t, mine).RevisionID, into[resource.Waves](t, theirs).RevisionID)
	require.Equal(t, string(mine.body), string(stage("a", keyed).body))
	named := `{"revision_id":"` + into[resource.Waves](t, mine).RevisionID.String() + `"}`
	p.want(http.StatusConflict, "not_staged", p.do("POST", at+"/promote", named))
	p.want(http.StatusOK, "", p.do("POST", at+"/promote", `{}`))
	require.Equal(t, string(mine.body), string(stage("a", keyed).body))
}

// A log that was compacted does not have the event of what was staged any more.
func TestWhoStagedIsAnsweredThoughTheLogIsCompacted(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) {
		d.NextOf = func(context.Context, policy.Event, uint64) (streams.Message, error) {
			return streams.Message{}, streams.ErrNotFound
		}
	})
	at := policies + "/" + p.create("web").ID.String()
	stage := func(role string, header ...string) resource.Waves {
		a := p.do("POST", at+"/stage", stageBody(role), header...)
		p.want(http.StatusOK, "", a)
		return into[resource.Waves](t, a)
	}
	mine := stage("a", keyed)
	stage("b")
	require.Equal(t, mine.RevisionID, stage("a", keyed).RevisionID)
}

// A repeat under the same key has the first answer, whatever was staged and rolled out since:
// of another revision it would say what its client never asked for.
func TestARolloutsWritesAnswerARetryAsBefore(t *testing.T) {
	p := newPlane(t)
	at := policies + "/" + p.create("web").ID.String()
	do := func(path, body string, header ...string) answer {
		a := p.do("POST", at+path, body, header...)
		p.want(http.StatusOK, "", a)
		return a
	}
	under := func(key string) string { return "Idempotency-Key: " + key }
	type write struct{ path, body, key string }
	writes := []write{
		{"/promote", `{"waves":["canary=true","zone=a"]}`, "p1"}, {"/waves", `{"wave":2}`, "w2"}, {"/abort", `{"reason":"too slow"}`, "a1"},
	}
	do("/stage", stageBody("a"))
	var first []answer
	for _, w := range writes {
		first = append(first, do(w.path, w.body, under(w.key)))
	}
	do("/stage", stageBody("b"))
	dropped := do("/abort", `{}`, under("a2"))
	do("/stage", stageBody("c"))
	atOnce := do("/promote", `{}`, under("p2"))
	for range 2 {
		for i, w := range writes {
			require.Equal(t, string(first[i].body), string(do(w.path, w.body, under(w.key)).body), w.path)
		}
		again := into[resource.Waves](t, do("/abort", `{}`, under("a2")))
		require.Equal(t, into[resource.Waves](t, dropped).RevisionID, again.RevisionID)
		require.Equal(t, "aborted", again.Phase)
		require.Equal(t, string(atOnce.body), string(do("/promote", `{}`, under("p2")).body))
		do("/stage", stageBody("d"))
	}
}
