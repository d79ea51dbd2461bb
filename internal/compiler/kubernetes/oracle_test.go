package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

// pod is a node of a small cluster.
type pod struct {
	namespace string
	labels    map[string]string
	addr      netip.Addr
	outside   bool // an address that no pod has
}

var teams = map[string]string{"red": "one", "blue": "two"}

func podNode(t require.TestingT, p pod) policy.Node {
	labels := map[string]string{NamespaceKey(nameLabel): p.namespace, NamespaceKey("team"): teams[p.namespace]}
	for k, v := range p.labels {
		labels[k] = v
	}
	l, err := policy.NewLabels(labels, "")
	require.NoError(t, err)
	return policy.Node{ID: policy.NodeID("pod-" + p.addr.String()), Labels: l, Addresses: policy.Addresses{p.addr}}
}

func smallCluster() (pods []pod) {
	for _, ns := range []string{"red", "blue"} {
		for i, app := range []string{"x", "y", ""} {
			labels := map[string]string{"app": app}
			if app == "" {
				labels = nil
			}
			third := 1
			if ns == "blue" {
				third = 2
			}
			pods = append(pods, pod{namespace: ns, labels: labels, addr: netip.AddrFrom4([4]byte{10, 0, byte(third), byte(i + 1)})})
		}
	}
	return append(pods, pod{outside: true, addr: netip.MustParseAddr("10.0.9.1")}, pod{outside: true, addr: netip.MustParseAddr("192.0.2.1")})
}

// plane answers flows with the tables of translated policies.
type plane struct {
	tables map[netip.Addr]*datapath.Table
	kinds  map[netip.Addr]*datapath.Kinds
	nodes  map[netip.Addr]policy.Node
}

func newPlane(t require.TestingT, res Result, nodes []policy.Node) *plane {
	var heads []datapath.Head
	for i, p := range res.Policies {
		heads = append(heads, datapath.Head{
			Policy:   uuid.NewSHA1(uuid.Nil, []byte(p.Slug)),
			Revision: policy.Revision{ID: uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)), Selector: p.Selector, Order: p.Order, Rules: p.Rules},
		})
	}
	w := &plane{map[netip.Addr]*datapath.Table{}, map[netip.Addr]*datapath.Kinds{}, map[netip.Addr]policy.Node{}}
	for _, n := range nodes {
		list := datapath.List(n, heads)
		kinds := datapath.NewKinds(list.Rules)
		population, err := kinds.Sort(nodes, nil)
		require.NoError(t, err)
		table, err := datapath.Build(list.Rules, population.Identities, datapath.Options{Closed: list.Closed})
		require.NoError(t, err)
		addr := n.Addresses[0]
		w.tables[addr], w.kinds[addr], w.nodes[addr] = table, kinds, n
	}
	return w
}

// half is what the table of one end says; an end that is no node says nothing.
func (w *plane) half(d datapath.Direction, here, there netip.Addr, p datapath.Protocol, port uint16) bool {
	table := w.tables[here]
	if table == nil {
		return true
	}
	id := table.Resolve(there)
	if n, ok := w.nodes[there]; ok {
		id = datapath.AnyIdentity
		if kind, ok := w.kinds[here].Of(n); ok {
			id, _ = table.ID(kind.Name)
		}
	}
	e, ok := table.Lookup(d, id, p, port)
	return ok && e.Verdict != datapath.Deny
}

func (w *plane) allows(from, to netip.Addr, p datapath.Protocol, port uint16) bool {
	return w.half(datapath.Egress, from, to, p, port) && w.half(datapath.Ingress, to, from, p, port)
}

// The oracle's own idea of the objects: what they mean is read off Kubernetes'
// documentation, and nothing is translated.

type kSelector struct {
	MatchLabels      map[string]string `json:"matchLabels,omitempty"`
	MatchExpressions []kTest           `json:"matchExpressions,omitempty"`
}

type kTest struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

func (s *kSelector) matches(labels map[string]string) bool {
	for k, v := range s.MatchLabels {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		got, has := labels[e.Key]
		in := has && slices.Contains(e.Values, got)
		if map[string]bool{"In": in, "NotIn": !in, "Exists": has, "DoesNotExist": !has}[e.Operator] != true {
			return false
		}
	}
	return true
}

type kBlock struct {
	CIDR   string   `json:"cidr"`
	Except []string `json:"except,omitempty"`
}

type kPeer struct {
	PodSelector       *kSelector `json:"podSelector,omitempty"`
	NamespaceSelector *kSelector `json:"namespaceSelector,omitempty"`
	IPBlock           *kBlock    `json:"ipBlock,omitempty"`
}

func (p kPeer) matches(home string, o pod) bool {
	if b := p.IPBlock; b != nil {
		in := netip.MustParsePrefix(b.CIDR).Contains(o.addr)
		for _, e := range b.Except {
			in = in && !netip.MustParsePrefix(e).Contains(o.addr)
		}
		return in
	}
	if o.outside || p.PodSelector != nil && !p.PodSelector.matches(o.labels) {
		return false
	}
	if p.NamespaceSelector == nil {
		return o.namespace == home
	}
	return p.NamespaceSelector.matches(namespaceLabels(o.namespace))
}

func namespaceLabels(ns string) map[string]string {
	return map[string]string{nameLabel: ns, "team": teams[ns]}
}

type kPort struct {
	Protocol string `json:"protocol,omitempty"`
	Port     int    `json:"port,omitempty"`
	EndPort  int    `json:"endPort,omitempty"`
}

type kFlow struct {
	protocol string
	port     int
}

func (p kPort) matches(f kFlow) bool {
	protocol := p.Protocol
	if protocol == "" {
		protocol = "TCP"
	}
	return f.protocol == protocol && (p.Port == 0 || p.Port == f.port || p.EndPort != 0 && p.Port <= f.port && f.port <= p.EndPort)
}

type kRule struct {
	From  []kPeer `json:"from,omitempty"`
	To    []kPeer `json:"to,omitempty"`
	Ports []kPort `json:"ports,omitempty"`
}

func (r kRule) allows(home string, o pod, f kFlow) bool {
	peers := slices.Concat(r.From, r.To)
	return (len(peers) == 0 || slices.ContainsFunc(peers, func(p kPeer) bool { return p.matches(home, o) })) &&
		(len(r.Ports) == 0 || slices.ContainsFunc(r.Ports, func(p kPort) bool { return p.matches(f) }))
}

type kSpec struct {
	PodSelector kSelector `json:"podSelector"`
	PolicyTypes []string  `json:"policyTypes,omitempty"`
	Ingress     []kRule   `json:"ingress,omitempty"`
	Egress      []kRule   `json:"egress,omitempty"`
}

type kMeta struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

type kPolicy struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   kMeta  `json:"metadata"`
	Spec       any    `json:"spec"`
}

type cSubject struct {
	Namespaces *kSelector `json:"namespaces,omitempty"`
	Pods       *cPods     `json:"pods,omitempty"`
	Networks   []string   `json:"networks,omitempty"`
}

type cPods struct {
	NamespaceSelector kSelector `json:"namespaceSelector"`
	PodSelector       kSelector `json:"podSelector"`
}

func (s cSubject) matches(o pod) bool {
	if len(s.Networks) > 0 {
		return slices.ContainsFunc(s.Networks, func(c string) bool { return netip.MustParsePrefix(c).Contains(o.addr) })
	}
	if o.outside {
		return false
	}
	if s.Namespaces != nil {
		return s.Namespaces.matches(namespaceLabels(o.namespace))
	}
	return s.Pods.NamespaceSelector.matches(namespaceLabels(o.namespace)) && s.Pods.PodSelector.matches(o.labels)
}

type cRule struct {
	Action    string           `json:"action"`
	From      []cSubject       `json:"from,omitempty"`
	To        []cSubject       `json:"to,omitempty"`
	Protocols []map[string]any `json:"protocols,omitempty"`
	ports     []kPort
}

type cSpec struct {
	Tier     string   `json:"tier"`
	Priority int      `json:"priority"`
	Subject  cSubject `json:"subject"`
	Ingress  []cRule  `json:"ingress,omitempty"`
	Egress   []cRule  `json:"egress,omitempty"`
}

// cluster is what the oracle knows.
type cluster struct {
	network []kPolicy
	over    []kPolicy
}

// half is what Kubernetes says at one end, for a pod and its peer.
func (c cluster) half(ingress bool, here, there pod, f kFlow) bool {
	if here.outside {
		return true
	}
	if verdict := c.tier("Admin", ingress, here, there, f); verdict == "Accept" || verdict == "Deny" {
		return verdict == "Accept"
	}
	selected := false
	for _, p := range c.network {
		s := p.Spec.(kSpec)
		rules, speaks := s.Egress, slices.Contains(s.PolicyTypes, "Egress") || len(s.PolicyTypes) == 0 && len(s.Egress) > 0
		if ingress {
			rules, speaks = s.Ingress, slices.Contains(s.PolicyTypes, "Ingress") || len(s.PolicyTypes) == 0
		}
		if !speaks || p.Metadata.Namespace != here.namespace || !s.PodSelector.matches(here.labels) {
			continue
		}
		selected = true
		for _, r := range rules {
			if r.allows(here.namespace, there, f) {
				return true
			}
		}
	}
	return !selected && c.tier("Baseline", ingress, here, there, f) != "Deny"
}

func (c cluster) tier(tier string, ingress bool, here, there pod, f kFlow) string {
	for _, p := range c.over { // by priority
		s := p.Spec.(cSpec)
		if s.Tier != tier || !s.Subject.matches(here) {
			continue
		}
		rules := s.Egress
		if ingress {
			rules = s.Ingress
		}
		for _, r := range rules {
			if slices.ContainsFunc(slices.Concat(r.From, r.To), func(x cSubject) bool { return x.matches(there) }) &&
				(len(r.ports) == 0 || slices.ContainsFunc(r.ports, func(p kPort) bool { return p.matches(f) })) {
				return r.Action
			}
		}
	}
	return ""
}

func drawSelector(t *rapid.T, key string, values ...string) *kSelector {
	switch rapid.IntRange(0, 4).Draw(t, "selector") {
	case 0:
		return &kSelector{}
	case 1:
		return &kSelector{MatchExpressions: []kTest{{key, rapid.SampledFrom([]string{"In", "NotIn"}).Draw(t, "op"), []string{values[0]}}}}
	case 2:
		return &kSelector{MatchExpressions: []kTest{{key, rapid.SampledFrom([]string{"Exists", "DoesNotExist"}).Draw(t, "op"), nil}}}
	}
	return &kSelector{MatchLabels: map[string]string{key: rapid.SampledFrom(values).Draw(t, "value")}}
}

func drawPods(t *rapid.T) *kSelector       { return drawSelector(t, "app", "x", "y") }
func drawNamespaces(t *rapid.T) *kSelector { return drawSelector(t, "team", "one", "two") }

var (
	drawnCIDRs = []string{"10.0.0.0/16", "10.0.1.0/24", "10.0.1.2/31", "0.0.0.0/0", "192.0.2.0/24"}
	drawnFlows = []kFlow{{"TCP", 80}, {"TCP", 81}, {"TCP", 90}, {"UDP", 80}, {"SCTP", 80}}
)

func drawNetPeer(t *rapid.T) (p kPeer) {
	switch rapid.IntRange(0, 3).Draw(t, "peer") {
	case 0:
		p.PodSelector = drawPods(t)
	case 1:
		p.NamespaceSelector = drawNamespaces(t)
	case 2:
		p.PodSelector, p.NamespaceSelector = drawPods(t), drawNamespaces(t)
	case 3:
		p.IPBlock = &kBlock{rapid.SampledFrom(drawnCIDRs).Draw(t, "cidr"), rapid.SliceOfN(rapid.SampledFrom(drawnCIDRs), 0, 2).Draw(t, "except")}
	}
	return p
}

func drawPort(t *rapid.T) kPort {
	return rapid.SampledFrom([]kPort{{"", 80, 0}, {"TCP", 80, 85}, {"UDP", 0, 0}, {"", 0, 0}, {"SCTP", 80, 0}, {"TCP", 81, 0}}).Draw(t, "port")
}

func drawNetRules(t *rapid.T, ingress bool) (all []kRule) {
	for range rapid.IntRange(0, 2).Draw(t, "rules") {
		r := kRule{Ports: rapid.SliceOfN(rapid.Custom(drawPort), 0, 2).Draw(t, "ports")}
		peers := rapid.SliceOfN(rapid.Custom(drawNetPeer), 0, 2).Draw(t, "peers")
		if r.To = peers; ingress {
			r.From, r.To = peers, nil
		}
		all = append(all, r)
	}
	return all
}

func drawNetwork(t *rapid.T, i int) kPolicy {
	types := rapid.SampledFrom([][]string{nil, {"Ingress"}, {"Egress"}, {"Ingress", "Egress"}}).Draw(t, "types")
	return kPolicy{
		networkGroup, "NetworkPolicy",
		kMeta{fmt.Sprintf("n%d", i), rapid.SampledFrom([]string{"red", "blue"}).Draw(t, "namespace")},
		kSpec{*drawPods(t), types, drawNetRules(t, true), drawNetRules(t, false)},
	}
}

func drawClusterPods(t *rapid.T) cSubject {
	if rapid.Bool().Draw(t, "namespaces") {
		return cSubject{Namespaces: drawNamespaces(t)}
	}
	return cSubject{Pods: &cPods{*drawNamespaces(t), *drawPods(t)}}
}

func drawClusterRules(t *rapid.T, ingress bool) (all []cRule) {
	for range rapid.IntRange(0, 2).Draw(t, "rules") {
		r := cRule{Action: rapid.SampledFrom([]string{"Accept", "Deny", "Pass"}).Draw(t, "action")}
		switch rapid.IntRange(0, 3).Draw(t, "protocols") {
		case 0:
			r.Protocols = []map[string]any{{"tcp": map[string]any{"destinationPort": map[string]any{"number": 80}}}}
			r.ports = []kPort{{"TCP", 80, 0}}
		case 1:
			r.Protocols = []map[string]any{{"udp": map[string]any{}}, {"tcp": map[string]any{"destinationPort": map[string]any{"range": map[string]any{"start": 80, "end": 85}}}}}
			r.ports = []kPort{{"UDP", 0, 0}, {"TCP", 80, 85}}
		}
		peers := rapid.SliceOfN(rapid.Custom(drawClusterPods), 1, 2).Draw(t, "peers")
		if r.From = peers; !ingress {
			if rapid.Bool().Draw(t, "networks") {
				peers = append(peers, cSubject{Networks: []string{rapid.SampledFrom(drawnCIDRs).Draw(t, "cidr")}})
			}
			r.From, r.To = nil, peers
		}
		all = append(all, r)
	}
	return all
}

func drawCluster(t *rapid.T, i int) kPolicy {
	s := cSpec{Tier: rapid.SampledFrom([]string{"Admin", "Baseline"}).Draw(t, "tier"), Priority: i, Subject: drawClusterPods(t)}
	way := rapid.IntRange(0, 2).Draw(t, "way")
	if way != 0 {
		s.Ingress = drawClusterRules(t, true)
	}
	if way != 1 {
		s.Egress = drawClusterRules(t, false)
	}
	return kPolicy{clusterGroup, "ClusterNetworkPolicy", kMeta{Name: fmt.Sprintf("c%d", i)}, s}
}

var protocolOf = map[string]datapath.Protocol{"TCP": datapath.TCP, "UDP": datapath.UDP, "SCTP": datapath.SCTP}

// TestTranslatedPoliciesAnswerAsKubernetesDoes asks the tables of all nodes about
// every flow of a small cluster. No set that is drawn loses anything.
func TestTranslatedPoliciesAnswerAsKubernetesDoes(t *testing.T) {
	world := smallCluster()
	var nodes []policy.Node
	for _, p := range world {
		if !p.outside {
			nodes = append(nodes, podNode(t, p))
		}
	}
	sets, denied, over := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var c cluster
		var docs [][]byte
		for i := range rapid.IntRange(0, 3).Draw(t, "network policies") {
			c.network = append(c.network, drawNetwork(t, i))
		}
		least := 0
		if len(c.network) == 0 {
			least = 1 // a set without objects is not imported
		}
		for i := range rapid.IntRange(least, 2).Draw(t, "cluster policies") {
			c.over = append(c.over, drawCluster(t, i))
		}
		for _, p := range slices.Concat(c.network, c.over) {
			doc, err := json.Marshal(p)
			require.NoError(t, err)
			docs = append(docs, doc)
		}
		res := Translate(docs, Options{Namespace: "default"})
		require.Empty(t, res.Items)
		sets++
		if len(c.over) > 0 {
			over++
		}
		w := newPlane(t, res, nodes)
		for _, s := range world {
			for _, d := range world {
				if s.addr == d.addr {
					continue
				}
				for _, f := range drawnFlows {
					want := c.half(false, s, d, f) && c.half(true, d, s, f)
					if !want {
						denied++
					}
					require.Equal(t, want, w.allows(s.addr, d.addr, protocolOf[f.protocol], uint16(f.port)),
						"%v to %v, %v\n%s", s, d, f, docs)
				}
			}
		}
	})
	require.Positive(t, sets)
	require.Positive(t, over)
	require.Positive(t, denied)
	t.Logf("%d sets, %d of them with cluster policies; %d flows denied", sets, over, denied)
}
