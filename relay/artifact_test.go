package relay_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

const reteSigner = "spiffe://demo/management-plane/primary"

// releaser signs the artifacts of nodes.
type releaser struct {
	p      *plane
	signer *artifact.Signer
}

func newReleaser(p *plane) *releaser {
	s, err := artifact.GenerateSigner()
	require.NoError(p.t, err)
	return &releaser{p, s.As(reteSigner)}
}

// release gives a node an agent and a vertex whose payload is as large as told,
// and returns what it must be told of each.
func (r *releaser) release(node string, version uint64, size int, vertices ...string) (seq uint64, want []string) {
	r.p.t.Helper()
	e := policy.ArtifactReleased{
		ID: uuid.New(), Project: project, Node: policy.NodeID(node),
		Trust: []policy.TrustedSigner{{SPIFFE: reteSigner, Key: r.signer.PublicKey()}},
	}
	trust := fmt.Sprintf(`{"trust":{"authorized_mgmt_signers":[{"spiffe_id":%q,"pubkey":%q}]}}`,
		reteSigner, base64.StdEncoding.EncodeToString(r.signer.PublicKey()))
	seal := func(kind, name, payload string) {
		doc, err := r.signer.SealDocument(artifact.Envelope{
			Plane: artifact.PlaneMgmt, Kind: kind, Name: name, Node: node, Version: version, GeneratedAt: time.Unix(1, 0), Payload: []byte(payload),
		})
		require.NoError(r.p.t, err)
		e.Artifacts = append(e.Artifacts, strings.TrimSuffix(string(doc), "\n"))
		want = append(want, artifactTold(kind, name, node, version, string(doc)))
	}
	seal("agent", "agent", trust)
	for _, v := range vertices {
		seal("vertex", v, `{"room":"`+strings.Repeat("<&>", size)+`"}`)
	}
	return r.p.publish(e), want
}

func (r *releaser) withdraw(node, kind, name string) uint64 {
	return r.p.publish(policy.ArtifactWithdrawn{ID: uuid.New(), Project: project, Node: policy.NodeID(node), Kind: kind, Name: name})
}

// artifactTold is how a client writes down an artifact_updated.
func artifactTold(kind, name, node string, version uint64, doc string) string {
	return fmt.Sprintf("%s.%s of %s v%d: %s", kind, name, node, version, doc)
}

func TestNodesAreToldOfTheirArtifacts(t *testing.T) {
	p := newPlane(t)
	r := newReleaser(p)
	for _, id := range []string{"n0", "n1", "n2"} {
		p.node(id, "role=a")
	}
	dir, elsewhere := t.TempDir(), t.TempDir()
	w := p.start(dir, relay.Options{})
	p.ready(w)
	p.synced(w)
	live, silent := p.follow(w, "n0", ""), p.follow(w, "n1", "")
	hears := func(c *client, want ...string) {
		t.Helper()
		p.eventually(func() bool { return len(c.seen()) >= len(want) }, "told")
		require.Equal(t, want, c.seen())
	}

	_, v1 := r.release("n0", 1, 1, "flor")
	hears(live, v1...)
	_, v2 := r.release("n0", 2, 1, "flor", "wg")
	hears(live, slices.Concat(v1, v2)...)
	r.withdraw("n0", "vertex", "wg")
	gone := artifactTold("vertex", "wg", "n0", 0, "")
	hears(live, slices.Concat(v1, v2, []string{gone})...)
	p.revise(policyID(1), "role=a", 443)
	hears(silent, "01=1") // and nothing of another node's artifacts
	last := live.last()
	var other *worker

	t.Run("who resumes gets the last word on each", func(t *testing.T) {
		hears(p.follow(w, "n0", "0"), slices.Concat([]string{"pull"}, v2[:2], []string{gone, "01=1"})...)
	})
	t.Run("a document that no line has room for is to be pulled", func(t *testing.T) {
		_, large := r.release("n2", 1, 20_000, "flor")
		hears(p.followFrom(w, "n2", "0", 4), "pull", "01=1", large[0], "pull")
	})
	t.Run("over NATS it is the plane's word, around the signer's", func(t *testing.T) {
		nc, err := nats.Connect(p.server.ClientURL())
		require.NoError(t, err)
		defer nc.Close()
		sub, err := nc.SubscribeSync("edict.live.node.n1.>")
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
		seq, want := r.release("n1", 7, 20_000, "flor")
		trust := artifact.NewTrustSet()
		require.NoError(t, trust.Add(artifact.PlanePolicy, p.signer.KeyID(), p.signer.PublicKey(), time.Time{}))
		for i, name := range []string{"agent.agent", "vertex.flor"} {
			m, err := sub.NextMsg(10 * time.Second)
			require.NoError(t, err)
			require.Equal(t, "edict.live.node.n1.artifact."+name, m.Subject)
			require.Equal(t, fmt.Sprintf("n1.artifact.%s.%d", name, seq), m.Header.Get("Edict-Id"))
			e, err := trust.Open(m.Data)
			require.NoError(t, err)
			kind, part, _ := strings.Cut(name, ".")
			require.NoError(t, e.Expect(artifact.Identity{Node: "n1", Plane: artifact.PlanePolicy, Kind: kind, Name: part}))
			require.Equal(t, seq, e.Version)
			require.Equal(t, want[i], toldIn(t, e.Payload))
		}
	})
	t.Run("another process goes on where one was", func(t *testing.T) {
		w.stop()
		_, v3 := r.release("n0", 3, 1, "flor")
		p.publish(policy.NodeRemoved{ID: uuid.New(), Project: project, Node: "n1"})
		other = p.start(elsewhere, relay.Options{})
		p.ready(other)
		p.synced(other)
		c := p.follow(other, "n0", last)
		p.eventually(func() bool { s := c.seen(); return len(s) > 1 && slices.Equal(s[len(s)-2:], v3) }, "told by another")
		hears(p.followFrom(other, "n1", "0", 4), "pull", "01=0", artifactTold("agent", "agent", "n1", 0, ""), artifactTold("vertex", "flor", "n1", 0, ""))
	})
	t.Run("a stream that was remade is filled from what nodes hold", func(t *testing.T) {
		other.stop()
		w := p.start(dir, relay.Options{})
		p.ready(w)
		_, _, err := streams.RemakeNodes(t.Context(), p.conn, streams.NodesOptions{LogID: p.log.ID()}, 0)
		require.NoError(t, err)
		n, _, err := streams.OpenNodes(t.Context(), p.conn, streams.NodesOptions{})
		require.NoError(t, err)
		p.eventually(func() bool {
			msgs, _, err := n.Last(t.Context(), 0, "edict.fence.*", "edict.mark.day.*", "edict.node.n0.artifact.>")
			return err == nil && 2 == len(slices.DeleteFunc(msgs, func(m streams.Message) bool { return !strings.HasPrefix(m.Subject, "edict.node.") }))
		}, "told again")
	})
}

// synced waits until the first syncs of a process are over, their marks
// included.
func (p *plane) synced(w *worker) {
	p.t.Helper()
	n, _, err := streams.OpenNodes(p.t.Context(), p.conn, streams.NodesOptions{})
	require.NoError(p.t, err)
	p.eventually(func() bool {
		all, err := w.Partitions()
		return err == nil && !slices.ContainsFunc(all, func(s relay.PartitionStatus) bool { return s.Mode != relay.Follow || s.Owner != w.Owner() })
	}, "synced")
	end, err := n.State(p.t.Context())
	require.NoError(p.t, err)
	p.eventually(func() bool { at, _ := w.Position(); return at >= end.Last }, "released")
}

func toldIn(t *testing.T, payload []byte) string {
	t.Helper()
	var x relay.ArtifactUpdated
	require.NoError(t, json.Unmarshal(payload, &x))
	require.NotNil(t, x.Document)
	return artifactTold(x.Kind, x.Name, string(x.NodeID), x.Version, *x.Document)
}

// followFrom follows until n events came.
func (p *plane) followFrom(w *worker, node, last string, n int) *client {
	p.t.Helper()
	c := p.follow(w, node, last)
	p.eventually(func() bool { return len(c.seen()) >= n }, "events came")
	return c
}
