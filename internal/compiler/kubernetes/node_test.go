package kubernetes

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

func TestPodsAndMachinesHaveIdsOfTheirOwn(t *testing.T) {
	seen := map[policy.NodeID]string{}
	long := strings.Repeat("x", 200)
	keep := func(id policy.NodeID, of string) {
		_, err := policy.ParseNodeID(string(id))
		require.NoError(t, err, of)
		require.Empty(t, seen[id], of)
		seen[id] = of
	}
	for _, cluster := range []string{"one", "two"} {
		for _, namespace := range []string{"a", "b"} {
			for _, name := range []string{"web-0", "web.0", "-.-", long, long + "y"} {
				keep(PodID(cluster, namespace, name), cluster+"/"+namespace+"/"+name)
			}
		}
	}
	for _, name := range []string{"m-1", "m-1.example", "m-1-example", long, "M"} {
		keep(MachineID(name), name)
	}
	require.Equal(t, policy.NodeID("m-1"), MachineID("m-1"), "an agent there knows its own id")
	require.True(t, strings.HasPrefix(string(PodID("one", "a", "web-0")), "web-0-"), "people recognize it")
	require.Equal(t, PodID("one", "a", "web-0"), PodID("one", "a", "web-0"), "made again, it is the same")
}

// TestAPodCannotSayWhereItIs: labels that it has must not be taken for those of its
// namespace, of a machine, or of who made the node.
func TestAPodCannotSayWhereItIs(t *testing.T) {
	p := Pod{
		Cluster: "one", Namespace: "shop", Name: "web", Of: map[string]string{"team": "one"}, Addresses: []string{"10.0.0.1", "fd00::1"},
		Labels: map[string]string{"app": "web", "namespace/team": "two", "machine/kubernetes-node": "m-1", OwnerKey: "two"},
	}
	n, left := p.Node()
	require.Empty(t, left)
	require.Equal(t, map[string]string{
		"app": "web", "namespace/team": "one", "namespace:kubernetes.io/metadata.name": "shop",
		"pod:namespace/team": "two", "pod:machine/kubernetes-node": "m-1", "pod:" + OwnerKey: "two", OwnerKey: "one",
	}, n.Labels.Map())
	require.Len(t, n.Addresses, 2)

	for _, key := range []string{"namespace/team", OwnerKey} {
		res := Translate([][]byte{network("a", `{"podSelector":{"matchLabels":{"`+key+`":"two"}}}`)}, Options{Namespace: "shop"})
		require.Empty(t, res.Items)
		require.Contains(t, res.Policies[0].Selector.Destination.Canonical(), "pod:"+key+"=two", "and a policy finds them")
	}
}

func TestAMachineHasItsNameWhateverItsLabelsSay(t *testing.T) {
	n, left := Machine{Cluster: "one", Name: "m-1", Labels: map[string]string{"kubernetes-node": "m-2"}}.Node()
	require.Empty(t, left)
	name, _ := n.Labels.Get(machineLabel)
	require.Equal(t, "m-1", name)
}

func TestWhatThePlaneDoesNotTakeOfAPodIsLeftOutAndTold(t *testing.T) {
	p := Pod{
		Cluster: "one", Namespace: "zz", Name: "web", Of: map[string]string{"team": "red"},
		Labels: map[string]string{"bad key": "x"}, Addresses: []string{"10.0.0.1", "nowhere"},
	}
	for i := range 70 {
		p.Labels[fmt.Sprintf("a%02d", i)] = "x"
	}
	n, left := p.Node()
	require.Len(t, n.Labels, policy.MaxLabels)
	require.Len(t, left, 1+1+70+3-policy.MaxLabels)
	_, marked := n.Labels.Get("namespace:kubernetes.io/metadata.name")
	require.True(t, marked, "it is a pod still")
	team, _ := n.Labels.Get("namespace/team")
	require.Equal(t, "red", team, "a pod does not get rid of its namespace's labels by having many of its own")
	require.Len(t, n.Addresses, 1)
}

// TestAnAddressThatIsSaidTwiceIsOne: the internal and the external address of a machine are
// often the same. The plane has it once, and what it has is compared with this.
func TestAnAddressThatIsSaidTwiceIsOne(t *testing.T) {
	n, left := Machine{Cluster: "one", Name: "m-1", Addresses: []string{"192.0.2.1", "fd00::1", "192.0.2.1", "::ffff:192.0.2.1"}}.Node()
	require.Empty(t, left)
	require.Equal(t, policy.Addresses{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00::1")}, n.Addresses)
}
