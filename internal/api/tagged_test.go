package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A list that its client has is not sent again, and one that changed is.
func TestAListThatIsThereAlreadyIs304(t *testing.T) {
	p := newPlane(t)
	p.do("PUT", "/v1/projects/"+project+"/nodes/n1", `{"labels":{"role":"web"}}`)
	made := p.do("POST", "/v1/projects/"+project+"/policies", draft("web"))
	lists := []string{
		"/v1/projects/" + project + "/nodes", "/v1/projects/" + project + "/nodes?report=true", "/v1/nodes?state=silent", "/v1/projects/" + project + "/policies",
		made.Header.Get("Location") + "/revisions", "/v1/nodes/n1/rulesets", "/v1/nodes/n1/policies",
		made.Header.Get("Location") + "/rollout",
		"/v1/nodes:summary?by=role", "/v1/projects/" + project + "/nodes:summary", "/v1/nodes:summary?at=1",
		"/v1/nodes/n1/explain?direction=ingress&protocol=tcp&port=443&peer=10.0.0.1",
	}
	tags := map[string]string{}
	for _, path := range lists {
		a := p.do("GET", path, "")
		p.want(http.StatusOK, "", a)
		tags[path] = a.Header.Get("ETag")
		require.NotEmpty(t, tags[path], path)
		again := p.do("GET", path, "", "If-None-Match: "+tags[path])
		p.want(http.StatusNotModified, "", again)
		require.Equal(t, tags[path], again.Header.Get("ETag"))
		require.Equal(t, []string{"Accept-Encoding"}, again.Header.Values("Vary"), path)
		require.Empty(t, again.body)
	}
	p.do("PUT", "/v1/projects/"+project+"/nodes/n2", `{"labels":{"role":"web"}}`)
	changed := p.do("GET", lists[0], "", "If-None-Match: "+tags[lists[0]])
	p.want(http.StatusOK, "", changed)
	require.NotEqual(t, tags[lists[0]], changed.Header.Get("ETag"))
	p.want(http.StatusNotModified, "", p.do("GET", lists[3], "", "If-None-Match: "+tags[lists[3]]))
}
