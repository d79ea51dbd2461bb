package plane

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// foreseen is the id that a write under a key gives its event: whoever guesses
// the key can work it out (docs/design.md#the-fold-is-the-judge).
func foreseen(principal, project, key, role string) string {
	in := uuid.MustParse(project)
	h := sha256.New()
	for _, field := range []string{principal, string(in[:]), key, role} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(field))))
		h.Write([]byte(field))
	}
	id := uuid.UUID(h.Sum(nil)[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id.String()
}

// collide has somebody who operates another project append a harmless event of
// that project under a message id of theirs.
func (g *guarded) collide(t *testing.T, id string) {
	t.Helper()
	own := uuid.NewString()
	require.NoError(t, who{g, "stranger"}.on(func(nc *nats.Conn) error {
		m := nats.NewMsg("edict.log." + theirs + ".node.harmless")
		m.Header.Set("Nats-Msg-Id", id)
		m.Data = fmt.Appendf(nil, `{"id":%q,"type":"node_updated","project_id":%q,"node_id":"harmless","labels":{},"addresses":[]}`, own, theirs)
		answer, err := nc.RequestMsg(m, 10*time.Second)
		if err != nil {
			return err
		}
		require.NotContains(t, string(answer.Data), `"duplicate"`)
		require.NotContains(t, string(answer.Data), `"error"`)
		return nil
	}))
}

// keyed is a request of the author's under the key.
func (g *guarded) keyed(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+g.at.HTTP+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+g.tokens["author"])
	r.Header.Set("Idempotency-Key", "deploy-42")
	res, err := (&http.Transport{TLSClientConfig: g.trust, DisableKeepAlives: true}).RoundTrip(r)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}

// Message ids are one namespace for all who may append to the log. Whoever
// takes the one that a write will have does not take the write's place.
func TestNobodyTakesTheIDOfAnothersWrite(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, false)
	told := g.tell(t, "everybody", "node")
	policies := "/v1/projects/" + ours + "/policies"

	g.collide(t, foreseen("author", ours, "deploy-42", "put:web"))
	status, text := g.keyed(t, "PUT", "/v1/projects/"+ours+"/nodes/web", `{"labels":{"role":"web"}}`)
	require.Equal(t, http.StatusCreated, status, text)
	require.NoError(t, who{g, "author"}.http("GET", "/v1/projects/"+ours+"/nodes/web", ""), "what was acknowledged is there")
	require.Contains(t, text, fmt.Sprintf(`"version":%d`, g.head()))

	g.collide(t, foreseen("author", ours, "deploy-42", "create:event"))
	status, text = g.keyed(t, "POST", policies, `{"slug":"web","display_name":"Web","selector":{"source":"role=web","destination":"role=db"},
		"rules":[{"action":"deny","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}]}`)
	require.Equal(t, http.StatusCreated, status, text)
	var made struct {
		ID             string
		HeadRevisionID string `json:"head_revision_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &made))
	require.NoError(t, who{g, "author"}.http("GET", policies+"/"+made.ID, ""))

	g.collide(t, foreseen("author", ours, "deploy-42", "delete:"+told))
	status, text = g.keyed(t, "DELETE", policies+"/"+told, "")
	require.Equal(t, http.StatusNoContent, status, text)
	require.ErrorContains(t, who{g, "author"}.http("GET", policies+"/"+told, ""), "404", "the policy is not in force any more")
}
