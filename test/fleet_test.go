package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/leftout"
	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/policy"
)

// statusOf is what GET /v1/status says, as far as these tests ask.
type statusOf struct {
	Head, Applied     uint64
	Nodes, Identities int
	Policies          int
	Rejected          uint64
	Digest            string
	Durability        string
	Past              struct{ From, Records, Bytes, Dropped uint64 }
	Partitions        []struct {
		ID        int
		Publisher string
		Upto      uint64
	}
}

func (p *process) status(query string) (s statusOf) {
	p.t.Helper()
	require.NoError(p.t, json.Unmarshal(p.do("GET", "/v1/status"+query, nil, 200), &s))
	return s
}

// announced waits until every partition has a publisher that has sent all of the
// log.
func (p *process) announced() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		s := p.status("")
		for _, x := range s.Partitions {
			if x.Publisher == "" || x.Upto < s.Head {
				return false
			}
		}
		return s.Head == s.Applied
	}, 60*time.Second, 20*time.Millisecond, "events stay untold")
}

// equalsOracle compares every node's state with the oracle's, to the byte. States that
// are resolved have other rules; TestOnePolicyHasOneMeaning compares what they mean.
func (p *process) equalsOracle(plane *oracle.Plane) {
	p.t.Helper()
	require.NoError(p.t, p.differsFromOracle(plane))
}

func (p *process) differsFromOracle(plane *oracle.Plane) error {
	var g errgroup.Group
	g.SetLimit(8)
	for _, node := range plane.Nodes() {
		g.Go(func() error {
			want, _ := plane.State(node)
			got, _ := p.state(node)
			if strings.Contains(got, `,"resolved":true}`) && plane.MayConflict(node) {
				return nil
			}
			if got != want {
				return fmt.Errorf("state of %s:\n got %.300s\nwant %.300s", node, got, want)
			}
			return nil
		})
	}
	return g.Wait()
}

// TestAFleetOnRealPolicies loads a cloud provider's published ranges as
// policies and registers nodes with the commands a user would type.
func TestAFleetOnRealPolicies(t *testing.T) {
	policies, nodes := fleetInput(t)
	dir := t.TempDir()
	file := func(name string, lines [][]byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, append(bytes.Join(lines, []byte("\n")), '\n'), 0o600))
		return path
	}
	var policyLines, nodeLines [][]byte
	for _, x := range policies {
		policyLines = append(policyLines, x.JSON())
	}
	for _, n := range nodes {
		nodeLines = append(nodeLines, n.JSON())
	}
	policyFile, nodeFile := file("policies.ndjson", policyLines), file("nodes.ndjson", nodeLines)
	p := serve(t)

	out, code := p.run("policy", "apply", "-f", policyFile)
	require.Zero(t, code)
	require.Equal(t, len(policies), strings.Count(out, " created"), out)
	_, code = p.run("node", "import", "-f", nodeFile)
	require.Zero(t, code)
	out, code = p.run("policy", "apply", "-f", policyFile)
	require.Zero(t, code)
	require.Equal(t, len(policies), strings.Count(out, " unchanged"), "applied again")

	plane := p.readFacts(policies, nodes)
	s := p.status("")
	require.Equal(t, [3]int{len(nodes), len(policies), 0}, [3]int{s.Nodes, s.Policies, int(s.Rejected)})
	p.equalsOracle(plane)

	p.announced()
	keys := p.publicKeys()
	for i := 50; i < len(nodes); i += upTo(51, 251) { // the first one matches all policies, the others a few
		p.hears(nodes[i].ID, plane.Rows(nodes[i].ID), keys)
	}

	out, code = p.run("replay", "--data", filepath.Join(dir, "rebuilt"))
	require.Zero(t, code)
	var rebuilt struct{ Digest string }
	require.NoError(t, json.Unmarshal([]byte(out), &rebuilt), out)
	require.Len(t, rebuilt.Digest, 64)
	require.Equal(t, p.status("?digest=true").Digest, rebuilt.Digest, "a rebuild equals the live store")
}

// fleetInput is the provider's policies where the fixtures are, else some of
// the same shape.
func fleetInput(t *testing.T) ([]gen.Policy, []gen.Node) {
	g := gen.New(1)
	policies, err := gen.AWS()
	if errors.Is(err, gen.ErrNoFixtures) {
		leftout.Less(t, err)
		policies, err = g.AWSLike(600), nil
	}
	require.NoError(t, err)
	policies = policies[:upTo(150, len(policies))]
	return policies, g.AWSNodes(policies, upTo(200, 10_000))
}

// readFacts tells an oracle the facts, with the ids the plane gave them.
func (p *process) readFacts(policies []gen.Policy, nodes []gen.Node) *oracle.Plane {
	p.t.Helper()
	plane := &oracle.Plane{}
	bodies := map[string]oracle.Body{}
	for _, x := range policies {
		var b oracle.Body
		require.NoError(p.t, json.Unmarshal(x.JSON(), &b))
		bodies[x.Slug] = b
	}
	cursor := ""
	for more := true; more; more = cursor != "" {
		var page struct {
			Items []struct {
				ID             string `json:"id"`
				Slug           string `json:"slug"`
				HeadRevisionID string `json:"head_revision_id"`
			} `json:"items"`
			NextCursor *string `json:"next_cursor"`
		}
		require.NoError(p.t, json.Unmarshal(p.do("GET", "/v1/projects/"+defaultProject+"/policies?limit=200&cursor="+cursor, nil, 200), &page))
		for _, x := range page.Items {
			require.NoError(p.t, plane.SetPolicy(defaultProject, x.ID, x.HeadRevisionID, bodies[x.Slug]))
		}
		cursor = ""
		if page.NextCursor != nil {
			cursor = *page.NextCursor
		}
	}
	for _, n := range nodes {
		plane.SetNode(defaultProject, n.ID, n.Labels)
	}
	return plane
}

// hears follows a node from 0 and wants a word to pull, then every row.
func (p *process) hears(node string, rows []oracle.Row, keys map[string][]byte) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l := newLedger(node)
	last := ""
	err := stream(ctx, p, node, "0", keys, func(m received) bool {
		l.take(m)
		last = l.differs(rows)
		return last != ""
	})
	require.NoError(p.t, err, last)
	require.Len(p.t, l.pulls, 1)
}

// TestAGeneratedWorldOverNATS has a plain NATS client append a history of every
// kind of change, with every kind of selector and rule, and compares all nodes.
func TestAGeneratedWorldOverNATS(t *testing.T) {
	p := serve(t)
	plane := p.produce(upTo(300, 600))
	p.equalsOracle(plane)
	p.announced()
	keys := p.publicKeys()
	for i, node := range plane.Nodes() {
		if i%10 == 0 {
			p.hears(node, plane.Rows(node), keys)
		}
	}
}

// produce appends n generated events and tells an oracle the same.
func (p *process) produce(n int) *oracle.Plane {
	t := p.t
	t.Helper()
	nc, err := nats.Connect("nats://" + p.nats)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	g := gen.New(7)
	steps := g.History(g.World(40, 200), n)
	plane := &oracle.Plane{}
	var last uint64
	for i, e := range gen.NewScribe(defaultProject, 7).WriteAll(steps) {
		require.NoError(t, plane.Apply(e.Body), steps[i])
		ack, err := js.Publish(t.Context(), e.Subject, e.Body, jetstream.WithMsgID(e.ID))
		require.NoError(t, err)
		last = ack.Sequence
	}
	require.True(t, waitFor(20*time.Second, func() bool { return p.status("").Applied >= last }))
	require.Zero(t, p.status("").Rejected, "the generator writes what the fold accepts")
	return plane
}

// TestTheOracleNoticesAProductThatMatchesOneSide has the product match the source of
// each selector alone, and wants the comparison of the other tests to find it.
func TestTheOracleNoticesAProductThatMatchesOneSide(t *testing.T) {
	bin, err := struck()
	require.NoError(t, err)
	p := newProcess(t, bin)
	p.env = []string{"EDICT_MUTANT=" + string(fault.OneSide) + ":1"}
	p.start()
	require.ErrorContains(t, p.differsFromOracle(p.produce(60)), "state of ")
}

// TestWhereANodeResumes asks for the stream from every kind of place.
func TestWhereANodeResumes(t *testing.T) {
	p := serve(t)
	s := &story{process: p, policies: map[string]head{}}
	s.keys = p.publicKeys()
	p.announced()
	s.label("a", map[string]string{"role": "web"})
	for i := range 5 {
		s.create(fmt.Sprintf("p%d", i), "role=web", "role=nobody", []oracle.Rule{tcp(1000 + i)})
	}
	p.announced()
	everything := p.frames("a", "0", 6, s.keys)
	require.True(t, everything[0].Pull, "an id of another log: a word to pull first")
	rows := everything[1:]
	for i, m := range rows {
		require.Equal(t, s.policies[fmt.Sprintf("p%d", i)].id, m.Policy, "in the order of events")
		require.Greater(t, m.ID, everything[i].ID)
	}
	last := rows[4].ID

	resumes := func(when string) {
		t.Helper()
		for name, c := range map[string]struct {
			id   policy.EventID
			want []received
		}{
			"after the first":       {rows[0].ID, rows[1:]},
			"between two":           {rows[2].ID, rows[3:]},
			"between the first two": {rows[0].ID + 1, rows[1:]},
			"after the node came":   {rows[0].ID - 1<<22, rows},
		} {
			require.Equal(t, c.want, p.frames("a", fmt.Sprint(c.id), len(c.want), s.keys), "%s, %s", when, name)
		}
		for name, id := range map[string]policy.EventID{
			"beyond the end": last + 1_000<<22, "of a far larger number": 1<<64 - 1,
			"of a log before this one": everything[0].ID - 1, "of a stream that was stored": 1_764_000_000_000_000,
		} {
			require.Equal(t, everything, p.frames("a", fmt.Sprint(id), 6, s.keys), "%s, %s: a word, not silence, and everything", when, name)
		}
	}
	resumes("live")
	p.kill()
	p.start()
	resumes("after a kill")
	p.kill()
	require.NoError(t, os.RemoveAll(filepath.Join(p.data, "store")))
	p.start()
	resumes("from a read model that was rebuilt")
}

// frames reads the first n frames of a stream.
func (p *process) frames(node, lastEventID string, n int, keys map[string][]byte) []received {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var got []received
	err := stream(ctx, p, node, lastEventID, keys, func(m received) bool {
		got = append(got, m)
		return len(got) < n
	})
	require.NoError(p.t, err, "after %d of %d frames from %s", len(got), n, lastEventID)
	return got
}
