package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/test/gen"
)

const keyed = "Idempotency-Key: deploy-42"

// later are the ways in which a request comes again: within the time in which the
// log knows the ids of events or not, and to the process that wrote or to another.
var later = map[string]func(p *plane){
	"at once":                      func(*plane) {},
	"after the log's window":       func(p *plane) { p.log.Forget() },
	"on another worker":            func(p *plane) { p.Handler = judged(p.t, api.New(p.deps)) },
	"much later on another worker": func(p *plane) { p.log.Forget(); p.Handler = judged(p.t, api.New(p.deps)) },
}

// A key that comes with another body is not answered as if that had been written.
func TestAKeyWithAnotherBodyIsRefused(t *testing.T) {
	gen.Unraced()
	const staged = policies + "/01900000-0000-7000-8000-000000000001"
	admit := func(t *testing.T, name, rego string) string {
		return admissionDraft(t, name, "Global", 7, rego)
	}
	writes := map[string]struct {
		method, path  string
		before        func(p *plane) // what must be there
		first, second func(t *testing.T) string
	}{
		"a policy": {
			"POST", policies, nil,
			func(*testing.T) string { return draft("web") },
			func(*testing.T) string { return draft("db") },
		},
		"a revision": {
			"PATCH", policies + "/01900000-0000-7000-8000-000000000001", func(p *plane) { p.create("web") },
			func(*testing.T) string { return `{"display_name":"One"}` },
			func(*testing.T) string { return `{"display_name":"Two"}` },
		},
		"a node": {
			"PUT", nodes + "/n1", nil,
			func(*testing.T) string { return `{"labels":{"a":"1"}}` },
			func(*testing.T) string { return `{"labels":{"a":"2"}}` },
		},
		"an admission policy": {
			"POST", admissions, nil,
			func(t *testing.T) string { return admit(t, "one", specified("{}")) },
			func(t *testing.T) string { return admit(t, "two", specified("{}")) },
		},
		"a principal": {
			"PUT", "/v1/access/principals/ana", nil,
			func(*testing.T) string { return `{"kind":"person","display_name":"Ana"}` },
			func(*testing.T) string { return `{"kind":"person","display_name":"Eve"}` },
		},
		"a quota": {
			"PUT", "/v1/projects/" + other + "/quota", nil,
			func(*testing.T) string { return `{"policies":5}` },
			func(*testing.T) string { return `{"policies":7}` },
		},
		"an archival": {
			"PATCH", "/v1/projects/" + other, nil,
			func(*testing.T) string { return `{"archived":true}` },
			func(*testing.T) string { return `{"archived":false}` },
		},
		"a staged revision": {
			"POST", staged + "/stage", func(p *plane) { p.create("web") },
			func(*testing.T) string { return stageBody("1") },
			func(*testing.T) string { return stageBody("2") },
		},
		"a promotion": {
			"POST", staged + "/promote", func(p *plane) {
				p.create("web")
				p.want(http.StatusOK, "", p.do("POST", staged+"/stage", stageBody("1")))
			},
			func(*testing.T) string { return `{"waves":["a=1","a=2"]}` },
			func(*testing.T) string { return `{"waves":["a=1"]}` },
		},
		"an abort": {
			"POST", staged + "/abort", func(p *plane) {
				p.create("web")
				p.want(http.StatusOK, "", p.do("POST", staged+"/stage", stageBody("1")))
			},
			func(*testing.T) string { return `{"reason":"one"}` },
			func(*testing.T) string { return `{"reason":"two"}` },
		},
	}
	for name, w := range writes {
		for when, between := range later {
			t.Run(name+", "+when, func(t *testing.T) {
				p := newPlane(t)
				if w.before != nil {
					w.before(p)
				}
				a := p.do(w.method, w.path, w.first(t), keyed)
				require.Less(t, a.StatusCode, 300, "%s", a.body)
				between(p)
				p.want(http.StatusUnprocessableEntity, "idempotency_key_reused", p.do(w.method, w.path, w.second(t), keyed))
				again := p.do(w.method, w.path, " "+w.first(t)+" ", keyed)
				require.Less(t, again.StatusCode, 300, "%s", again.body)
				require.Equal(t, string(a.body), string(again.body), "a retry gets the first answer, whatever spaces it is written with")
			})
		}
	}
}

// Where the log knows the write of a key, it is compared with that write also when others came
// after it: the answer would show what nobody wrote.
func TestAKeyWithAnotherBodyIsRefusedWhateverCameAfter(t *testing.T) {
	const body, another = `{"labels":{"a":"1"}}`, `{"labels":{"a":"2"}}`
	for after, write := range map[string]func(p *plane) answer{
		"it was removed": func(p *plane) answer { return p.do("DELETE", nodes+"/n1", "") },
		"it was changed": func(p *plane) answer { return p.do("PUT", nodes+"/n1", `{"labels":{"a":"3"}}`) },
	} {
		for _, when := range []string{"at once", "on another worker"} {
			p := newPlane(t)
			first := p.do("PUT", nodes+"/n1", body, keyed)
			p.want(http.StatusCreated, "", first)
			require.Less(t, write(p).StatusCode, 300)
			later[when](p)
			p.want(http.StatusUnprocessableEntity, "idempotency_key_reused", p.do("PUT", nodes+"/n1", another, keyed))
			require.Contains(t, string(p.do("PUT", nodes+"/n1", body, keyed).body), `{"a":"1"}`, "%s, %s", after, when)
		}
	}
}

// What was refused, and what changed nothing, may be sent again as it is; with
// another body it is another write, which the key does not stand for.
func TestAKeyOfARefusedWriteStandsForIt(t *testing.T) {
	p := newPlane(t)
	p.want(http.StatusCreated, "", p.do("PUT", "/v1/projects/"+other+"/nodes/n1", `{}`))
	p.put("n2", `{"labels":{"a":"1"}}`)
	p.want(http.StatusConflict, "node_id_taken", p.do("PUT", nodes+"/n1", `{"labels":{"a":"1"}}`, keyed))
	p.want(http.StatusConflict, "node_id_taken", p.do("PUT", nodes+"/n1", `{"labels":{"a":"2"}}`, keyed))
	before := p.log.Len()
	p.want(http.StatusOK, "", p.do("PUT", nodes+"/n2", `{"labels":{"a":"1"}}`, keyed))
	require.Equal(t, before, p.log.Len(), "nothing was written under the key")
	p.want(http.StatusOK, "", p.do("PUT", nodes+"/n2", `{"labels":{"a":"2"}}`, keyed))
}

// What the fold refused is judged anew when it is sent again, by what it meets then.
func TestAKeyOfAWriteThatTheFoldRefusedRefusesNothing(t *testing.T) {
	for when, between := range later {
		t.Run(when, func(t *testing.T) {
			p := newPlane(t)
			one := policies + "/" + p.create("one").ID.String()
			preview := `{"selector":{"source":"role=web","destination":"role=db"},"rules":` + webRules + `}`
			p.want(http.StatusConflict, "not_staged", p.do("POST", one+"/promote", `{}`, keyed))
			p.want(http.StatusOK, "", p.do("POST", one+"/stage", preview))
			between(p)
			p.want(http.StatusOK, "", p.do("POST", one+"/promote", `{}`, keyed))
			p.want(http.StatusOK, "", p.do("POST", one+"/promote", `{}`, keyed))
		})
	}
	between := func(t *testing.T, first func(a *plane)) (a, b *plane) {
		a = newPlane(t)
		b, log := lateWorker(t, a)
		log.before = func() {
			log.before = nil
			first(a)
		}
		return a, b
	}
	t.Run("a name that was taken", func(t *testing.T) {
		var other resource.Policy
		a, b := between(t, func(a *plane) { other = a.create("web") })
		b.want(http.StatusConflict, "policy_slug_taken", b.do("POST", policies, draft("web"), keyed))
		b.want(http.StatusConflict, "policy_slug_taken", b.do("POST", policies, draft("web"), keyed))
		a.want(http.StatusNoContent, "", a.do("DELETE", policies+"/"+other.ID.String(), ""))
		b.want(http.StatusCreated, "", b.do("POST", policies, draft("web"), keyed))
	})
	t.Run("another body", func(t *testing.T) {
		_, b := between(t, func(a *plane) { a.create("web") })
		b.want(http.StatusConflict, "policy_slug_taken", b.do("POST", policies, draft("web"), keyed))
		made := b.do("POST", policies, draft("db"), keyed)
		b.want(http.StatusCreated, "", made)
		require.Equal(t, "db", into[resource.Policy](t, made).Slug)
	})
	t.Run("a node for which there was no room", func(t *testing.T) {
		a, b := between(t, func(a *plane) { a.put("n1", `{}`) })
		a.want(http.StatusOK, "", a.do("PUT", "/v1/projects/"+project+"/quota", `{"nodes":1}`))
		b.want(http.StatusTooManyRequests, "quota_exceeded", b.do("PUT", nodes+"/n2", `{}`, keyed))
		a.want(http.StatusNoContent, "", a.do("DELETE", nodes+"/n1", ""))
		b.want(http.StatusCreated, "", b.do("PUT", nodes+"/n2", `{}`, keyed))
		b.want(http.StatusCreated, "", b.do("PUT", nodes+"/n2", `{}`, keyed))
	})
	t.Run("a project that was in use", func(t *testing.T) {
		p := newPlane(t)
		at := "/v1/projects/" + project
		p.put("n1", `{}`)
		p.want(http.StatusConflict, "project_in_use", p.do("PATCH", at, `{"archived":true}`, keyed))
		p.want(http.StatusNoContent, "", p.do("DELETE", nodes+"/n1", ""))
		p.want(http.StatusOK, "", p.do("PATCH", at, `{"archived":true}`, keyed))
	})
}

func TestALineUnderAKeyOfAnotherLineIsRejected(t *testing.T) {
	for when, between := range later {
		t.Run(when, func(t *testing.T) {
			p := newPlane(t)
			send := func(lines string) resource.BatchResult {
				a := p.do("POST", nodes+":batch", lines, keyed, "Content-Type: application/x-ndjson")
				p.want(http.StatusOK, "", a)
				return into[resource.BatchResult](t, a)
			}
			require.Equal(t, 2, send(`{"id":"n1","labels":{"a":"1"}}`+"\n"+`{"id":"n2"}`).Applied)
			between(p)
			got := send(`{"id":"n1","labels":{"a":"2"}}` + "\n" + `{"id":"n2"}`)
			require.Equal(t, 1, got.Unchanged)
			require.Len(t, got.Rejected, 1)
			require.Equal(t, "idempotency_key_reused", got.Rejected[0].Code)
			require.Equal(t, map[string]string{"a": "1"}, into[resource.Node](t, p.do("GET", nodes+"/n1", "")).Labels)
		})
	}
}

// A change that was made under the key before another one is known as that change.
func TestAKeyOfAnOlderChangeOfAnAdmissionPolicy(t *testing.T) {
	for when, between := range later {
		t.Run(when, func(t *testing.T) {
			p := newPlane(t)
			created := p.do("POST", admissions, `{"name":"n","policy_type":"Global","priority":7,"rego_code":"package x\n"}`)
			path := created.Header.Get("Location")
			body := func(priority string) string { return `{"priority":` + priority + `,"rego_code":"package x\n"}` }
			p.want(http.StatusOK, "", p.do("PUT", path, body("8"), keyed))
			p.want(http.StatusOK, "", p.do("PUT", path, body("9")))
			between(p)
			p.want(http.StatusUnprocessableEntity, "idempotency_key_reused", p.do("PUT", path, body("10"), keyed))
			p.want(http.StatusOK, "", p.do("PUT", path, body("8"), keyed))
			require.Equal(t, 9, into[resource.AdmissionPolicy](t, p.do("GET", path, "")).Priority)
		})
	}
}

// One key for two operations, or for two things, is two writes.
func TestAKeyIsOfOneOperationOnOneThing(t *testing.T) {
	p := newPlane(t)
	p.want(http.StatusCreated, "", p.do("PUT", nodes+"/n1", `{"labels":{"a":"1"}}`, keyed))
	p.want(http.StatusCreated, "", p.do("PUT", nodes+"/n2", `{"labels":{"a":"2"}}`, keyed))
	p.want(http.StatusNoContent, "", p.do("DELETE", nodes+"/n1", "", keyed))
	p.want(http.StatusCreated, "", p.do("POST", policies, draft("web"), keyed))
	require.Equal(t, 4, p.log.Len())
}

// An event that says nothing of its request, of a release before, stands for
// whatever comes with its key.
func TestAKeyOfAReleaseBeforeIsTaken(t *testing.T) {
	p := newPlane(t)
	p.want(http.StatusCreated, "", p.do("POST", policies, draft("web"), keyed))
	delete(p.log.msgs[0].Header, "Edict-Request")
	a := p.do("POST", policies, draft("db"), keyed)
	p.want(http.StatusCreated, "", a)
	require.Equal(t, "web", into[resource.Policy](t, a).Slug)
}

// TestARetryOfAnAdmissionPolicyIsAnsweredAsTheFirstTry sends a write again after others
// changed the policy, and gave what it had to another one.
func TestARetryOfAnAdmissionPolicyIsAnsweredAsTheFirstTry(t *testing.T) {
	merge := "Content-Type: application/merge-patch+json"
	for _, c := range []struct {
		name, method, path, media string
		draft                     func(t *testing.T) string
	}{
		{"a replacement", "PUT", admissions + "/one", "", func(t *testing.T) string { return body(t, "priority", 8, "rego_code", specified(`{}`)) }},
		{"a change on the older surface", "PATCH", alphas + "/one", merge, func(*testing.T) string { return `{"priority":8}` }},
		{"a creation on the older surface", "POST", alphas + "?id=two", "", func(*testing.T) string {
			return `{"display_name":"two","policy_type":"GLOBAL","priority":8,"rego_code":"package x\n"}`
		}},
		{"a creation", "POST", admissions, "", func(t *testing.T) string { return admissionDraft(t, "two", "Global", 8, specified("{}")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newPlane(t)
			a.want(http.StatusCreated, "", a.do("POST", alphas+"?id=one", `{"display_name":"one","policy_type":"GLOBAL","priority":7,"rego_code":"package x\n"}`))
			headers := []string{keyed}
			if c.media != "" {
				headers = append(headers, c.media)
			}
			first := a.do(c.method, c.path, c.draft(t), headers...)
			require.Contains(t, []int{http.StatusOK, http.StatusCreated}, first.StatusCode, "%s", first.body)
			var list struct{ Policies []struct{ ID, Priority any } }
			a.do("GET", alphas, "").decode(t, &list)
			changed := list.Policies[len(list.Policies)-1].ID.(string)
			a.want(http.StatusOK, "", a.do("PATCH", alphas+"/"+changed, `{"priority":9,"display_name":"three"}`, merge))
			a.want(http.StatusCreated, "", a.do("POST", alphas+"?id=four", `{"display_name":"two","policy_type":"GLOBAL","priority":8,"rego_code":"package x\n"}`))
			elsewhere, _ := lateWorker(t, a)
			for _, w := range []*plane{a, elsewhere} {
				again := w.do(c.method, c.path, c.draft(t), headers...)
				require.Equal(t, first.StatusCode, again.StatusCode, "%s", again.body)
				require.Equal(t, string(first.body), string(again.body))
				require.Equal(t, first.Header.Get("ETag"), again.Header.Get("ETag"))
				other := strings.Replace(c.draft(t), "8", "18", 1)
				refused := w.do(c.method, c.path, other, headers...)
				require.Contains(t, string(refused.body), "this Idempotency-Key was used for a write with another body")
			}
			require.Contains(t, string(a.do("GET", alphas+"/"+changed, "").body), `"priority":9`)
		})
	}
}

// Clients of the older surface know refusals in its own form.
func TestAKeyWithAnotherBodyIsRefusedOnTheOlderSurface(t *testing.T) {
	for when, between := range later {
		t.Run(when, func(t *testing.T) {
			p := newPlane(t)
			create := func(name string) answer {
				return p.do("POST", alphas+"?id=one", `{"display_name":"`+name+`","policy_type":"GLOBAL","priority":7,"rego_code":"package x\n"}`, keyed)
			}
			change := func(priority string) answer {
				return p.do("PATCH", alphas+"/one", `{"priority":`+priority+`}`, keyed, "Content-Type: application/merge-patch+json")
			}
			refuses := func(a answer) {
				require.Equal(t, http.StatusBadRequest, a.StatusCode, "%s", a.body)
				require.Contains(t, string(a.body), "this Idempotency-Key was used for a write with another body")
			}
			p.want(http.StatusCreated, "", create("one"))
			between(p)
			refuses(create("two"))
			p.want(http.StatusOK, "", change("8"))
			between(p)
			refuses(change("9"))
			require.Contains(t, string(p.do("GET", alphas+"/one", "").body), `"priority":8`)
		})
	}
}

func TestAReleaseUnderAKeyOfAnotherIsRejected(t *testing.T) {
	gen.Unraced()
	for when, between := range later {
		t.Run(when, func(t *testing.T) {
			p := newPlane(t)
			p.put("alpha", `{}`)
			send := func(version uint64) resource.BatchResult {
				a := p.do("POST", artifacts+":release", releaseLine(t, "alpha", tree(version, false)["alpha"], "primary"), keyed, "Content-Type: application/x-ndjson")
				p.want(http.StatusOK, "", a)
				return into[resource.BatchResult](t, a)
			}
			require.Equal(t, 1, send(1).Applied)
			between(p)
			got := send(2)
			require.Len(t, got.Rejected, 1)
			require.Equal(t, "idempotency_key_reused", got.Rejected[0].Code)
			require.Equal(t, 1, send(1).Unchanged, "what was released under the key")
		})
	}
}
