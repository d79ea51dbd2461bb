package plane

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/streams"
)

// voyage is a plane with nodes a1 and a2 that are canaries, e1 in the region eu, and
// z1, which is neither.
type voyage struct {
	*client.Client
	t *testing.T
}

var abroad = map[string]map[string]string{
	"a1": {"canary": "true"}, "a2": {"canary": "true"}, "e1": {"region": "eu"}, "z1": {},
}

func (v voyage) embark() {
	for id, more := range abroad {
		labels := map[string]string{"role": "web"}
		for k, value := range more {
			labels[k] = value
		}
		_, _, err := v.Nodes.Put(v.t.Context(), project, id, resource.Facts{Labels: labels})
		require.NoError(v.t, err)
	}
}

func ports(port uint16) []resource.Rule {
	return []resource.Rule{{
		Action: "allow", Protocol: "tcp", SourceCIDR: "10.0.0.0/8", DestinationCIDR: "10.0.0.0/8", Ports: &resource.Ports{From: port, To: port},
	}}
}

var everyone = resource.Selector{Source: "role=web", Destination: "role=none"}

// begin publishes a policy, and promotes its next revision: canaries, eu, all.
func (v voyage) begin(slug, onRefusal string) uuid.UUID {
	p, err := v.Policies.Create(v.t.Context(), project, resource.Draft{Slug: slug, Selector: everyone, Rules: ports(80)})
	require.NoError(v.t, err)
	v.again(p.ID, 81, onRefusal, "canary=true", "region=eu")
	return p.ID
}

func (v voyage) again(id uuid.UUID, port uint16, onRefusal string, waves ...string) {
	_, err := v.Policies.Stage(v.t.Context(), project, id, resource.Preview{Selector: everyone, Rules: ports(port)})
	require.NoError(v.t, err)
	x, err := v.Policies.Promote(v.t.Context(), project, id, resource.Promotion{Waves: waves, OnRefusal: onRefusal})
	require.NoError(v.t, err)
	require.Equal(v.t, 1, x.Opened)
}

// say reports that nodes applied what they have; with a reason, that they refused it.
func (v voyage) say(reason string, nodes ...string) {
	v.t.Helper()
	for _, id := range nodes {
		print, seq := v.fingerprint(id)
		said := resource.Applied{Version: seq, Fingerprint: print, Reason: reason}
		if reason != "" {
			said.Outcome = "refused"
		}
		require.Eventually(v.t, func() bool { return v.Nodes.ReportApplied(v.t.Context(), id, said) == nil }, 20*time.Second, 10*time.Millisecond)
	}
}

func (v voyage) waves(id uuid.UUID) resource.Waves {
	r, err := v.Policies.Rollout(v.t.Context(), project, id, 1)
	require.NoError(v.t, err)
	require.NotNil(v.t, r.Waves)
	return *r.Waves
}

// until waits for a rollout to be somewhere.
func (v voyage) until(id uuid.UUID, phase string, opened int) resource.Waves {
	v.t.Helper()
	var x resource.Waves
	ok := func() bool {
		x = v.waves(id)
		return x.Phase == phase && x.Opened == opened
	}
	require.Eventually(v.t, ok, 30*time.Second, 10*time.Millisecond, "%s at %d; it is %+v", phase, opened, &x)
	return x
}

// TestACanaryThatIsRefusedStopsItsRollout: nodes report, nobody says next-wave, and
// the waves open and stop by themselves.
func TestACanaryThatIsRefusedStopsItsRollout(t *testing.T) {
	at, _ := start(t, Options{Data: t.TempDir(), Relaxed: true})
	v := voyage{newClient(t, at), t}
	v.embark()
	id := v.begin("web", "")
	v.say("", "a1")
	v.say("nft: no room", "a2")
	x := v.until(id, "stopped", 1)
	require.Equal(t, "1 of 2 nodes of wave 1 refused it, and 1% may; a2: nft: no room", x.Reason)
	v.say("", "a2")
	_, err := v.Policies.OpenWave(t.Context(), project, id, resource.NextWave{Wave: 2})
	require.NoError(t, err, "a person goes on")
	v.say("", "a1", "a2", "e1")
	v.until(id, "completed", 3)

	v.again(id, 82, "abort", "region=eu")
	v.say("not here", "e1")
	x = v.until(id, "aborted", 1)
	require.Equal(t, "1 of 1 nodes of wave 1 refused it, and 1% may; e1: not here", x.Reason)
	reached, _ := v.fingerprint("e1")
	other, _ := v.fingerprint("z1")
	require.Equal(t, other, reached, "it went back by itself")
}

// TestARestartNeitherOpensNorStopsAWave: what nodes said before counts after it, and
// what they did not say counts as nothing.
func TestARestartNeitherOpensNorStopsAWave(t *testing.T) {
	dir := t.TempDir()
	at, stop := start(t, Options{Data: dir, Relaxed: true})
	v := voyage{newClient(t, at), t}
	v.embark()
	waits := v.begin("waits", "abort")
	goes := v.begin("goes", "abort")
	v.say("", "a1")
	stop()
	at, stop = start(t, Options{Data: dir, Relaxed: true})
	v.Client = newClient(t, at)
	require.Equal(t, 1, v.waves(waits).Opened)
	// The other rollout shows that the new process looks at both, more than once.
	_, err := v.Policies.Abort(t.Context(), project, waits, resource.Abort{})
	require.NoError(t, err)
	v.again(waits, 82, "abort", "role=web,!canary,!region", "region=eu")
	v.say("", "a1", "a2")
	v.until(goes, "progressing", 2)
	v.say("", "e1")
	v.until(goes, "completed", 3)
	require.Equal(t, 1, v.waves(waits).Opened, "z1 has said nothing")
	require.Equal(t, "progressing", v.waves(waits).Phase)
	stop()
	at, _ = start(t, Options{Data: dir, Relaxed: true})
	v.Client = newClient(t, at)
	v.say("", "z1")
	v.until(waits, "progressing", 2)
	v.say("", "e1")
	v.until(waits, "completed", 3)
}

// TestTwoWorkersAndAReplayHaveTheSameWaves: both workers may act, one event counts,
// and a worker that folds the log later knows the same.
func TestTwoWorkersAndAReplayHaveTheSameWaves(t *testing.T) {
	server, err := streams.StartServer(streams.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", Relaxed: true})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	key := t.TempDir() + "/key.pem"
	_, err = artifact.LoadOrCreateSigner(key)
	require.NoError(t, err)
	worker := func(name string) voyage {
		at, _ := start(t, Options{Data: t.TempDir(), Name: name, NATS: server.ClientURL(), SigningKey: key})
		return voyage{newClient(t, at), t}
	}
	one, two := worker("w1"), worker("w2")
	one.embark()
	id := one.begin("web", "")
	one.say("", "a1")
	two.say("", "a2")
	two.until(id, "progressing", 2)
	one.until(id, "progressing", 2)
	one.say("no", "e1")
	stopped := two.until(id, "stopped", 2)
	require.Equal(t, stopped, worker("w3").until(id, "stopped", 2))
	digest := func(v voyage) string {
		s, err := v.Status(t.Context(), true)
		require.NoError(t, err)
		return fmt.Sprint(s.Applied, s.Digest)
	}
	require.Equal(t, digest(one), digest(worker("w4")))
	require.Equal(t, []string{"policy_revision_promoted", "policy_wave_opened", "policy_rollout_stopped"}, one.moves(id))
}

// moves are the events that moved the rollout of a policy.
func (v voyage) moves(id uuid.UUID) (types []string) {
	page, err := v.Audit(v.t.Context(), 0, 1000)
	require.NoError(v.t, err)
	for _, e := range page.Items {
		moved := strings.Contains(e.Type, "promoted") || strings.Contains(e.Type, "wave") || strings.Contains(e.Type, "rollout")
		if e.Rejected == "" && moved && strings.HasSuffix(e.Subject, id.String()) {
			types = append(types, e.Type)
		}
	}
	return types
}

// fingerprint is that of what a node has.
func (v voyage) fingerprint(node string) (print string, seq uint64) {
	state, err := v.Nodes.State(v.t.Context(), node, client.StateQuery{})
	require.NoError(v.t, err)
	var has resource.NodeState
	require.NoError(v.t, json.Unmarshal(state.Body, &has))
	return has.Policy.Fingerprint, state.LogSeq
}
