package plane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
)

// A producer names somebody else as the one who caused its event, in every
// header that could say so. The audit shows a claim, and that it came over NATS.
func TestTheAuditShowsAForgedNameAsAClaim(t *testing.T) {
	for name, external := range map[string]bool{"embedded server": false, "server of another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startGuarded(t, external)
			require.NoError(t, who{g, "author"}.http("PUT", "/v1/projects/"+ours+"/nodes/n1", "{}"))
			require.NoError(t, who{g, "stranger"}.on(func(nc *nats.Conn) error {
				m := nats.NewMsg("edict.log." + theirs + ".node.m")
				id := uuid.NewString()
				m.Data = fmt.Appendf(nil, `{"id":%q,"type":"node_updated","project_id":%q,"node_id":"m","labels":{},"addresses":[]}`, id, theirs)
				for h, v := range map[string]string{
					"ce-id": id, "ce-type": "policy_deleted", "Edict-Mark": "AAAAAAAAAAAAAAAA", "Edict-Principal": "root", "Edict-Correlation-Id": "ticket-1", "Nats-Request-Info": `{"acc":"$G","user":"root"}`,
				} {
					m.Header[h] = []string{v}
				}
				answer, err := nc.RequestMsg(m, 10*time.Second)
				if err == nil {
					require.NotContains(t, string(answer.Data), `"error"`)
				}
				return err
			}))
			require.NoError(t, who{g, "stranger"}.http("PUT", "/v1/projects/"+theirs+"/nodes/m", `{"labels":{"a":"b"}}`))
			text, err := who{g, "root"}.body(http.MethodGet, "/v1/audit", "")
			require.NoError(t, err)
			var page resource.Page[resource.AuditEntry]
			require.NoError(t, json.Unmarshal(text, &page))
			require.Len(t, page.Items, 3)
			by, forged, after := page.Items[0], page.Items[1], page.Items[2]
			require.Equal(t, "author", by.Principal)
			require.Empty(t, by.Via)
			require.Equal(t, "stranger", after.Principal)
			require.NotEmpty(t, after.CorrelationID)
			require.Empty(t, after.Claimed)
			require.Equal(t, "nats", forged.Via)
			require.Empty(t, forged.Principal)
			require.Empty(t, forged.CorrelationID)
			require.Equal(t, "root", forged.Claimed)
			require.Equal(t, "ticket-1", forged.ClaimedCorrelationID)
			require.Equal(t, "node_updated", forged.Type, "as the body says, not the header")
		})
	}
}
