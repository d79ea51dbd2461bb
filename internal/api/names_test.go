package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestANameThatLooksLikeAnotherIsRefused(t *testing.T) {
	p := newPlane(t)
	path := policies + "/" + p.create("web").ID.String()
	before := p.log.Len()
	for _, name := range []string{"a\u202etxt", "pay\u200broll", "pay\u200droll", "\ufeffWeb", "soft\u00adhyphen", "line\u2028two", "\u2066x\u2069", "tag\U000e0041", "fill\u3164er"} {
		doc := `"display_name":"` + name + `"`
		for method, at := range map[string]string{"POST": policies, "PATCH": path} {
			body := "{" + doc + "}"
			if method == "POST" {
				body = `{"slug":"db",` + doc + `,"selector":{"source":"a","destination":"b"},"rules":` + webRules + `}`
			}
			a := p.do(method, at, body)
			p.want(http.StatusUnprocessableEntity, "invalid_display_name", a)
			require.Equal(t, "/display_name", a.problem(t).Errors[0].Pointer, "%q", name)
		}
		a := p.do("PUT", "/v1/access/principals/ana", `{"kind":"person",`+doc+`}`)
		p.want(http.StatusUnprocessableEntity, "invalid_display_name", a)
		a = p.do("POST", admissions, `{"name":"`+name+`","policy_type":"Global","priority":7,"rego_code":"package x\n"}`)
		p.want(http.StatusUnprocessableEntity, "invalid_display_name", a)
		require.Equal(t, "/name", a.problem(t).Errors[0].Pointer)
	}
	require.Equal(t, before, p.log.Len())
	for _, name := range []string{"Größe", "防火墙", "سياسة", "rule ❤️", "a\u0301"} {
		p.want(http.StatusOK, "", p.do("PATCH", path, `{"display_name":"`+name+`"}`))
	}
}
