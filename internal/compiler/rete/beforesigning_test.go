package rete_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// What the specification wants to hold of an artifact before it is signed. The other
// clauses of that kind are about the repository, and have stories: rules 1 to 15
// (testdata/ruleNN.txtar of retectl), a version above those of the tree and the
// signer's own key (compile.txtar), no signer who introduces himself
// (introduce.txtar), nothing written when something is refused (compile.txtar).
var beforeSigning = []struct {
	clause   string
	from, to string // in the compact payload of the vertex of node alpha
	says     string
}{
	{"a link vertex has an adapter", `"adapters":[{"name":"wire","type":"udp","listen":"0.0.0.0:4433"}]`, `"adapters":[]`, "exactly one adapter, of type udp; it has 0"},
	{"and not two", `"adapters":[`, `"adapters":[{"name":"side","type":"udp"},`, "exactly one adapter, of type udp; it has 2"},
	{"and it is no FlorIO", `"name":"wire","type":"udp"`, `"name":"wire","type":"florio"`, "exactly one adapter, of type udp; it has 1"},
	{"an adapter has a name", `"name":"wire"`, `"name":""`, "an adapter has no name"},
	{"an adapter listens at an address", `"listen":"0.0.0.0:4433"`, `"listen":"nonsense"`, `adapter "wire" listens at no address`},
	{"the transport endpoint is QUIC", `"transport_endpoint":{"type":"quic"}`, `"transport_endpoint":{"type":"tcp"}`, `its transport endpoint is of type "tcp"`},
	{"and is there", `"transport_endpoint":{"type":"quic"}`, `"transport_endpoint":{"type":""}`, `its transport endpoint is of type ""`},
	{"the kind is link", `"kind":"link"`, `"kind":"mesh"`, `its kind is "mesh"`},
	{"the CA is a bare file name", `"ca_cert_path":"ca.crt"`, `"ca_cert_path":"certs/ca.crt"`, "is not a bare file name"},
	{"so is a certificate", `"cert_path":"api.crt"`, `"cert_path":"../api.crt"`, "two bare file names"},
	{"so is a key", `"priv_path":"api.key"`, `"priv_path":"/etc/api.key"`, "two bare file names"},
	{"a workload is wired to something", `"io":[{"kind":"tcp","upstream":"0.0.0.0:22"}]`, `"io":[]`, "has no io"},
	{"by a kind of channel that is known", `{"kind":"tcp","upstream":"0.0.0.0:22"}`, `{"kind":"florio","upstream":"0.0.0.0:22"}`, "neither socks5 with listen nor tcp with upstream"},
	{"an inbound channel listens", `{"kind":"socks5","listen":"127.0.0.1:18000"}`, `{"kind":"socks5"}`, "neither socks5 with listen nor tcp with upstream"},
	{"at an address", `"listen":"127.0.0.1:18000"`, `"listen":"not an address"`, "the io of workload spiffe://rete-lovers/service/api is at no address"},
	{"an outbound channel leads to an address", `"upstream":"127.0.0.1:8000"`, `"upstream":"localhost:8000"`, "is at no address"},
	{"who comes in comes to a workload that is here", `"ingress":[{"target":"spiffe://rete-lovers/service/api"`, `"ingress":[{"target":"spiffe://rete-lovers/service/kafka"`, "is no workload of this vertex"},
	{"who goes out is here", `"allow":["spiffe://rete-lovers/service/api"]`, `"allow":["spiffe://rete-lovers/user/bob"]`, "is no workload of this vertex"},
	{"who goes out is led by a link", `"peer":"spiffe://rete-lovers/service/mongodb"`, `"peer":"spiffe://rete-lovers/service/kafka"`, "has no link to dial it"},
	{"a link leads to who can be dialled", `"peer":"spiffe://rete-lovers/service/mongodb"`, `"peer":"spiffe://rete-lovers/user/bob"`, "leads to no service or vertex"},
	{"by an adapter that is declared", `"adapter":"wire"`, `"adapter":"nope"`, "which is not declared"},
	{"of its type", `"via":{"type":"udp"`, `"via":{"type":"florio"`, "which is not declared"},
	{"to an address", `"addr":"5.6.7.8:4433"`, `"addr":"beta:4433"`, "the link to spiffe://rete-lovers/service/mongodb"},
	{"links are a table", `"type":"enum"`, `"type":"list"`, `has type "list"`},
	{"roles are expanded to SPIFFE IDs", `"spiffe://rete-lovers/user/bob"`, `"devops"`, "is not a SPIFFE ID"},
	{"of one trust domain", `spiffe://rete-lovers/user/bob`, `spiffe://elsewhere/user/bob`, "more than one trust domain"},
}

// The compiler makes none of these; it is what stands between a mistake in it and a
// signature.
func TestAMalformedArtifactIsRefusedBeforeItIsSigned(t *testing.T) {
	m := judged(t, reterepo.Example())
	var alpha []byte
	for _, s := range compiled(t, reterepo.Example()) {
		if s.Node == "alpha" {
			alpha = s.Artifacts[1].Payload
		}
	}
	require.Empty(t, rete.CheckVertex(alpha))
	for _, c := range beforeSigning {
		t.Run(c.clause, func(t *testing.T) {
			require.Contains(t, string(alpha), c.from)
			spoilt := []byte(strings.ReplaceAll(string(alpha), c.from, c.to))
			require.ErrorContains(t, errors.Join(rete.CheckVertex(spoilt)...), c.says)
			_, faults := rete.CompileSpoiling(m, func(p *rete.VertexPayload) {
				text, err := json.Marshal(p)
				require.NoError(t, err)
				if bytes.Equal(text, alpha) {
					*p = rete.VertexPayload{}
					require.NoError(t, json.Unmarshal(spoilt, p))
				}
			})
			require.NotEmpty(t, rete.Violations(faults))
			said := ""
			for _, f := range faults {
				require.Equal(t, rete.LabelCompile, f.Label)
				said += f.Message + "\n"
			}
			require.Contains(t, said, c.says)
			require.Contains(t, said, `the artifact of vertex flor of node "alpha" would be malformed`)
		})
	}
}

// What is printed are the members that the check knows; what a node is given may have others.
func TestAPayloadIsClosed(t *testing.T) {
	payload := compiled(t, reterepo.Example())[0].Artifacts[1].Payload
	require.Empty(t, rete.CheckVertex(payload))
	more := bytes.Replace(payload, []byte("{"), []byte(`{"labels":{},`), 1)
	require.ErrorContains(t, errors.Join(rete.CheckVertex(more)...), "not a vertex payload")
}

// agent.json lists vertices by name and kind, and no path.
func TestAnAgentListsItsVerticesByNameAlone(t *testing.T) {
	for _, s := range compiled(t, reterepo.Example()) {
		var p map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(s.Artifacts[0].Payload, &p))
		require.JSONEq(t, `[{"name":"flor","kind":"link"}]`, string(p["vertices"]))
		got, faults := rete.CheckAgent(s.Artifacts[0].Payload)
		require.Empty(t, faults)
		require.Len(t, got.Trust.Signers, 1)
	}
}
