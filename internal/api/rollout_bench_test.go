package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
)

// BenchmarkRollout asks how far a policy of a fleet has come, plain and ordered: 310,000
// nodes of 72 label sets, of which none has reported, and then all but a tenth, that they
// enforce the table.
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
	made := map[string]string{}
	for slug, order := range map[string]string{"plain": "", "ordered": `,"tier":"admin"`} {
		body := `{"slug":"` + slug + `","selector":{"source":"role=web","destination":"role=web"}` + order +
			`,"rules":[{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","ports":{"from":443,"to":443}}]}`
		made[slug] = into[resource.Policy](b, p.do("POST", policies, body)).ID.String()
	}
	ask := func(reported int) {
		for _, slug := range []string{"plain", "ordered"} {
			b.Run(fmt.Sprintf("%s/reported=%d", slug, reported), func(b *testing.B) {
				for b.Loop() {
					a := p.do("GET", policies+"/"+made[slug]+"/rollout", "")
					require.Equal(b, http.StatusOK, a.StatusCode)
					require.Equal(b, reported, into[resource.Rollout](b, a).Applied)
				}
			})
		}
	}
	ask(0)
	var said string
	p.fold.Read(func(v *projector.View) {
		n, _ := v.NodeSummary("n0")
		rows, _, _, err := v.Merged(n.Identity)
		require.NoError(b, err)
		said = fmt.Sprintf(`{"version":%d,"fingerprint":%q,"table_version":%d}`, v.Seq(), base64.StdEncoding.EncodeToString(rows[:]), v.Seq())
	})
	for n := range fleet / 10 * 9 {
		p.want(http.StatusAccepted, "", p.do("POST", fmt.Sprintf("/v1/nodes/n%d/applied", n), said))
	}
	ask(fleet / 10 * 9)
}
