package plane

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

// agent is what a registered agent holds.
type agent struct {
	t      *testing.T
	at     string // https://host:port
	trust  *tls.Config
	id     string
	bearer string
	key    ed25519.PublicKey
}

func (a *agent) open(ctx context.Context, method, path, body string) *http.Response {
	a.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, a.at+path, strings.NewReader(body))
	require.NoError(a.t, err)
	r.Header.Set("Content-Type", "application/json")
	if a.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+a.bearer)
	}
	res, err := (&http.Transport{TLSClientConfig: a.trust, DisableKeepAlives: true}).RoundTrip(r)
	require.NoError(a.t, err)
	return res
}

func (a *agent) do(method, path, body string) (status int, answer string) {
	a.t.Helper()
	res := a.open(a.t.Context(), method, path, body)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(a.t, err)
	return res.StatusCode, string(text)
}

// register trades the token for the rest.
func (a *agent) register(body string) {
	a.t.Helper()
	a.bearer = ""
	status, text := a.do("POST", "/v1/register", body)
	require.Equal(a.t, 201, status, text)
	var got struct {
		NodeID    string `json:"node_id"`
		PublicKey []byte `json:"signing_public_key"`
		Bearer    string `json:"node_secret_key"`
	}
	require.NoError(a.t, json.Unmarshal([]byte(text), &got))
	require.Equal(a.t, a.id, got.NodeID)
	a.bearer, a.key = got.Bearer, got.PublicKey
}

// currentEnvelope and legacyEnvelope are what agents of each kind sign again.
type currentEnvelope struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Scope    string          `json:"scope"`
	KeyID    string          `json:"key_id"`
	IssuedAt time.Time       `json:"issued_at"`
	Payload  json.RawMessage `json:"payload"`
}

type legacyEnvelope struct {
	Type     string          `json:"event_type"`
	ID       string          `json:"event_id"`
	IssuedAt time.Time       `json:"issued_at"`
	Nonce    string          `json:"nonce"`
	Payload  json.RawMessage `json:"payload"`
}

// verified reads the next event and holds its signature against an envelope.
func verified[E any](a *agent, lines *bufio.Scanner) (e E) {
	a.t.Helper()
	for lines.Scan() {
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found {
			continue
		}
		var signed struct {
			Signature []byte `json:"signature"`
		}
		require.NoError(a.t, json.Unmarshal([]byte(data), &e))
		require.NoError(a.t, json.Unmarshal([]byte(data), &signed))
		bytes, err := json.Marshal(e)
		require.NoError(a.t, err)
		require.True(a.t, ed25519.Verify(a.key, bytes, signed.Signature), "%s", data)
		return e
	}
	a.t.Fatal("the stream ended")
	return e
}

// registers has an agent of each kind live from its bootstrap token on. What it
// returns waits for the end of a stream whose bearer token was replaced.
func (g *guarded) registers(t *testing.T) (replaced func(t *testing.T)) {
	root := who{g, "root"}
	token := func(n byte) string { return "psb_edict_a2_node_" + strings.Repeat(string('a'+n), 26) }
	agents := map[policy.Dialect]*agent{}
	for n, d := range []policy.Dialect{policy.DialectCurrent, policy.DialectLegacy} {
		a := &agent{t: t, at: "https://" + g.at.HTTP, trust: g.trust, id: uuid.NewString()}
		agents[d] = a
		doc := policy.Principal{Kind: policy.Agent}
		for i := range byte(2) {
			text := token(byte(2*n) + i)
			g.tokens["bootstrap "+text] = text
			doc.Bootstrap = append(doc.Bootstrap, policy.Bootstrap{
				ID: uuid.New(), Hash: sha256.Sum256([]byte(text)), Project: uuid.MustParse(ours), Expires: time.Now().Add(time.Hour),
			})
		}
		require.NoError(t, root.http("PUT", "/v1/projects/"+ours+"/nodes/"+a.id, `{"labels":{"role":"agent"}}`))
		require.NoError(t, root.http("PUT", "/v1/access/principals/"+a.id, string(policy.AppendPrincipal(nil, doc))))
	}
	key := base64.StdEncoding.EncodeToString(append([]byte{9}, make([]byte, 31)...))
	current, legacy := agents[policy.DialectCurrent], agents[policy.DialectLegacy]
	ask := func(token, nonce string) string {
		return fmt.Sprintf(`{"project_id":%q,"resource_handle":"","bootstrap_token":%q,"nonce":%q,"public_key":%q}`, ours, token, nonce, key)
	}
	current.register(ask(token(0), "1"))
	legacy.register(fmt.Sprintf(`{"token":%q,"public_key":%q,"hostname":"x"}`, token(2), key))
	first := *current
	current.register(ask(token(0), "1"))
	require.Equal(t, first.bearer, current.bearer, "a lost answer is given again")

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	streams := map[*agent]*bufio.Scanner{}
	for _, a := range agents {
		g.tokens["bearer "+a.id] = a.bearer
		status, _ := a.do("GET", "/v1/nodes/"+a.id+"/state", "")
		require.Equal(t, 200, status)
		res := a.open(ctx, "GET", "/v1/nodes/"+a.id+"/events", "")
		require.Equal(t, 200, res.StatusCode)
		t.Cleanup(func() { _ = res.Body.Close() })
		streams[a] = bufio.NewScanner(res.Body)
	}
	draft := `{"slug":"agents","selector":{"source":"role=agent","destination":"role=agent"},"rules":[{"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}]}`
	require.NoError(t, root.http("POST", "/v1/projects/"+ours+"/policies", draft))
	c := verified[currentEnvelope](current, streams[current])
	require.Equal(t, "policy_updated node:"+current.id, c.Type+" "+c.Scope)
	l := verified[legacyEnvelope](legacy, streams[legacy])
	require.Equal(t, "policy_updated", l.Type)
	require.NotEmpty(t, l.Nonce)

	for _, a := range agents {
		beat := `{"client_now":"` + time.Now().Format(time.RFC3339) + `"}`
		status, text := a.do("POST", "/v1/nodes/"+a.id+"/heartbeat", beat)
		require.Equal(t, 200, status, text)
		require.Contains(t, text, `"reconcile":true`, "it did not pull since")
		status, _ = a.do("GET", "/v1/nodes/"+a.id+"/state", "")
		require.Equal(t, 200, status)
		_, text = a.do("POST", "/v1/nodes/"+a.id+"/heartbeat", beat)
		require.Contains(t, text, `"reconcile":false`)
		status, _ = a.do("POST", "/v1/nodes/"+a.id+"/drift", `{"corrections":[{"type":"policy_added"}]}`)
		require.Equal(t, 202, status)
	}
	other, _ := current.do("GET", "/v1/nodes/"+legacy.id+"/state", "")
	require.Equal(t, 403, other, "a token of another node")

	current.register(ask(token(1), "2"))
	g.tokens["bearer again"] = current.bearer
	status, _ := first.do("GET", "/v1/nodes/"+first.id+"/state", "")
	require.Equal(t, 401, status)
	return func(t *testing.T) {
		for streams[current].Scan() {
		}
		require.NoError(t, streams[current].Err(), "the stream of the old token ended in order")
		require.NoError(t, ctx.Err())
	}
}
