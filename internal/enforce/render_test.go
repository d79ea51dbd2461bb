//go:build linux

package enforce_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/enforce"
	"github.com/edictdev/edict/internal/test/fakenft"
	"github.com/edictdev/edict/internal/test/netns"
	"github.com/edictdev/edict/policy"
)

// large is the table of a node with so many peers and rules: each rule is for the
// peers of one of a hundred groups, every tenth for all of them.
func large(t testing.TB, peers, rules int) *enforce.Table {
	t.Helper()
	const groups = 100
	var list []datapath.Rule
	for i := range rules {
		r := datapath.Rule{
			Ref:       datapath.Ref{Policy: uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)).String(), Revision: "r", Index: i},
			Direction: datapath.Ingress, Tier: datapath.Normal, Priority: uint32(i % 50), Ordered: true,
			Protocol: datapath.TCP, Ports: policy.Ports{From: uint16(1 + 13*i), To: uint16(9 + 13*i)}, Verdict: datapath.Allow,
		}
		if i%3 == 0 {
			r.Verdict = datapath.Deny
		}
		if r.Peer.Any = i%10 == 0; !r.Peer.Any {
			r.Peer.Selectors = []policy.Expr{{{Op: policy.Exists, Key: fmt.Sprint("g", i%groups)}}}
		}
		list = append(list, r)
	}
	var ids []datapath.Identity
	for i := range peers {
		ids = append(ids, datapath.Identity{
			Name:   fmt.Sprintf("n%06d", i),
			Labels: policy.Labels{{Key: fmt.Sprint("g", i%groups), Value: "x"}},
		})
	}
	built, err := datapath.Build(list, ids, datapath.Options{Capacity: 1 << 20})
	require.NoError(t, err)
	out := &enforce.Table{Entries: built.Entries()}
	for i := range peers {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		out.Identities = append(out.Identities, enforce.Identity{Addresses: []enforce.Owned{{Node: policy.NodeID(fmt.Sprint("n", i)), Address: a}}})
	}
	return out
}

// Peers that are answered alike share what is looked up: a peer costs an address, and
// nothing where it is answered as anybody is, like every tenth here.
func TestARulesetGrowsWithPeersAndClassesAndNeverWithTheirProduct(t *testing.T) {
	few, err := enforce.Render(large(t, 100, 100))
	require.NoError(t, err)
	many, err := enforce.Render(large(t, 1000, 100))
	require.NoError(t, err)
	require.Equal(t, enforce.Chains(few), enforce.Chains(many))
	require.Equal(t, 810, many.Elements()-few.Elements())
}

// A peer more is one element, and nothing else is touched.
func TestAPeerThatComesIsOneElement(t *testing.T) {
	kernel := fakenft.New()
	n := enforce.NewNftables(kernel)
	for _, peers := range []int{201, 202} {
		r, err := enforce.Render(large(t, peers, 100))
		require.NoError(t, err)
		require.NoError(t, n.Apply(t.Context(), r))
	}
	require.Equal(t, 1, kernel.LastTransaction.NumOperations(), "%s", kernel.LastTransaction)
	require.Contains(t, kernel.LastTransaction.String(), "add element inet edict ingress_ip { 10.0.0.201 : goto ")
}

// Where many peers go, nft takes longer to remove one after the other than to make the table anew:
// for minutes a withdrawn policy would stay in force.
func TestManyPeersThatGoAreNotRemovedOneByOne(t *testing.T) {
	kernel := fakenft.New()
	n := enforce.NewNftables(kernel)
	for _, peers := range []int{3000, 2999, 100} {
		r, err := enforce.Render(large(t, peers, 100))
		require.NoError(t, err)
		require.NoError(t, n.Apply(t.Context(), r))
		require.Equal(t, peers != 2999, strings.Contains(kernel.LastTransaction.String(), "delete table"), peers)
	}
	require.NotContains(t, kernel.LastTransaction.String(), "delete element")
}

// Peers whose ports are the same and whose verdicts are not have a class each.
func TestClassesDifferByTheirVerdicts(t *testing.T) {
	table := large(t, 2, 0)
	for i, v := range []datapath.Verdict{datapath.Allow, datapath.Deny} {
		table.Entries = append(table.Entries, datapath.Entry{
			Key:   datapath.Key{Direction: datapath.Ingress, Identity: datapath.ID(i + 1), Protocol: datapath.TCP, Port: 80, Bits: 16},
			Value: datapath.Value{Verdict: v, Precedence: 1},
		})
	}
	r, err := enforce.Render(table)
	require.NoError(t, err)
	kernel := fakenft.New()
	require.NoError(t, enforce.NewNftables(kernel).Apply(t.Context(), r))
	require.Contains(t, kernel.Dump(), "tcp . 80 : accept")
	require.Contains(t, kernel.Dump(), "tcp . 80 : drop")
}

// Counters are named after policies: a table's words must not become commands of nft.
func TestTheNameOfAPolicyIsNoCommand(t *testing.T) {
	for policy, fits := range map[string]bool{
		"01900000-0003-72ce-a48f-e028a62562a7": true, "": true,
		"p": false, "01900000000372cea48fe028a62562a7": false,
		"x\nadd table ip evil": false, "urn:uuid:01900000-0003-72ce-a48f-e028a62562a7": false,
	} {
		quoted, err := json.Marshal(policy)
		require.NoError(t, err)
		entries := `[{"direction":"ingress","identity":0,"protocol":"tcp","port":22,"prefix":16,"verdict":"deny","precedence":9,"rule":{"policy":` + string(quoted) + `,"revision":"r","index":3}}]`
		sum := sha256.Sum256([]byte(`{"identities":[],"entries":` + entries + `}`))
		_, err = enforce.Parse("here", fmt.Appendf(nil, `{"node_id":"here","version":1,"fingerprint":%q,"identities":[],"entries":%s}`,
			base64.StdEncoding.EncodeToString(sum[:]), entries))
		if fits {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "is not the id of a policy")
		}
	}
}

// FuzzParse: a table that is not one is refused, and one that is can be rendered.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"node_id":"here","version":1,"fingerprint":"","identities":[],"entries":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var d map[string]json.RawMessage
		if json.Unmarshal(text, &d) != nil {
			_, err := enforce.Parse("here", text)
			require.Error(t, err)
			return
		}
		if table, err := enforce.Parse("here", text); err == nil {
			_, _ = enforce.Render(table)
		}
	})
}

func BenchmarkRender(b *testing.B) {
	table := large(b, 1000, 1000)
	b.ReportAllocs()
	for b.Loop() {
		r, err := enforce.Render(table)
		require.NoError(b, err)
		b.ReportMetric(float64(r.Elements()), "elements")
		b.ReportMetric(float64(enforce.Chains(r)), "chains")
	}
}

// TestAThousandPeersAndRulesFitTheKernel is the size that the benchmark renders,
// loaded for real, whole and then with a peer more.
func TestAThousandPeersAndRulesFitTheKernel(t *testing.T) {
	if !netns.Alone(t) {
		return
	}
	kernel, err := enforce.OpenNft(enforce.TableName)
	require.NoError(t, err)
	counted := &counting{Kernel: kernel}
	n := enforce.NewNftables(counted)
	size := 1000
	if netns.Bounded() {
		size = 100
	}
	for _, peers := range []int{size + 1, size + 2} {
		r, err := enforce.Render(large(t, peers, size))
		require.NoError(t, err)
		require.NoError(t, n.Apply(t.Context(), r))
		t.Logf("%d elements, %d chains", r.Elements(), enforce.Chains(r))
	}
	require.Equal(t, 1, counted.whole)
}

// TestProtocolsWithoutNamesAreThoseThatWereWritten: nft has the names from /etc/protocols,
// which slim images of a system do not have.
func TestProtocolsWithoutNamesAreThoseThatWereWritten(t *testing.T) {
	elements := map[string]string{}
	for _, protocols := range [][3]string{{"6", "17", "132"}, {`"tcp"`, `"udp"`, `"sctp"`}} {
		l, err := enforce.ParseListing(fmt.Appendf(nil, `{"nftables": [{"map": {"name": "c", "type": ["inet_proto", "inet_service"], "elem": [`+
			`[{"concat": [%s, {"range": [0, 65535]}]}, {"accept": null}], [{"concat": [%s, 53]}, {"drop": null}], [{"concat": [%s, 5]}, {"accept": null}]]}}]}`,
			protocols[0], protocols[1], protocols[2]))
		require.NoError(t, err)
		for k, v := range l.Elements {
			elements[k] = v
		}
	}
	require.Equal(t, map[string]string{"c tcp . 0-65535": "accept", "c udp . 53": "drop", "c sctp . 5": "accept"}, elements)
}

// TestAddressesThatNftWritesOtherwiseAreThoseThatWereWritten: the last 32 bits of some IPv6
// addresses it writes as those of IPv4.
func TestAddressesThatNftWritesOtherwiseAreThoseThatWereWritten(t *testing.T) {
	if !netns.Alone(t) {
		return
	}
	kernel, err := enforce.OpenNft(enforce.TableName)
	require.NoError(t, err)
	table := &enforce.Table{Identities: []enforce.Identity{{Block: netip.MustParsePrefix("::/64")}, {}}}
	for _, a := range []string{"::102:304", "::1", "::9:0", "64:ff9b::1.2.3.4", "2001:db8:0:0:1::1", "10.0.0.1"} {
		table.Identities[1].Addresses = append(table.Identities[1].Addresses, enforce.Owned{Node: "n", Address: netip.MustParseAddr(a)})
	}
	for i, v := range []datapath.Verdict{datapath.Allow, datapath.Deny} {
		table.Entries = append(table.Entries, datapath.Entry{
			Key:   datapath.Key{Direction: datapath.Ingress, Identity: datapath.ID(i + 1)},
			Value: datapath.Value{Verdict: v, Precedence: 1},
		})
	}
	r, err := enforce.Render(table)
	require.NoError(t, err)
	require.NoError(t, enforce.NewNftables(kernel).Apply(t.Context(), r))
}
