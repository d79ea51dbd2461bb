//go:build linux

package enforce_test

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/enforce"
	"github.com/edictdev/edict/internal/test/leftout"
	"github.com/edictdev/edict/internal/test/netns"
)

// opens is a table that lets nothing in but to one port.
func opens(p datapath.Protocol, port uint16) *enforce.Table {
	return &enforce.Table{Entries: []datapath.Entry{{
		Key:   datapath.Key{Direction: datapath.Ingress, Protocol: p, Port: port, Bits: 16},
		Value: datapath.Value{Verdict: datapath.Allow, Precedence: 1},
	}}}
}

func inForce(t *testing.T, kernel enforce.Kernel, table *enforce.Table) {
	t.Helper()
	r, err := enforce.Render(table)
	require.NoError(t, err)
	require.NoError(t, enforce.NewNftables(kernel).Apply(t.Context(), r))
}

// TestWhatIsTranslatedToTheNodeIsLookedUp: an address that is not the node's, and becomes
// it by another table's rule, is a way in like any other.
func TestWhatIsTranslatedToTheNodeIsLookedUp(t *testing.T) {
	if !netns.Alone(t) {
		return
	}
	kernel, err := enforce.OpenNft(enforce.TableName)
	require.NoError(t, err)
	peer := newWire(t).spaces[0]
	const ours4, ours6 = "10.96.0.1", "2001:db8:96::1"
	peer.IP(
		t,
		"route add "+ours4+"/32 dev eth0", "neigh add "+ours4+" lladdr 02:00:00:00:00:01 dev eth0",
		"route add "+ours6+"/128 dev eth0", "neigh add "+ours6+" lladdr 02:00:00:00:00:01 dev eth0",
	)
	hello(t, nil, ":22", "node")
	nft(t, "add table inet others; add chain inet others c { type nat hook prerouting priority dstnat; }")
	for _, to := range []string{
		"ip daddr " + ours4 + " tcp dport { 80, 443 } dnat ip to " + node4.String() + ":22",
		"ip6 daddr " + ours6 + " tcp dport { 80, 443 } dnat ip6 to [" + node6.String() + "]:22",
		"ip daddr " + node4.String() + " tcp dport 443 redirect to :22",
	} {
		nft(t, "add rule inet others c "+to)
	}
	inForce(t, kernel, opens(datapath.TCP, 443))
	for address, want := range map[string]string{
		net.JoinHostPort(ours4, "80"): "", net.JoinHostPort(ours4, "443"): "node",
		net.JoinHostPort(ours6, "80"): "", net.JoinHostPort(ours6, "443"): "node",
		net.JoinHostPort(node4.String(), "22"): "", net.JoinHostPort(node4.String(), "443"): "node",
	} {
		patience := enough
		if want == "" {
			patience = little
		}
		var got string
		peer.Do(func() { got, _ = call(&net.Dialer{}, address, patience) })
		require.Equal(t, want, got, address)
	}
}

// TestBroadcastsOfMachinesOnABridgePass: with br_netfilter, as Docker and Kubernetes have
// it, what a bridge of the node forwards is seen where the node's own packets come in. A
// broadcast is for the others on the bridge, whatever the node may get of it.
func TestBroadcastsOfMachinesOnABridgePass(t *testing.T) {
	const filtered = "/proc/sys/net/bridge/bridge-nf-call-iptables"
	if _, err := os.Stat(filtered); err != nil {
		leftout.Here(t, "this kernel has no br_netfilter, so that nothing of a bridge is seen: %v", err)
	}
	if !netns.Alone(t) {
		return
	}
	require.NoError(t, os.WriteFile(filtered, []byte("1"), 0o600))
	var node *netns.Space
	node.IP(t, "link set lo up", "link add br0 type bridge", "link set br0 up", "addr add 192.0.2.1/24 dev br0")
	machines := make([]*netns.Space, 2)
	for i, address := range []string{"192.0.2.11/24", "192.0.2.12/24"} {
		s := netns.New(t)
		s.Link(t, []string{"m0", "m1"}[i], "eth0")
		s.IP(t, "link set lo up", "addr add "+address+" brd + dev eth0", "link set eth0 up")
		node.IP(t, "link set "+[]string{"m0", "m1"}[i]+" master br0 up")
		machines[i] = s
	}
	listen := func(s *netns.Space, port uint16) (c *net.UDPConn) {
		var err error
		open := func() {
			c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.IPv4Unspecified(), port)))
		}
		if s == nil {
			open()
		} else {
			s.Do(open)
		}
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	from := listen(machines[0], 9)
	open, shut, other := listen(nil, 7), listen(nil, 8), listen(machines[1], 8)
	hears := func(c *net.UDPConn, patience time.Duration) bool {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		_, _, err := c.ReadFromUDPAddrPort(make([]byte, 9))
		return err == nil
	}
	say := func(port uint16) {
		_, err := from.WriteToUDPAddrPort([]byte("all"), netip.AddrPortFrom(netip.MustParseAddr("192.0.2.255"), port))
		require.NoError(t, err)
	}
	for came := false; !came; came = hears(other, little) { // a device that has just come up may lose the first
		say(8)
	}
	for hears(shut, little) {
	}
	kernel, err := enforce.OpenNft(enforce.TableName)
	require.NoError(t, err)
	inForce(t, kernel, opens(datapath.UDP, 7))
	say(8)
	say(7)
	require.True(t, hears(other, enough), "the other machine")
	require.True(t, hears(open, enough), "the node, where the table allows it")
	require.False(t, hears(shut, little), "the node, where the table denies it")
}

// TestAMapWithoutItsElementsLetsNothingThrough: so the kernel sees a new map for a moment,
// when the rules that ask it are in force already.
func TestAMapWithoutItsElementsLetsNothingThrough(t *testing.T) {
	if !netns.Alone(t) {
		return
	}
	kernel, err := enforce.OpenNft(enforce.TableName)
	require.NoError(t, err)
	peer := newWire(t).spaces[0]
	hello(t, nil, ":22", "denied")
	hello(t, nil, ":443", "allowed")
	table := opens(datapath.AnyProtocol, 0)
	table.Entries[0].Bits = 0
	table.Entries = append(table.Entries, datapath.Entry{
		Key:   datapath.Key{Direction: datapath.Ingress, Protocol: datapath.TCP, Port: 22, Bits: 16},
		Value: datapath.Value{Verdict: datapath.Deny, Precedence: 1},
	})
	inForce(t, kernel, table)
	get := func(port uint16, patience time.Duration) (text string) {
		peer.Do(func() { text, _ = call(&net.Dialer{}, netip.AddrPortFrom(node4, port).String(), patience) })
		return text
	}
	require.Equal(t, "allowed", get(443, enough))
	require.Empty(t, get(22, little))
	l, err := kernel.List(t.Context())
	require.NoError(t, err)
	for name, key := range l.Maps {
		if key == "inet_proto . inet_service" {
			nft(t, "flush map inet edict "+name)
		}
	}
	require.Empty(t, get(22, little))
}
