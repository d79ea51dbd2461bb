package api_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/test/contract"
)

// The type of a problem is a page of the plane that answered, to whoever asks.
func TestTheTypeOfAProblemIsAPage(t *testing.T) {
	p := newPlane(t)
	found := p.do("GET", policies+"/"+nowhere, "").problem(t)
	pages := api.New(p.deps) // pages are not operations, which the contract judges
	page := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	w := page(found.Type)
	require.Equal(t, 200, w.Code)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Contains(t, w.Body.String(), "policy_not_found (404)")
	require.Contains(t, w.Body.String(), "the project has no such policy")
	all := page("/errors/").Body.String()
	for _, c := range api.ErrorCodes() {
		require.Equal(t, 200, page("/errors/"+c.Code).Code, c.Code)
		require.Contains(t, all, "<dt id=\""+c.Code+"\">")
	}
	require.Equal(t, 404, page("/errors/no_such_code").Code)
}

// A judge that takes any code, or any status, would prove nothing.
func TestTheJudgeRefusesCodesAndStatusesThatAreNotDescribed(t *testing.T) {
	c := described(t)
	for name, x := range map[string]struct {
		status int
		code   string
		good   bool
	}{
		"a code of the operation":         {404, "policy_not_found", true},
		"a common code":                   {401, "unauthenticated", true},
		"a code of another operation":     {404, "release_not_found", false},
		"a common code of another status": {404, "unauthenticated", false},
		"a status of another operation":   {409, "node_id_taken", false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, x.good, judge(c, x.status, x.code) == nil, "%v", judge(c, x.status, x.code))
		})
	}
}

func judge(c *contract.Contract, status int, code string) error {
	body := `{"type":"/errors/` + code + `","title":"x","status":` + strconv.Itoa(status) + `,"code":"` + code + `","detail":"x","instance":"/","correlation_id":"c"}`
	res := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/problem+json"}, "X-Correlation-Id": {"c"}}}
	return c.Check(httptest.NewRequest(http.MethodGet, policies+"/"+nowhere, nil), nil, res, []byte(body))
}
