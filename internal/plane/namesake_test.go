package plane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/access"
)

// agentOf makes an agent with these relations and a token, and its principal.
func (g *guarded) agentOf(t *testing.T, name string, relations ...string) who {
	t.Helper()
	root := who{g, "root"}
	text, kept := access.NewToken(uuid.New(), time.Time{})
	g.tokens[name] = text
	require.NoError(t, root.http("PUT", "/v1/access/principals/"+name, fmt.Sprintf(`{"kind":"node","tokens":[{"id":%q,"sha256":"%x"}]}`, kept.ID, kept.Hash)))
	for _, r := range relations {
		require.NoError(t, root.http("POST", "/v1/access/principals/"+name+"/relations", `{"relation":"`+r+`"}`))
	}
	return who{g, name}
}

// mayHear says whether an agent may hear what a node is told.
func (w who) mayHear(node string) error { return listen("edict.node." + node + ".>")(w) }

// Credentials of a node's agent are made before the node is, and somebody else
// names the node first, in another project. The agent never reads that project's
// policies: it trusts what its own project says of the node.
func TestAnAgentNeverReadsAnotherProjectsNodeOfItsName(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, false)
	root, author, stranger := who{g, "root"}, who{g, "author"}, who{g, "stranger"}
	require.ErrorContains(t, root.http("POST", "/v1/access/principals/x/relations", `{"relation":"node:web-c#agent"}`), "invalid_relation", "the project is named")
	own := g.agentOf(t, "web-c", "node:"+ours+"/web-c#agent")
	good := g.agentOf(t, "web-d", "node:"+ours+"/web-d#agent")
	// A plane's log may have relations of before, which name no project.
	old := g.agentOf(t, "web-o")
	require.NoError(t, ask("edict.log.access.web-o", fmt.Sprintf(`{"id":%q,"type":"relation_written","principal_id":"web-o","relation":"node:web-c#agent"}`, uuid.New()))(root))
	require.ErrorContains(t, own.http("GET", "/v1/nodes/web-c/state", ""), "404", "it is not there yet")
	require.Error(t, own.mayHear("web-c"))
	require.Error(t, good.mayHear("web-d"))

	require.NoError(t, stranger.http("PUT", "/v1/projects/"+theirs+"/nodes/web-c", `{"labels":{"role":"web"}}`))
	require.NoError(t, stranger.http("POST", "/v1/projects/"+theirs+"/policies", `{"slug":"allow-all","display_name":"Mallory's","selector":{"source":"role=web","destination":"role=web"},
		"rules":[{"action":"allow","protocol":"any","source_cidr":"0.0.0.0/0","destination_cidr":"0.0.0.0/0"}]}`))
	require.ErrorContains(t, author.http("PUT", "/v1/projects/"+ours+"/nodes/web-c", `{}`), "node_id_taken")
	require.ErrorContains(t, root.http("POST", "/v1/access/principals/x/relations", `{"relation":"node:`+ours+`/web-c#agent"}`), "node_id_taken")

	for name, w := range map[string]who{"of the node": own, "with a relation of before": old} {
		for _, path := range []string{"state", "events", "rulesets", "datapath", "artifacts"} {
			require.ErrorContains(t, w.http("GET", "/v1/nodes/web-c/"+path, ""), "403", "%s: %s", name, path)
		}
		require.ErrorContains(t, w.http("POST", "/v1/nodes/web-c/applied", `{"version":1,"fingerprint":"T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="}`), "403", name)
		require.Error(t, w.mayHear("web-c"), name)
		require.Error(t, listen("_INBOX.web-c.>")(w), "%s: the answers to the node's own agent", name)
		require.Error(t, ask("edict.replay.node.web-c", `{"after":"0"}`)(w), name)
	}

	// Whose node came is heard, on a connection that begins then.
	require.NoError(t, author.http("PUT", "/v1/projects/"+ours+"/nodes/web-d", `{"labels":{"role":"web"}}`))
	require.NoError(t, good.http("GET", "/v1/nodes/web-d/state", ""))
	require.NoError(t, good.mayHear("web-d"))
	require.NoError(t, ask("edict.replay.node.web-d", `{"after":"0"}`)(good))

	// What the log says without a project is shown as it is, and taken back so.
	text, err := root.body("GET", "/v1/access/principals/web-o", "")
	require.NoError(t, err)
	require.Contains(t, string(text), `"node:web-c#agent"`)
	require.NoError(t, root.http("DELETE", "/v1/access/principals/web-o/relations?relation=node:web-c%23agent", ""))
	text, err = root.body("GET", "/v1/access/principals/web-o", "")
	require.NoError(t, err)
	require.False(t, strings.Contains(string(text), "#agent"), string(text))
}

// An agent that connected before its node was there is cut off when the node
// comes, and hears it on its next connection.
func TestAnAgentThatWasThereBeforeItsNodeConnectsAgain(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, false)
	w := g.agentOf(t, "web-e", "node:"+ours+"/web-e#agent")
	closed := make(chan struct{})
	nc, err := w.nats(nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	require.NoError(t, err)
	require.True(t, nc.IsConnected())
	require.NoError(t, who{g, "author"}.http("PUT", "/v1/projects/"+ours+"/nodes/web-e", `{}`))
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("the connection stands")
	}
	require.NoError(t, w.mayHear("web-e"))
}
