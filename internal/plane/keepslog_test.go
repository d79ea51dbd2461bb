package plane

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// keepsLog has a client of each role ask for what takes from the log. On servers of others
// the account of the workers may: they are the plane.
func (g *guarded) keepsLog(t *testing.T) {
	before := g.extent(t)
	roles := []string{"n1", "author", "operator", "stranger"}
	if g.out == nil {
		roles = append(roles, "root")
	}
	for _, role := range roles {
		for call, body := range map[string]string{
			"PURGE": "", "DELETE": "", "MSG.DELETE": `{"seq":1}`, "UPDATE": `{"name":"EDICT_LOG","subjects":["edict.log.>"],"max_msgs":1}`,
			"RESTORE": `{"config":{"name":"EDICT_LOG"},"state":{}}`,
		} {
			require.Error(t, ask("$JS.API.STREAM."+call+".EDICT_LOG", body)(who{g, role}), "%s: %s", role, call)
		}
	}
	require.Equal(t, before, g.extent(t))
}

// extent is what the plane says that its log has.
func (g *guarded) extent(t *testing.T) any {
	text, err := who{g, "root"}.body("GET", "/v1/audit?after=0&limit=1", "")
	require.NoError(t, err)
	var page struct {
		Items []struct{ Seq uint64 }
	}
	require.NoError(t, json.Unmarshal(text, &page))
	return []any{page.Items, g.head()}
}
