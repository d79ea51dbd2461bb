package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
)

// What can be read in two ways, or says nothing, is refused: a decision or a selector that
// somebody did not mean would stand.
func TestExistingClientsMustBeClear(t *testing.T) {
	p := newPlane(t)
	require.Equal(t, 201, p.do("POST", alphas+"?id=one", alphaDraft(t, "one", 1, "package a", "label_selector", map[string]string{"env": "prod", "tier": "web"})).StatusCode)
	send := func(method, path, body string) answer {
		return serve(t, api.New(p.deps), method, path, body) // outside of what is described
	}
	for name, body := range map[string]string{
		"another document behind it":  `{"service_instance":{"spec":{"service_type":"vm"}}}}]garbage`,
		"an end of nothing":           `{"service_instance":{"spec":{"service_type":"vm"}}}]`,
		"an instance in two cases":    `{"service_instance":{"spec":{"service_type":"vm"}},"Service_Instance":{"spec":{"service_type":"db"}}}`,
		"a payload in two cases":      `{"service_instance":{"spec":{"service_type":"vm"},"SPEC":{"service_type":"db"}}}`,
		"a payload with a long s":     `{"service_instance":{"spec":{"service_type":"vm"},"ſpec":{"service_type":"db"}}}`,
		"a list":                      `[]`,
		"null":                        `null`,
		"nothing":                     ` `,
		"a payload and null for none": `{"service_instance":null}`,
	} {
		f := send("POST", alphaEval, body).fault(t, 400, "about:blank")
		require.NotContains(t, f.Detail, "resource.", "%s: %s", name, f.Detail)
	}
	for name, body := range map[string]string{
		"null for a label":     `{"label_selector":{"env":null}}`,
		"null in another case": `{"Label_Selector":{"env":null}}`,
		"labels twice":         `{"label_selector":{"env":"prod"},"label_ſelector":{}}`,
		"null":                 `null`,
		"a list":               `[]`,
		"labels in a list":     `{"label_selector":["env"]}`,
	} {
		f := send("PATCH", alphas+"/one", body).fault(t, 400, "INVALID_ARGUMENT")
		for _, ours := range []string{"dcm.", "map["} {
			require.NotContains(t, f.Detail, ours, "%s: %s", name, f.Detail)
		}
	}
	var now resource.AlphaPolicy
	p.do("GET", alphas+"/one", "").decode(t, &now)
	require.Equal(t, map[string]string{"env": "prod", "tier": "web"}, now.LabelSelector)
	f := send("PATCH", alphas+"/one", `{"label_selector":{"env":null}}`).fault(t, 400, "INVALID_ARGUMENT")
	require.Contains(t, f.Detail, "label_selector.env")
	send("PATCH", alphas+"/one", `{"DESCRIPTION":"d"}`)
	var cleared resource.AlphaPolicy
	send("PATCH", alphas+"/one", `{"Description":null,"Label_Selector":null}`).decode(t, &cleared)
	require.Equal(t, []any{"", 0}, []any{cleared.Description, len(cleared.LabelSelector)}, "names in any case are taken")
}

// The surface has no policies of tenants, with an Idempotency-Key neither.
func TestExistingClientsDeleteWhatTheySee(t *testing.T) {
	p := newPlane(t)
	id := p.admit(t, admissionDraft(t, "t", "Tenant", 1, "package a"))
	for _, key := range []string{"", "once"} {
		p.do("DELETE", alphas+"/"+id, "", "Idempotency-Key: "+key).fault(t, 404, "NOT_FOUND")
		require.Equal(t, 200, p.do("GET", "/api/v1/policies/"+id, "").StatusCode)
	}
}
