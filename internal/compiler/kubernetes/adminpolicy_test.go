package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// asAdmin says what a ClusterNetworkPolicy says in the words of the kinds before it.
func asAdmin(t require.TestingT, p kPolicy) []byte {
	s := p.Spec.(cSpec)
	rules := func(of []cRule, peers string) (all []map[string]any) {
		for _, r := range of {
			one := map[string]any{"action": map[string]string{"Accept": "Allow", "Deny": "Deny", "Pass": "Pass"}[r.Action], peers: r.From}
			if peers == "to" {
				one[peers] = r.To
			}
			var ports []map[string]any
			for _, q := range r.ports {
				switch {
				case q.Port == 0:
					ports = append(ports, map[string]any{"portRange": map[string]any{"protocol": q.Protocol, "start": 1, "end": 65535}})
				case q.EndPort > 0:
					ports = append(ports, map[string]any{"portRange": map[string]any{"protocol": q.Protocol, "start": q.Port, "end": q.EndPort}})
				default:
					ports = append(ports, map[string]any{"portNumber": map[string]any{"protocol": q.Protocol, "port": q.Port}})
				}
			}
			if len(ports) > 0 {
				one["ports"] = ports
			}
			all = append(all, one)
		}
		return all
	}
	spec := map[string]any{"subject": s.Subject, "ingress": rules(s.Ingress, "from"), "egress": rules(s.Egress, "to"), "priority": s.Priority}
	kind := "AdminNetworkPolicy"
	if s.Tier == "Baseline" {
		kind = "BaselineAdminNetworkPolicy"
		delete(spec, "priority")
	}
	doc, err := json.Marshal(kPolicy{adminGroup, kind, p.Metadata, spec})
	require.NoError(t, err)
	return doc
}

// TestTheKindsBeforeMeanTheSame: an AdminNetworkPolicy becomes what a
// ClusterNetworkPolicy of the same rules does, a BaselineAdminNetworkPolicy the same
// behind those that have a priority.
func TestTheKindsBeforeMeanTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawCluster(t, rapid.IntRange(0, 1000).Draw(t, "priority"))
		s := p.Spec.(cSpec)
		if s.Tier == "Baseline" {
			for _, list := range [][]cRule{s.Ingress, s.Egress} {
				for i := range list {
					list[i].Action = rapid.SampledFrom([]string{"Accept", "Deny"}).Draw(t, "of two")
				}
			}
		}
		doc, err := json.Marshal(p)
		require.NoError(t, err)
		want, got := Translate([][]byte{doc}, Options{}), Translate([][]byte{asAdmin(t, p)}, Options{})
		require.Empty(t, got.Items)
		require.Len(t, got.Policies, len(want.Policies))
		for i, w := range want.Policies {
			g := got.Policies[i]
			if !Rest(g.Slug) {
				require.NotEqual(t, w.Slug, g.Slug)
			}
			if s.Tier == "Baseline" && !Rest(g.Slug) {
				require.Greater(t, g.Order.Priority.N, uint32(baselinePriority+maxClusterPriority))
				w.Order.Priority = g.Order.Priority
			}
			require.Equal(t, w.Content, g.Content)
		}
	})
}

func TestOfTheKindsBeforeWhatCannotBeExpressedIsTold(t *testing.T) {
	one := func(kind, rule string) Result {
		priority := `"priority":1,`
		if kind != "AdminNetworkPolicy" {
			priority = ""
		}
		doc := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"a"},"spec":{%s"subject":{"namespaces":{}},"egress":[%s]}}`, adminGroup, kind, priority, rule)
		return Translate([][]byte{[]byte(doc)}, Options{})
	}
	all := `"to":[{"networks":["0.0.0.0/0"]}]`
	for _, rule := range []string{
		`{"action":"Deny",` + all + `,"ports":[{"namedPort":"web"}]}`,
		`{"action":"Deny",` + all + `,"ports":[{"portNumber":{"port":80},"portRange":{"start":1,"end":2}}]}`,
		`{"action":"Deny",` + all + `,"ports":[{"portRange":{"start":9,"end":2}}]}`,
		`{"action":"Deny","to":[{"domainNames":["example.com"]}]}`,
		`{"action":"Accept",` + all + `}`,
	} {
		res := one("AdminNetworkPolicy", rule)
		require.NotEmpty(t, res.Items, rule)
		require.Equal(t, policy.Deny, res.Policies[0].Rules[0].Action, "it fails closed: %s", rule)
		require.Equal(t, policy.Any, res.Policies[0].Rules[0].Protocol, rule)
	}
	res := one("BaselineAdminNetworkPolicy", `{"action":"Pass",`+all+`}`)
	require.Equal(t, "want action Allow or Deny; it denies all traffic instead", res.Items[0].Reason)
}

// TestMachinesArePeersWhereTheyAreNodes: with the controller, and not without it.
func TestMachinesArePeersWhereTheyAreNodes(t *testing.T) {
	doc := [][]byte{overall("c", `{"tier":"Admin","priority":1,"subject":{"namespaces":{}},"egress":[{"action":"Deny","to":[{"nodes":{"matchLabels":{"zone":"a"}}}]}]}`)}
	require.NotEmpty(t, Translate(doc, Options{}).Items)
	res := Translate(doc, Options{Machines: true})
	require.Empty(t, res.Items)
	require.Equal(t, "machine/kubernetes-node,machine/zone=a", res.Policies[0].Rules[0].DestinationSelector)
}

// TestARuleAboutMachinesMeetsThem: a policy that is for pods has machines at its other end.
func TestARuleAboutMachinesMeetsThem(t *testing.T) {
	addrs := map[string]netip.Addr{}
	var nodes []policy.Node
	keep := func(name, addr string, n policy.Node, left []string) {
		require.Empty(t, left)
		addrs[name] = netip.MustParseAddr(addr)
		nodes = append(nodes, n)
	}
	pod, left := Pod{Cluster: "one", Namespace: "shop", Name: "web", Addresses: []string{"10.0.0.1"}}.Node()
	keep("web", "10.0.0.1", pod, left)
	for zone, addr := range map[string]string{"a": "192.0.2.1", "b": "192.0.2.2"} {
		machine, left := Machine{Cluster: "one", Name: "m-" + zone, Labels: map[string]string{"zone": zone}, Addresses: []string{addr}}.Node()
		keep(zone, addr, machine, left)
	}
	for action, want := range map[string]map[string]bool{
		`[{"action":"Deny","to":[{"nodes":{"matchLabels":{"zone":"a"}}}]}]`:                                                       {"a": false, "b": true},
		`[{"action":"Accept","to":[{"nodes":{"matchLabels":{"zone":"a"}}}]},{"action":"Deny","to":[{"networks":["0.0.0.0/0"]}]}]`: {"a": true, "b": false},
	} {
		doc := overall("c", `{"tier":"Admin","priority":1,"subject":{"namespaces":{}},"egress":`+action+`}`)
		w := newPlane(t, Translate([][]byte{doc}, Options{Machines: true}), nodes)
		for zone, allowed := range want {
			require.Equal(t, allowed, w.half(datapath.Egress, addrs["web"], addrs[zone], datapath.TCP, 80), "%s, zone %s", action, zone)
		}
	}
}

// TestAClusterWithoutPoliciesAllowsPodsEverything, where it is known that there are none.
func TestAClusterWithoutPoliciesAllowsPodsEverything(t *testing.T) {
	require.Empty(t, Translate(nil, Options{}).Policies)
	require.Len(t, Translate(nil, Options{Whole: true}).Policies, 2)
}
