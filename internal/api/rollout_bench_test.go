package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
)

// BenchmarkRollout asks how far a policy of a fleet has come, plain and ordered: 310,000
// nodes of 72 label sets, a tenth of which lag.
func BenchmarkRollout(b *testing.B) {
	const fleet, sets = 310_000, 72
	p := newPlane(b)
	p.Handler = api.New(p.deps) // not judged: it would be most of the time
	for at := 0; at < fleet; at += 10_000 {
		var lines strings.Builder
		for i := range 10_000 {
			n := at + i
			fmt.Fprintf(&lines, `{"id":"n%d","labels":{"role":"web","set":"s%d"},"addresses":["10.%d.%d.%d"]}`+"\n", n, n%sets, n>>16, n>>8&255, n&255)
		}
		p.want(http.StatusOK, "", p.do("POST", nodes+":batch", lines.String(), "Content-Type: application/x-ndjson"))
	}
	for _, order := range []string{"", `,"tier":"admin"`} {
		slug := "plain"
		if order != "" {
			slug = "ordered"
		}
		body := `{"slug":"` + slug + `","selector":{"source":"role=web","destination":"role=web"}` + order +
			`,"rules":[{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","ports":{"from":443,"to":443}}]}`
		made := into[resource.Policy](b, p.do("POST", policies, body))
		b.Run(slug, func(b *testing.B) {
			for b.Loop() {
				a := p.do("GET", policies+"/"+made.ID.String()+"/rollout", "")
				require.Equal(b, http.StatusOK, a.StatusCode)
			}
		})
	}
}
