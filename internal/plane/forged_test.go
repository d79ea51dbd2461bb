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

// A producer need not say in a header what its event is, and may say something else: the audit
// shows, and finds, what was folded. That holds for a large event, and for one that gives rights.
func TestTheAuditShowsWhatWasFoldedWhateverTheHeadersSay(t *testing.T) {
	g := startGuarded(t, false)
	const large = "edict.log." + theirs + ".node.m"
	id := uuid.NewString()
	for _, m := range []*nats.Msg{
		{
			Subject: large, Header: nats.Header{"ce-type": {"policy_deleted"}},
			Data: fmt.Appendf(nil, `{"id":%q,"type":"node_updated","project_id":%q,"node_id":"m","labels":{},%*s"addresses":[]}`, uuid.NewString(), theirs, 100<<10, ""),
		},
		{Subject: "edict.log.access.zoe", Data: fmt.Appendf(nil, `{"id":%q,"type":"relation_written","principal_id":"zoe","relation":"plane#admin"}`, id)},
	} {
		require.NoError(t, who{g, "root"}.on(func(nc *nats.Conn) error {
			answer, err := nc.RequestMsg(m, 10*time.Second)
			if err == nil {
				require.NotContains(t, string(answer.Data), `"error"`)
			}
			return err
		}))
	}
	for kind, want := range map[string]resource.AuditEntry{
		"node_updated":     {Subject: large},
		"relation_written": {Subject: "edict.log.access.zoe", Detail: "plane#admin", EventID: id},
	} {
		text, err := who{g, "root"}.body(http.MethodGet, "/v1/audit?type="+kind, "")
		require.NoError(t, err)
		var page resource.Page[resource.AuditEntry]
		require.NoError(t, json.Unmarshal(text, &page))
		require.Len(t, page.Items, 1, "%s", text)
		got := page.Items[0]
		require.Equal(t, kind, got.Type)
		require.Equal(t, want.Subject, got.Subject)
		require.Equal(t, want.Detail, got.Detail)
		require.Equal(t, "nats", got.Via)
		if want.EventID != "" {
			require.Equal(t, want.EventID, got.EventID)
		}
	}
}
