package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

const accessPath = "/v1/access/principals"

// conditional is something that can be changed under a condition.
type conditional struct {
	path, method, change string
	missing              int    // status without a condition where there is nothing
	code                 string // likewise; "": it is made
}

// conditionals makes one of each kind.
func (p *plane) conditionals() map[string]conditional {
	pol := policies + "/" + p.create("web").ID.String()
	p.put("n1", `{"labels":{"a":"1"}}`)
	p.principal("ana")
	admission := admissions + "/" + p.admit(p.t, admissionDraft(p.t, "a", "Global", 1, specified(`{}`)))
	return map[string]conditional{
		"a principal is stated":           {accessPath + "/ana", "PUT", `{"kind":"service","display_name":"New"}`, 412, "precondition_failed"},
		"an admission policy is replaced": {admission, "PUT", body(p.t, "priority", 2, "rego_code", specified(`{}`)), 404, "policy_not_found"},
		"an admission policy is deleted":  {admission, "DELETE", "", 404, "policy_not_found"},
		"a policy is revised":             {pol, "PATCH", `{"display_name":"New"}`, 404, "policy_not_found"},
		"a policy is deleted":             {pol, "DELETE", "", 404, "policy_not_found"},
		"a node is stated":                {nodes + "/n1", "PUT", `{"labels":{"a":"2"}}`, 412, "precondition_failed"},
		"a node is removed":               {nodes + "/n1", "DELETE", "", 404, "node_not_found"},
		"a principal is removed":          {accessPath + "/ana", "DELETE", "", 404, "principal_not_found"},
	}
}

func TestAConditionNamesThePresentState(t *testing.T) {
	gen.Unraced()
	for name := range newPlane(t).conditionals() {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			of := p.conditionals()[name]
			for _, c := range []struct {
				match  string // of the present state's ETag
				status int
				code   string
			}{
				{`"other"`, 412, "precondition_failed"},
				{`"-1"`, 412, "precondition_failed"},
				{`"0"`, 412, "precondition_failed"},
				{`"71", "72"`, 412, "precondition_failed"},
				{"W/TAG", 412, "precondition_failed"},
				{"1", 400, "bad_header"},
				{`"`, 400, "bad_header"},
				{"", 400, "bad_header"},
				{",", 400, "bad_header"},
				{`*, TAG`, 400, "bad_header"},
				{"TAG", 0, ""},
				{`"other", TAG`, 0, ""},
				{"*", 0, ""},
			} {
				tag := p.do("GET", of.path, "").Header.Get("ETag")
				require.NotEmpty(t, tag)
				before := p.log.Len()
				a := p.do(of.method, of.path, of.change, "If-Match: "+strings.ReplaceAll(c.match, "TAG", tag))
				if c.status > 0 {
					p.want(c.status, c.code, a)
					require.Equal(t, before, p.log.Len(), "%s: nothing is written", c.match)
					require.Equal(t, tag, p.do("GET", of.path, "").Header.Get("ETag"))
					continue
				}
				require.Less(t, a.StatusCode, 300, "%s: %s", c.match, a.body)
				require.Equal(t, before+1, p.log.Len())
				if of.method != "DELETE" {
					require.NotEqual(t, tag, a.Header.Get("ETag"))
					require.Equal(t, p.do("GET", of.path, "").Header.Get("ETag"), a.Header.Get("ETag"))
				}
				p = newPlane(t) // the next one asks for what this one changed
				of = p.conditionals()[name]
			}
		})
	}
}

func TestAConditionOnNothingIsThatThereIsNothing(t *testing.T) {
	p := newPlane(t)
	for name, of := range p.conditionals() {
		t.Run(name, func(t *testing.T) {
			path := map[string]string{
				"a policy is revised": policies + "/" + nowhere, "a policy is deleted": policies + "/" + nowhere, "a principal is removed": accessPath + "/nobody", "a principal is stated": accessPath + "/nobody",
				"an admission policy is replaced": admissions + "/nobody", "an admission policy is deleted": admissions + "/nobody",
			}[name]
			if path == "" {
				path = nodes + "/n9"
			}
			for _, match := range []string{"*", `"7"`} {
				p.want(of.missing, of.code, p.do(of.method, path, of.change, "If-Match: "+match))
				p.want(of.missing, of.code, p.do(of.method, path, of.change, "If-Match: "+match, "Idempotency-Key: k"+match))
			}
		})
	}
	p.want(409, "node_id_taken", p.do("PUT", "/v1/projects/"+other+"/nodes/n1", `{}`, "If-Match: *"))
}

// TestAConditionHoldsWhereTheEventStands has somebody else write between the check
// and the append, at a worker that has not folded it.
func TestAConditionHoldsWhereTheEventStands(t *testing.T) {
	gen.Unraced()
	between := map[string]func(a *plane, path string){
		"a policy is revised":    func(a *plane, path string) { a.do("PATCH", path, `{"display_name":"Between"}`) },
		"a policy is deleted":    func(a *plane, path string) { a.do("PATCH", path, `{"display_name":"Between"}`) },
		"a node is stated":       func(a *plane, path string) { a.do("PUT", path, `{"labels":{"a":"between"}}`) },
		"a node is removed":      func(a *plane, path string) { a.do("PUT", path, `{"labels":{"a":"between"}}`) },
		"a principal is removed": func(a *plane, path string) { a.do("PUT", path, `{"kind":"service","display_name":"Between"}`) },
		"a principal is stated":  func(a *plane, path string) { a.do("PUT", path, `{"kind":"service","display_name":"Between"}`) },
		"an admission policy is replaced": func(a *plane, path string) {
			a.do("PUT", path, body(t, "description", "Between", "rego_code", specified(`{}`)))
		},
		"an admission policy is deleted": func(a *plane, path string) {
			a.do("PUT", path, body(t, "description", "Between", "rego_code", specified(`{}`)))
		},
	}
	for name, write := range between {
		t.Run(name, func(t *testing.T) {
			a := newPlane(t)
			of := a.conditionals()[name]
			b, log := lateWorker(t, a)
			tag := b.do("GET", of.path, "").Header.Get("ETag")
			require.NotEmpty(t, tag)
			log.before = func() {
				log.before = nil
				write(a, of.path)
			}
			b.want(412, "precondition_failed", b.do(of.method, of.path, of.change, "If-Match: "+tag))
			now := a.do("GET", of.path, "")
			require.Contains(t, string(now.body), "etween", "what came between stands")
			require.NotEqual(t, tag, now.Header.Get("ETag"))
		})
	}
}

// TestAConditionIsTriedAgainBehindWhatChangesNothing: an event of another's about the
// same thing, which the fold refuses, is no change.
func TestAConditionIsTriedAgainBehindWhatChangesNothing(t *testing.T) {
	a := newPlane(t)
	node := a.conditionals()["a node is removed"]
	b, log := lateWorker(t, a)
	tag := b.do("GET", node.path, "").Header.Get("ETag")
	log.before = func() {
		log.before = nil
		a.log.Junk("edict.log."+project+".node.n1", "{}")
	}
	b.want(http.StatusNoContent, "", b.do(node.method, node.path, "", "If-Match: "+tag))
	b.want(http.StatusNotFound, "node_not_found", a.do("GET", node.path, ""))
}

// TestAConditionalWriteIsMadeOnce: under a key, the condition is that of the first try.
func TestAConditionalWriteIsMadeOnce(t *testing.T) {
	for _, name := range []string{"a policy is revised", "a node is stated", "a principal is stated", "an admission policy is replaced"} {
		t.Run(name, func(t *testing.T) {
			a := newPlane(t)
			of := a.conditionals()[name]
			headers := []string{"Idempotency-Key: k", "If-Match: " + a.do("GET", of.path, "").Header.Get("ETag")}
			first := a.do(of.method, of.path, of.change, headers...)
			a.want(http.StatusOK, "", first)
			elsewhere, _ := lateWorker(t, a)
			for _, w := range []*plane{a, elsewhere} {
				again := w.do(of.method, of.path, of.change, headers...)
				w.want(http.StatusOK, "", again)
				require.Equal(t, string(first.body), string(again.body))
				require.Equal(t, first.Header.Get("ETag"), again.Header.Get("ETag"))
			}
			elsewhere, _ = lateWorker(t, a)
			for _, w := range []*plane{a, elsewhere} {
				other := map[string]string{
					"a policy is revised": `{"display_name":"Other"}`, "a node is stated": `{"labels":{"a":"other"}}`, "a principal is stated": `{"kind":"service","display_name":"Other"}`,
					"an admission policy is replaced": body(t, "priority", 3, "rego_code", specified(`{}`)),
				}[name]
				w.want(422, "idempotency_key_reused", w.do(of.method, of.path, other, headers...))
			}
		})
	}
}

func TestAConditionThatOthersOutrunEachTimeIsToBeTriedAgain(t *testing.T) {
	a := newPlane(t)
	node := a.conditionals()["a node is removed"]
	b, log := lateWorker(t, a, impatient)
	tag := b.do("GET", node.path, "").Header.Get("ETag")
	tries := 0
	log.before = func() {
		tries++
		a.log.Junk("edict.log."+project+".node.n1", "{}")
	}
	b.want(503, "contended", b.do(node.method, node.path, "", "If-Match: "+tag))
	a.want(200, "", a.do("GET", node.path, ""))
	require.Positive(t, tries)
}

// A condition that a route does not look at must not count as none.
func TestAWriteUnderAConditionThatNobodyLooksAtIsRefused(t *testing.T) {
	p := newPlane(t)
	pol := policies + "/" + p.create("web").ID.String()
	p.put("n1", `{"labels":{"a":"1"}}`)
	p.principal("ana")
	written := p.log.Len()
	for _, x := range [][4]string{
		{"PUT", nodes + "/n1", `{"labels":{"a":"2"}}`, "If-None-Match: *"},
		{"DELETE", nodes + "/n1", "", `If-None-Match: "7"`},
		{"PATCH", pol, `{"display_name":"New"}`, "If-None-Match: *"},
		{"POST", policies, draft("db"), "If-None-Match: *"},
		{"POST", pol + "/stage", `{"selector":{"source":"a","destination":"b"},"rules":` + webRules + `}`, `If-Match: "7"`},
		{"POST", pol + "/stage", `{"selector":{"source":"a","destination":"b"},"rules":` + webRules + `}`, "If-Match: "},
		{"PUT", "/v1/projects/" + project + "/quota", `{"nodes":7}`, `If-Match: "7"`},
		{"POST", accessPath + "/ana/relations", `{"relation":"plane#read"}`, `If-Match: "7"`},
		{"PUT", accessPath + "/ben", `{"kind":"service"}`, `If-None-Match: "7"`},
	} {
		p.want(http.StatusBadRequest, "bad_header", p.do(x[0], x[1], x[2], x[3]))
	}
	require.Equal(t, written, p.log.Len())
	p.want(http.StatusPreconditionFailed, "precondition_failed", p.do("PUT", accessPath+"/ana", `{"kind":"service"}`, "If-None-Match: *"))
}

// Who has relations alone has an ETag, by which the first statement may name that state.
func TestAPrincipalOfRelationsAloneIsStatedByItsETag(t *testing.T) {
	for name, before := range map[string]func(p *plane){
		"never stated": func(*plane) {},
		"removed": func(p *plane) {
			p.principal("ana")
			p.want(http.StatusNoContent, "", p.do("DELETE", accessPath+"/ana", ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			before(p)
			given := p.do("POST", accessPath+"/ana/relations", `{"relation":"plane#read"}`)
			p.want(http.StatusOK, "", given)
			tag := "If-Match: " + given.Header.Get("ETag")
			p.want(http.StatusPreconditionFailed, "precondition_failed", p.do("PUT", accessPath+"/ana", `{"kind":"service"}`, `If-Match: "77"`))
			p.want(http.StatusOK, "", p.do("PUT", accessPath+"/ana", `{"kind":"service"}`, tag, keyed))
			p.want(http.StatusOK, "", p.do("PUT", accessPath+"/ana", `{"kind":"service"}`, tag, keyed))
			p.want(http.StatusPreconditionFailed, "precondition_failed", p.do("PUT", accessPath+"/ana", `{"kind":"person"}`, tag))
		})
	}
}
