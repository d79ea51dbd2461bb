package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/issuer"
	"github.com/edictdev/edict/internal/test/oracle"
)

// TestTheConsoleOfAFleetInABrowser has a browser look at 10,000 nodes and a cloud
// provider's policies, and compares what it shows with an oracle that was told the same.
// Then it follows an hour's events, through a kill -9. ui/test/fleet.mjs has the steps.
func TestTheConsoleOfAFleetInABrowser(t *testing.T) {
	if !*consoleLong {
		return // make test-console has it
	}
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	browser := aBrowser(t, root)
	i := issuer.New(t).ByName()
	f := &shownFleet{shownWorld: &shownWorld{process: guardedPlane(t, "--decision-log", "--rate", "0"), issuer: i}}
	f.load()
	f.drive(filepath.Join(root, "ui"), "test/fleet.mjs", f.given(browser), map[string]func(string) string{
		"events": f.moved, "fill": f.filled,
	})
}

const fleetNodes = 10_000

// shownFleet is a plane with a fleet on real policies.
type shownFleet struct {
	*shownWorld
	policies []gen.Policy
	nodes    []gen.Node
	oracle   *oracle.Plane
	moves    int
}

// load fills the plane, and tells the oracle.
func (f *shownFleet) load() {
	f.policies, _ = fleetInput(f.t)
	f.nodes = gen.New(1).AWSNodes(f.policies, fleetNodes)
	lines := func(name string, n int, line func(i int) []byte) {
		var text bytes.Buffer
		for i := range n {
			text.Write(line(i))
			text.WriteByte('\n')
		}
		path := f.file(name, text.Bytes())
		if name == "nodes.ndjson" {
			f.ok("node", "import", "-f", path)
			return
		}
		f.ok("policy", "apply", "-f", path)
	}
	policy := func(i int) []byte { return f.policies[i].JSON() }
	lines("policies.ndjson", len(f.policies), policy)
	lines("nodes.ndjson", len(f.nodes), func(i int) []byte { return f.nodes[i].JSON() })
	var follow []string
	for i := range 400 {
		follow = append(follow, f.nodes[25*i+7].ID)
	}
	f.reported(follow, func(i int) bool { return i%40 == 7 })
	f.policies[3].Rules[0].Ports = &gen.Ports{From: 443, To: 444}
	lines("again.ndjson", len(f.policies), policy)
	f.ok("admission", "apply", "-f", f.file("no-telnet.rego", []byte(noTelnet)))
	f.do("POST", "/api/v1/engine/evaluate", json.RawMessage(`{"request_payload":{"service_type":"network-policy","rules":[]}}`), 200)
	f.oracle = f.readFacts(f.policies, f.nodes)
	f.policy = f.idOf(f.policies[3].Slug)
}

// given is what the steps must know, and what the oracle expects them to see.
func (f *shownFleet) given(browser string) map[string]any {
	node := f.nodes[slices.IndexFunc(f.nodes, func(n gen.Node) bool { return len(n.Labels) > 6 })]
	rows := f.oracle.Rows(node.ID)
	require.Greater(f.t, len(rows), 2)
	slugs, ids := []string{}, map[string]string{}
	for _, x := range f.policies {
		ids[f.idOf(x.Slug)] = x.Slug
	}
	for _, r := range rows {
		slugs = append(slugs, ids[r.Policy])
	}
	slices.Sort(slugs)
	at := slices.IndexFunc(f.policies, func(p gen.Policy) bool { return p.Slug == slugs[len(slugs)-1] })
	rules := f.policies[at].Rules
	peer := netip.MustParsePrefix(rules[len(rules)-1].DestinationCIDR).Addr()
	var block struct{ Fingerprint string }
	require.NoError(f.t, json.Unmarshal([]byte(f.oracle.Block(node.ID)), &block))
	g := f.shownWorld.given(browser)
	g["node"], g["flow"] = node.ID, map[string]any{"direction": "egress", "peer": peer.String(), "protocol": "tcp", "port": 443}
	g["expected"] = map[string]any{
		"nodes": len(f.nodes), "env": f.byLabel("env"), "policies": f.slugs(), "rules": len(f.policies[3].Rules), "selected": f.selected(f.policy),
		"fingerprint": block.Fingerprint, "obeys": slugs,
	}
	return g
}

func (f *shownFleet) slugs() (all []string) {
	for _, p := range f.policies {
		all = append(all, p.Slug)
	}
	return all
}

// byLabel counts nodes by the value of a label, without one under the empty value.
func (f *shownFleet) byLabel(key string) map[string]int {
	counts := map[string]int{}
	for _, n := range f.nodes {
		counts[n.Labels[key]]++
	}
	return counts
}

// selected is how many nodes have a row of a policy, as the oracle says, which is asked
// once a label set.
func (f *shownFleet) selected(policy string) (n int) {
	known := map[string]bool{}
	for _, x := range f.nodes {
		set := fmt.Sprint(x.Labels)
		if _, ok := known[set]; !ok {
			known[set] = slices.ContainsFunc(f.oracle.Rows(x.ID), func(r oracle.Row) bool { return r.Policy == policy })
		}
		if known[set] {
			n++
		}
	}
	return n
}

// moved gives every node another address, an event each, and says where the log ends.
func (f *shownFleet) moved(string) string {
	f.moves++
	var text bytes.Buffer
	for i, n := range f.nodes {
		n.Addresses = []string{fmt.Sprintf("100.%d.%d.%d", 64+f.moves, i>>8&255, i&255)}
		text.Write(n.JSON())
		text.WriteByte('\n')
	}
	f.ok("node", "import", "-f", f.file("moved.ndjson", text.Bytes()))
	return fmt.Sprint(f.status("").Head)
}

// filled has the project have 1,000 policies.
func (f *shownFleet) filled(string) string {
	var text bytes.Buffer
	for i, p := range gen.New(7).AWSLike(1000 - len(f.policies)) {
		p.Slug = fmt.Sprintf("more-%03d", i)
		text.Write(p.JSON())
		text.WriteByte('\n')
	}
	path := f.file("more.ndjson", text.Bytes())
	if _, code := f.run("policy", "apply", "-f", path); code != 0 {
		f.ok("policy", "apply", "-f", path) // on a busy machine an admission policy runs out of time
	}
	return "filled"
}
