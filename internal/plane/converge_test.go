package plane

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/streams"
)

// Two workers of one server: what a node tells one, over HTTP or over NATS, both
// know, and so does a worker that starts later.
func TestEveryWorkerKnowsWhatNodesReport(t *testing.T) {
	server, err := streams.StartServer(streams.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", Relaxed: true})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	key := t.TempDir() + "/key.pem"
	_, err = artifact.LoadOrCreateSigner(key)
	require.NoError(t, err)
	worker := func(name, dir string) (*client.Client, func()) {
		at, stop := start(t, Options{Data: dir, Name: name, NATS: server.ClientURL(), SigningKey: key, Announce: []int{}})
		return newClient(t, at), stop
	}
	second := t.TempDir()
	one, _ := worker("w1", t.TempDir())
	two, stop := worker("w2", second)
	ctx := t.Context()
	for _, id := range []string{"a", "b"} {
		_, _, err = one.Nodes.Put(ctx, project, id, resource.Facts{Labels: map[string]string{"role": "web"}})
		require.NoError(t, err)
	}
	made, err := one.Policies.Create(ctx, project, resource.Draft{
		Slug: "web", Selector: resource.Selector{Source: "role=web", Destination: "role=web"},
		Rules: []resource.Rule{{Action: "deny", Protocol: "any", SourceCIDR: "10.0.0.0/8", DestinationCIDR: "10.0.0.0/8"}},
	})
	require.NoError(t, err)
	rows, err := one.Nodes.Rulesets(ctx, "a")
	require.NoError(t, err)
	state, err := one.Nodes.State(ctx, "a", client.StateQuery{})
	require.NoError(t, err)
	said := resource.Applied{Version: state.LogSeq, Fingerprint: rows[0].Fingerprint}

	require.Eventually(t, func() bool { return one.Nodes.ReportApplied(ctx, "a", said) == nil }, 20*time.Second, 10*time.Millisecond)
	r, err := one.Policies.Rollout(ctx, project, made.ID, 0)
	require.NoError(t, err)
	require.Equal(t, 1, r.Applied, "whoever took a report knows it at once")
	awaitApplied(t, two, made.ID, 1)

	nc, err := nats.Connect(server.ClientURL())
	require.NoError(t, err)
	defer nc.Close()
	report := func(node, body string) { require.NoError(t, nc.Publish("edict.report.node."+node, []byte(body))) }
	report("ghost", fmt.Sprintf(`{"version":1,"fingerprint":%q}`, compiler.Empty.Fingerprint))
	report("b", "nonsense")
	report("a.b", "nonsense") // not even a subject of reports
	report("b", fmt.Sprintf(`{"version":99999,"fingerprint":%q}`, said.Fingerprint))
	report("b", fmt.Sprintf(`{"version":%d,"fingerprint":%q}`, said.Version, said.Fingerprint))
	for _, c := range []*client.Client{one, two} {
		awaitApplied(t, c, made.ID, 2)
		s, err := c.Status(ctx, false)
		require.NoError(t, err)
		require.Equal(t, resource.Convergence{Desired: 2, Applied: 2, Reported: 2, ByState: &resource.ByState{Nodes: 2, Applied: 2}, Lagging: []resource.Lagging{}}, *s.Convergence)
	}
	stop()
	two, _ = worker("w2", second)
	awaitApplied(t, two, made.ID, 2)
}

func awaitApplied(t *testing.T, c *client.Client, id uuid.UUID, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.Eventually(t, func() bool {
		r, err := c.Policies.Rollout(ctx, project, id, 0)
		return err == nil && r.Applied == want && len(r.Lagging) == r.Desired-want
	}, 30*time.Second, 10*time.Millisecond)
}

// The reports may be deleted while the plane runs: it makes their stream anew
// and takes what nodes say from then on.
func TestReportsAreMadeAnewWhenTheyAreLost(t *testing.T) {
	at, _ := start(t, Options{Data: t.TempDir(), Relaxed: true, NATSListen: "127.0.0.1:0"})
	c := newClient(t, at)
	_, _, err := c.Nodes.Put(t.Context(), project, "a", resource.Facts{})
	require.NoError(t, err)
	said := resource.Applied{Version: 1, Fingerprint: compiler.Empty.Fingerprint.String()}
	ok := func() bool { return c.Nodes.ReportApplied(t.Context(), "a", said) == nil }
	require.Eventually(t, ok, 20*time.Second, 10*time.Millisecond)
	nc, err := nats.Connect(at.NATS)
	require.NoError(t, err)
	defer nc.Close()
	js, err := nc.JetStream()
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream("EDICT_REPORTS"))
	require.Eventually(t, ok, 30*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		info, err := js.StreamInfo("EDICT_REPORTS")
		return err == nil && info.State.Msgs == 1
	}, 10*time.Second, 10*time.Millisecond)
}
