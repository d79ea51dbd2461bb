package api_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
)

// early routes answer though nothing is folded: they say so, or speak of
// something else than the read model.
var early = []string{
	"listDecisions", "followDecisions", "getDocument", "livez", "readyz", "metrics", "getStatus", "alphaHealth", "listKeys", "listAudit", "listSnapshots", "getSelf",
	"getProfile", "createSessionLink", "openSession", "closeSession", "getSignIn", "beginSignIn", "endSignIn",
}

// TestNothingIsAnsweredFromASmallerWorldThanAtTheStart: not the empty list that
// a worker has which folded nothing, and no 404.
func TestNothingIsAnsweredFromASmallerWorldThanAtTheStart(t *testing.T) {
	var damage error
	p := newPlane(t, impatient, func(d *api.Deps) {
		d.Held = 1
		d.Damaged = func() error { return damage }
	})
	ask := func(code string) {
		for _, r := range api.Routes() {
			if slices.Contains(early, r.ID) {
				continue
			}
			target := strings.NewReplacer("{project}", project, "{node}", "n1", "{policy}", project, "{revision}", project, "{", "", "}", "").Replace(r.Pattern)
			a := p.do(r.Method, target, "")
			require.Equal(t, 503, a.StatusCode, "%s: %s", r.ID, a.body)
			if !strings.Contains(r.Pattern, "v1alpha1") {
				p.want(503, code, a)
			}
			require.NotEmpty(t, a.Header.Get("Retry-After"), r.ID)
		}
	}
	ask("projection_behind")
	damage = errors.New("an event is not the one that was witnessed")
	ask("log_unavailable")
	damage = nil
	p.log.store("edict.log.access.x", []byte("{}"))
	p.want(200, "", p.do("GET", "/v1/projects/"+project+"/nodes", ""))
}
