package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/test/binary"
	"github.com/edictdev/edict/policy"
)

var many = flag.Int("gateway.nodes", 600, "nodes that the first plane has")

var (
	mine   = uuid.MustParse("00000000-0000-4000-8000-000000000000")
	others = uuid.MustParse("00000000-0000-4000-8000-000000000001")
)

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }

type running struct {
	*client.Client
	nats string
}

func startPlane(t *testing.T) running {
	p := binary.Serve(t, "--durability", "relaxed")
	c, err := client.New(p.URL, client.Options{})
	require.NoError(t, err)
	return running{c, p.NATS}
}

// nodes puts n nodes into a project.
func (r running) nodes(t *testing.T, project uuid.UUID, prefix string, n int) {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "{\"id\":\"%s-%d\",\"labels\":{\"role\":\"web\",\"rack\":\"r%d\"},\"addresses\":[]}\n", prefix, i, i%50)
	}
	res, err := r.Nodes.Import(t.Context(), project, strings.NewReader(lines.String()))
	require.NoError(t, err)
	require.Empty(t, res.Rejected)
}

// has is everything of a project: its nodes and its policies' heads.
func (r running) has(t *testing.T, project uuid.UUID) (all []string) {
	for n, err := range r.Nodes.All(t.Context(), project, "") {
		require.NoError(t, err)
		all = append(all, fmt.Sprint(n.ID, n.Labels))
	}
	for p, err := range r.Policies.All(t.Context(), project) {
		require.NoError(t, err)
		all = append(all, fmt.Sprint(p.Slug, p.ID, p.HeadRevisionID))
	}
	return all
}

func (r running) status(t *testing.T) resource.Status {
	s, err := r.Status(t.Context(), false)
	require.NoError(t, err)
	return s
}

func forward(t *testing.T, from, to running, state string) int {
	g := gateway{projects: []string{mine.String()}, state: state, once: true}
	require.NoError(t, g.connect(from.nats, "", to.nats, ""))
	defer g.from.Conn().Close()
	defer g.to.Conn().Close()
	require.NoError(t, g.run(t.Context()))
	require.Eventually(t, func() bool { s := to.status(t); return s.Applied >= s.Head }, time.Minute, time.Millisecond)
	return g.forwarded
}

func TestASecondPlaneComesToTheSame(t *testing.T) {
	from, to := startPlane(t), startPlane(t)
	from.nodes(t, mine, "n", *many)
	from.nodes(t, others, "o", 5)
	rule := resource.Rule{Action: "allow", Protocol: "tcp", SourceCIDR: "10.0.0.0/8", DestinationCIDR: "10.0.0.0/8", Ports: &resource.Ports{From: 80, To: 80}}
	p, err := from.Policies.Create(t.Context(), mine, resource.Draft{Slug: "web", Selector: resource.Selector{Source: "role=web", Destination: "role=web"}, Rules: []resource.Rule{rule}})
	require.NoError(t, err)
	state := filepath.Join(t.TempDir(), "gateway.json")

	began := time.Now()
	require.Equal(t, *many+1, forward(t, from, to, state))
	t.Logf("%d events in %s", *many+1, time.Since(began).Round(time.Millisecond))
	require.Equal(t, from.has(t, mine), to.has(t, mine), "ids are kept")
	require.Empty(t, to.has(t, others), "a project that was not chosen stays")

	// It goes on where it was.
	rule.Ports = &resource.Ports{From: 443, To: 443}
	_, err = from.Policies.Revise(t.Context(), mine, p.ID, resource.Patch{Rules: []resource.Rule{rule}})
	require.NoError(t, err)
	require.NoError(t, from.Nodes.Delete(t.Context(), mine, "n-0"))
	require.Equal(t, 2, forward(t, from, to, state))
	require.Equal(t, from.has(t, mine), to.has(t, mine))
	require.Zero(t, forward(t, from, to, state))

	// A cut before the position was kept forwards twice, and the fold counts once.
	require.NoError(t, os.Remove(state))
	require.Equal(t, *many+3, forward(t, from, to, state))
	require.Equal(t, from.has(t, mine), to.has(t, mine))
	rejected, err := to.Rejected(t.Context(), 0, 0)
	require.NoError(t, err)
	require.Len(t, rejected.Items, 1)
	require.Equal(t, "stale_event", rejected.Items[0].Code, "facts of the node that went; newer ones followed, and stay")

	g := gateway{state: state}
	_, err = g.begin("another log")
	require.ErrorContains(t, err, "remove the file")
}

// keyed is a NATS server of one's own, as edict nats bootstrap sets it up.
func keyed(t *testing.T, keys *access.NATSKeys) string {
	config, err := keys.Config(access.NATSServer{Listen: "127.0.0.1:-1", Store: t.TempDir()})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	opt, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	opt.NoLog, opt.NoSigs = true, true
	s, err := server.NewServer(opt)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(20*time.Second))
	return s.ClientURL()
}

// At servers with accounts it reads as a worker and appends as a producer, as docs/scale.md says.
func TestAProducersCredentialsAreEnough(t *testing.T) {
	dir := t.TempDir()
	keys, err := access.MakeNATSKeys(filepath.Join(dir, "keys"))
	require.NoError(t, err)
	c, err := keys.Producer("gw", []policy.Relation{{Kind: policy.ObjectProject, ID: mine, Name: policy.RelationOperator}}, time.Time{})
	require.NoError(t, err)
	producer, worker := filepath.Join(dir, "gw.creds"), filepath.Join(dir, "keys", "worker.creds")
	require.NoError(t, c.Write(producer))
	from, to := keyed(t, keys), keyed(t, keys)
	for _, url := range []string{from, to} {
		nc, err := nats.Connect(url, nats.UserCredentials(worker))
		require.NoError(t, err)
		defer nc.Close()
		js, err := jetstream.New(nc)
		require.NoError(t, err)
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EDICT_LOG", Subjects: []string{"edict.log.>"}})
		require.NoError(t, err)
		if url == from {
			_, err = js.Publish(t.Context(), "edict.log."+mine.String()+".node.n1", []byte("{}"))
			require.NoError(t, err)
		}
	}
	g := gateway{projects: []string{mine.String()}, principal: "gw", state: filepath.Join(dir, "gateway.json"), once: true}
	require.NoError(t, g.connect(from, worker, to, producer))
	defer g.from.Conn().Close()
	defer g.to.Conn().Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, g.run(ctx))
	require.Equal(t, 1, g.forwarded)
}
