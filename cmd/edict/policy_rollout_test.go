package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func TestARolloutNamesTheNodesThatRefuseAndWhy(t *testing.T) {
	since := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	var out strings.Builder
	writeRollout(&out, resource.Rollout{Desired: 2, Applied: 1, Refusals: []resource.Refusal{
		{NodeID: "web-1", Outcome: "refused", Reason: "rule 3: it requires authentication", Since: since},
	}}, resource.Policy{})
	require.Regexp(t, `(?m)^NOT APPLIED +OUTCOME +SINCE +REASON *\nweb-1 +refused +2027-01-01T00:00:00Z +rule 3: it requires authentication$`, out.String())
	out.Reset()
	writeRollout(&out, resource.Rollout{}, resource.Policy{})
	require.NotContains(t, out.String(), "NOT APPLIED")
}

func TestStatusCountsTheNodesThatHaveNotAppliedByOutcome(t *testing.T) {
	some := resource.ByState{Nodes: 6, Applied: 2, Lagging: 1, Refused: 2, Silent: 1}
	require.Equal(t, "2 of 6 applied, 1 lagging, 2 refused, 1 silent, 1 drift; not applied: db-1",
		convergenceText(resource.Convergence{Desired: 6, Applied: 2, Reported: 5, ByState: &some, NotApplied: resource.NotApplied{Refused: 2, Drift: 1}, Lagging: []resource.Lagging{{NodeID: "db-1"}}}))
	require.Equal(t, "6 of 6 applied", convergenceText(resource.Convergence{Desired: 6, Applied: 6, Reported: 5}), "of a plane that does not say it")
}

// What nodes counted is said of each way, and so is that nobody counted yet.
func TestWhatAnAuditCountedIsSaid(t *testing.T) {
	require.Equal(t, "no node has counted yet; agents with --apply nftables do", auditedText(resource.Audited{}))
	require.Equal(t, "of packets that nodes sent, its rules would have denied 1 and the default 3; of those that they received, 2 and 4; counted by 1 node",
		auditedText(resource.Audited{Nodes: 1, Egress: 1, Ingress: 2, ByDefault: resource.AuditedByDefault{Egress: 3, Ingress: 4}}))
}

// Who waits is not done when the plane is away for a moment, as while it is restarted.
func TestWhoWaitsOutlastsAPlaneThatIsAway(t *testing.T) {
	t.Parallel()
	const id = "0190a1b2-0000-7000-8000-000000000001"
	behind, done := `{"desired":1,"applied":0,"lagging":[{"node_id":"n1"}]}`, `{"desired":1,"applied":1,"lagging":[]}`
	for _, args := range [][]string{{"policy", "rollout", id, "-w"}, {"wait", "policy/" + id}} {
		asked := 0
		plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close") // or the client asks again by itself
			w.Header().Set("Content-Type", "application/json")
			if !strings.HasSuffix(r.URL.Path, "/rollout") {
				fmt.Fprintf(w, `{"id":%q,"slug":"web"}`, id)
				return
			}
			switch asked++; asked {
			case 1:
				_, _ = io.WriteString(w, behind)
			case 2, 3:
				panic(http.ErrAbortHandler)
			default:
				_, _ = io.WriteString(w, done)
			}
		}))
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append(args, "--server", plane.URL), strings.NewReader(""), &stdout, &stderr)
		plane.Close()
		require.Equal(t, cli.Fine, code, stderr.String())
		require.Equal(t, 1, strings.Count(stderr.String(), "no answer from the plane"), stderr.String())
	}
}

// A wave that is to come is none that has come, though no node is behind: a script would go on
// with a revision that most nodes do not have. A plane that hangs holds it up no longer.
func TestWhoWaitsForWavesIsNotDoneWhenTheTimeIsUp(t *testing.T) {
	t.Parallel()
	const id = "0190a1b2-0000-7000-8000-000000000001"
	for answers := range 3 {
		asked := 0
		plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if !strings.HasSuffix(r.URL.Path, "/rollout") {
				fmt.Fprintf(w, `{"id":%q,"slug":"web"}`, id)
				return
			}
			if asked++; answers < 2 && asked > answers {
				<-r.Context().Done()
				return
			}
			_, _ = io.WriteString(w, `{"desired":3,"applied":3,"lagging":[],"waves":{"phase":"progressing","waves":["canary=true"],"opened":1,"reached":{"nodes":0}}}`)
		}))
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"policy", "rollout", id, "-w", "--timeout", "1s", "--server", plane.URL}, strings.NewReader(""), &stdout, &stderr)
		plane.Close()
		require.Equal(t, cli.Differs, code, stderr.String())
	}
}
