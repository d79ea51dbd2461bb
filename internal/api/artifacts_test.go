package api_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/reterepo"
)

const (
	artifacts = "/v1/projects/" + project + "/artifacts"
	retes     = "/v1/projects/" + project + "/retes"
)

// tree is the example repository at a version; changed says that a service
// belongs to another group.
func tree(version uint64, changed bool) map[string][]reterepo.File {
	repo := reterepo.Example()
	if changed {
		f := repo["services/teams.yaml"]
		f.Data = []byte(strings.Replace(string(f.Data), "groups: [db]", "groups: [admin]", 1))
	}
	return reterepo.Signed(repo, "primary", version)
}

// releaseLine is a node's set as a line.
func releaseLine(t testing.TB, node string, files []reterepo.File, pin ...string) string {
	t.Helper()
	l := resource.ReleaseLine{NodeID: node}
	for _, f := range files {
		l.Artifacts = append(l.Artifacts, string(f.Text))
	}
	for _, signer := range pin {
		l.Trust = append(l.Trust, resource.Signer{SPIFFE: reterepo.SignerID("rete-lovers", signer), Key: publicKey(signer)})
	}
	b, err := json.Marshal(l)
	require.NoError(t, err)
	return string(b)
}

// handmade is the line of a node that no repository has.
func handmade(node string, version uint64) string {
	s, err := artifact.ParseSigner(reterepo.KeyPEM("primary"))
	if err != nil {
		panic(err)
	}
	id := reterepo.SignerID("rete-lovers", "primary")
	pin := []resource.Signer{{SPIFFE: id, Key: publicKey("primary")}}
	payload, _ := json.Marshal(map[string]any{"trust": map[string]any{"authorized_mgmt_signers": pin}})
	l := resource.ReleaseLine{NodeID: node, Trust: pin}
	for kind, name := range map[string]string{"agent": "agent", "vertex": "flor"} {
		doc, err := s.As(id).SealDocument(artifact.Envelope{
			Plane: artifact.PlaneMgmt, Kind: kind, Name: name, Node: node, Version: version, GeneratedAt: epoch, Payload: payload,
		})
		if err != nil {
			panic(err)
		}
		l.Artifacts = append(l.Artifacts, string(doc))
	}
	b, _ := json.Marshal(l)
	return string(b)
}

func publicKey(signer string) string {
	return base64.StdEncoding.EncodeToString(reterepo.Key(signer)[32:])
}

func (p *plane) release(lines ...string) resource.BatchResult {
	p.t.Helper()
	a := p.do("POST", artifacts+":release", strings.Join(lines, "\n"), "Content-Type: application/x-ndjson")
	p.want(http.StatusOK, "", a)
	return into[resource.BatchResult](p.t, a)
}

func newReleasing(t *testing.T) *plane {
	return newPlane(t, func(d *api.Deps) { d.Event = d.Log.(*memLog).Get })
}

func TestAReleaseIsReadByteForByte(t *testing.T) {
	p := newReleasing(t)
	v1 := tree(1, false)
	p.put("alpha", `{}`)
	require.Equal(t, resource.BatchResult{Applied: 2, Rejected: []resource.RejectedLine{}},
		p.release(releaseLine(t, "alpha", v1["alpha"], "primary"), releaseLine(t, "beta", v1["beta"])))

	a := p.do("GET", "/v1/nodes/alpha/artifacts", "")
	p.want(http.StatusOK, "", a)
	require.Equal(t, "7", a.Header.Get("Edict-Event-Id"))
	require.Equal(t, "3", a.Header.Get("Edict-Log-Seq"))
	items := into[resource.Items[resource.Artifact]](t, a).Items
	require.Len(t, items, len(v1["alpha"]))
	for i, f := range v1["alpha"] {
		require.Equal(t, resource.Artifact{
			Kind: f.Kind, Name: f.Name, Version: 1, Fingerprint: fingerprint(string(f.Text)), Document: string(f.Text),
		}, items[i])
	}

	t.Run("a node without artifacts has none, one that is not there is not found", func(t *testing.T) {
		p.put("other", `{}`)
		a := p.do("GET", "/v1/nodes/other/artifacts", "")
		require.JSONEq(t, `{"items":[]}`, string(a.body))
		p.want(http.StatusNotFound, "node_not_found", p.do("GET", "/v1/nodes/beta/artifacts", ""))
	})
	t.Run("the project sees what waits for its node, too", func(t *testing.T) {
		list := into[resource.Page[resource.Release]](t, p.do("GET", artifacts, ""))
		require.Len(t, list.Items, 2)
		require.Equal(t, []any{"alpha", true, "beta", false}, []any{list.Items[0].NodeID, list.Items[0].Registered, list.Items[1].NodeID, list.Items[1].Registered})
		first := into[resource.Page[resource.Release]](t, p.do("GET", artifacts+"?limit=1", ""))
		require.NotNil(t, first.NextCursor)
		second := into[resource.Page[resource.Release]](t, p.do("GET", artifacts+"?limit=1&cursor="+*first.NextCursor, ""))
		require.Equal(t, "beta", second.Items[0].NodeID)
		require.Nil(t, second.NextCursor)
	})
	t.Run("the signers are those of the agent's artifact", func(t *testing.T) {
		require.Equal(t, []resource.Rete{{Name: "rete-lovers", Version: 1, Nodes: 2, Signers: []resource.Signer{
			{SPIFFE: "spiffe://rete-lovers/management-plane/primary", Key: publicKey("primary")},
		}}}, into[resource.Items[resource.Rete]](t, p.do("GET", retes, "")).Items)
	})
	t.Run("what is so already writes nothing", func(t *testing.T) {
		before := len(p.log.msgs)
		got := p.release(releaseLine(t, "alpha", v1["alpha"]), releaseLine(t, "beta", v1["beta"], "primary"))
		require.Equal(t, 2, got.Unchanged)
		require.Len(t, p.log.msgs, before)
	})
	t.Run("an older release is read from the log", func(t *testing.T) {
		require.Equal(t, 1, p.release(releaseLine(t, "alpha", tree(5, true)["alpha"])).Applied)
		for version, want := range map[string][]reterepo.File{"": tree(5, true)["alpha"], "?version=4": v1["alpha"], "?version=5": tree(5, true)["alpha"]} {
			items := into[resource.Items[resource.Artifact]](t, p.do("GET", artifacts+"/alpha"+version, "")).Items
			require.Len(t, items, len(want))
			for i, f := range want {
				require.Equal(t, string(f.Text), items[i].Document, version)
			}
		}
		p.want(http.StatusNotFound, "release_not_found", p.do("GET", artifacts+"/nobody", ""))
		p.want(http.StatusNotFound, "release_not_found", p.do("GET", "/v1/projects/"+other+"/artifacts/alpha", ""))
	})
	t.Run("an artifact is withdrawn once", func(t *testing.T) {
		path := artifacts + "/beta/vertex/flor"
		p.want(http.StatusNoContent, "", p.do("DELETE", path, ""))
		p.want(http.StatusNotFound, "artifact_not_found", p.do("DELETE", path, ""))
		p.want(http.StatusUnprocessableEntity, "invalid_artifact_name", p.do("DELETE", artifacts+"/beta/Vertex/flor", ""))
		require.Len(t, into[resource.Items[resource.Artifact]](t, p.do("GET", artifacts+"/beta", "")).Items, 1)
	})
}

func TestAReleaseSaysWhyALineIsRefused(t *testing.T) {
	p := newPlane(t, func(d *api.Deps) { d.MaxMessage = 16 << 10 })
	v1 := tree(1, false)
	good := releaseLine(t, "alpha", v1["alpha"], "primary")
	p.want(http.StatusUnsupportedMediaType, "unsupported_media_type", p.do("POST", artifacts+":release", good))
	require.Equal(t, 1, p.release(good).Applied)
	large := append([]reterepo.File{}, v1["beta"]...)
	large[1].Text = []byte(strings.Replace(string(large[1].Text), "{\n", "{\n"+strings.Repeat(" ", 13<<10), 1))
	for name, c := range map[string]struct{ line, code, says string }{
		"not JSON":                        {`{`, "malformed_json", ""},
		"no node":                         {`{"artifacts":["{}\n"]}`, "required", "node_id"},
		"a member that is none":           {`{"node_id":"a","artifacts":["{}\n"],"x":1}`, "unknown_field", ""},
		"no artifacts":                    {`{"node_id":"a","artifacts":[]}`, "artifacts_out_of_range", ""},
		"an artifact that is none":        {`{"node_id":"a","artifacts":["{}\n"]}`, "invalid_artifact", "/artifacts/0"},
		"broken text in a file":           {`{"node_id":"a","artifacts":["{\"a\":}\n"]}`, "invalid_artifact", ""},
		"a file without its newline":      {strings.ReplaceAll(releaseLine(t, "beta", v1["beta"]), `}\n"`, `}"`), "invalid_artifact", "newline"},
		"another node's":                  {strings.Replace(good, `"node_id":"alpha"`, `"node_id":"beta"`, 1), "invalid_artifact", "alpha"},
		"an older version":                {releaseLine(t, "alpha", tree(1, true)["alpha"]), "version_not_newer", "--version"},
		"a stranger's":                    {releaseLine(t, "beta", reterepo.Signed(reterepo.Example(), "stranger", 2)["beta"]), "signer_not_trusted", "stranger"},
		"more than a message has room":    {releaseLine(t, "beta", large), "artifact_too_large", "max_payload"},
		"more than a line has room":       {`{"node_id":"` + strings.Repeat("a", 40<<10) + `"}`, "body_too_large", ""},
		"a pin that is no key of ed25519": {strings.Replace(releaseLine(t, "beta", v1["beta"], "primary"), `"pubkey":"`+publicKey("primary"), `"pubkey":"AAAA`, 1), "invalid_public_key", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(p.log.msgs)
			got := p.release(c.line, releaseLine(t, "alpha", v1["alpha"]))
			require.Equal(t, 1, got.Unchanged, "lines beside it are not touched")
			require.Len(t, got.Rejected, 1)
			require.Equal(t, c.code, got.Rejected[0].Code, got.Rejected[0].Detail)
			require.Contains(t, got.Rejected[0].Detail, c.says)
			if c.code != "version_not_newer" && c.code != "signer_not_trusted" {
				require.Len(t, p.log.msgs, before, "nothing reaches the log")
			}
		})
	}
}

// second is the line of a node in another rete than the example's.
func second(t testing.TB, node string, version uint64) string {
	repo := reterepo.Example()
	f := repo["rete.yaml"]
	f.Data = []byte(strings.Replace(string(f.Data), "rete-lovers", "elsewhere.example", 1))
	reterepo.Enroll(repo)
	line := releaseLine(t, node, reterepo.Signed(repo, "primary", version)[node], "primary")
	return strings.ReplaceAll(line, `"trust":[{"spiffe_id":"spiffe://rete-lovers/`, `"trust":[{"spiffe_id":"spiffe://elsewhere.example/`)
}

func TestANodeOfTwoRetesIsReadReteByRete(t *testing.T) {
	gen.Unraced()
	p := newReleasing(t)
	v1 := tree(5, false)
	p.put("alpha", `{}`)
	require.Equal(t, 2, p.release(releaseLine(t, "alpha", v1["alpha"], "primary"), releaseLine(t, "beta", v1["beta"])).Applied)
	require.Equal(t, 2, p.release(second(t, "alpha", 1), second(t, "beta", 1)).Applied)
	require.Equal(t, 2, p.release(second(t, "alpha", 1), releaseLine(t, "alpha", v1["alpha"])).Unchanged)

	var listed []string
	for path := artifacts + "?limit=1"; path != ""; {
		page := into[resource.Page[resource.Release]](t, p.do("GET", path, ""))
		require.Len(t, page.Items, 1)
		listed = append(listed, page.Items[0].NodeID+" "+page.Items[0].Rete)
		if path = ""; page.NextCursor != nil {
			path = artifacts + "?limit=1&cursor=" + *page.NextCursor
		}
	}
	require.Equal(t, []string{"alpha rete-lovers", "alpha elsewhere.example", "beta rete-lovers", "beta elsewhere.example"}, listed)

	names := func(path string) (all []string) {
		for _, a := range into[resource.Items[resource.Artifact]](t, p.do("GET", path, "")).Items {
			all = append(all, strings.TrimSpace(a.Kind+"."+a.Name+" "+a.Rete))
		}
		return all
	}
	both := []string{"agent.agent", "vertex.flor", "agent.agent elsewhere.example", "vertex.flor elsewhere.example"}
	require.Equal(t, both, names("/v1/nodes/alpha/artifacts"))
	require.Equal(t, both, names(artifacts+"/alpha"))
	require.Equal(t, both[:2], names(artifacts+"/alpha?rete=rete-lovers"))
	require.Equal(t, both[2:], names(artifacts+"/alpha?rete=elsewhere.example"))
	require.Equal(t, both[:2], names(artifacts+"/alpha?version=9"))
	require.Equal(t, both[2:], names(artifacts+"/alpha?version=9&rete=elsewhere.example"))
	p.want(http.StatusNotFound, api.CodeReleaseNotFound, p.do("GET", artifacts+"/alpha?rete=other", ""))

	p.want(http.StatusNotFound, api.CodeArtifactNotFound, p.do("DELETE", artifacts+"/alpha/vertex/flor?rete=other", ""))
	p.want(http.StatusNoContent, "", p.do("DELETE", artifacts+"/alpha/vertex/flor?rete=elsewhere.example", ""))
	require.Equal(t, both[:3], names(artifacts+"/alpha"))
	p.want(http.StatusNoContent, "", p.do("DELETE", artifacts+"/alpha/vertex/flor", ""))
	p.want(http.StatusNoContent, "", p.do("DELETE", artifacts+"/alpha/agent/agent", ""))
	p.want(http.StatusNotFound, api.CodeArtifactNotFound, p.do("DELETE", artifacts+"/alpha/agent/agent", ""))
	require.Equal(t, both[2:3], names(artifacts+"/alpha"), "the second stays what it is called")
	require.Equal(t, 1, p.release(second(t, "alpha", 2)).Applied)
	require.Equal(t, both[2:], names(artifacts+"/alpha"))
}

// A rete has no versions of the one in whose place it came.
func TestWhatIsReadAtAVersionIsOfTheReteThatIsNamed(t *testing.T) {
	gen.Unraced()
	p := newReleasing(t)
	require.Equal(t, 1, p.release(releaseLine(t, "alpha", tree(1, false)["alpha"], "primary")).Applied)
	for _, part := range []string{"agent/agent", "vertex/flor"} {
		p.want(http.StatusNoContent, "", p.do("DELETE", artifacts+"/alpha/"+part, ""))
	}
	require.Equal(t, 1, p.release(second(t, "alpha", 5)).Applied)
	p.want(http.StatusNotFound, api.CodeReleaseNotFound, p.do("GET", artifacts+"/alpha?version=4&rete=elsewhere.example", ""))
	p.want(http.StatusOK, "", p.do("GET", artifacts+"/alpha?version=5&rete=elsewhere.example", ""))
	p.want(http.StatusOK, "", p.do("GET", artifacts+"/alpha?version=4", ""))
}

// A rete that another worker was given is not taken for the node's first.
func TestWhatIsWithdrawnIsOfTheReteThatIsNamed(t *testing.T) {
	gen.Unraced()
	a := newReleasing(t)
	v1 := tree(5, false)
	a.put("alpha", `{}`)
	require.Equal(t, 1, a.release(releaseLine(t, "alpha", v1["alpha"], "primary")).Applied)
	b, _ := lateWorker(t, a)
	b.want(http.StatusOK, "", b.do("GET", artifacts+"/alpha", ""))
	require.Equal(t, 1, a.release(second(t, "alpha", 1)).Applied)
	b.want(http.StatusNoContent, "", b.do("DELETE", artifacts+"/alpha/vertex/flor?rete=elsewhere.example", ""))
	var left []string
	for _, x := range into[resource.Items[resource.Artifact]](t, a.do("GET", artifacts+"/alpha", "")).Items {
		left = append(left, x.Kind+" "+x.Rete)
	}
	require.Equal(t, []string{"agent ", "vertex ", "agent elsewhere.example"}, left)
}
