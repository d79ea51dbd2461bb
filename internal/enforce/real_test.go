//go:build linux

package enforce_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/edictdev/edict/internal/enforce"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/netns"
)

// hello listens on an address, and greets who connects.
func hello(t *testing.T, s *netns.Space, address, greeting string) {
	t.Helper()
	var l net.Listener
	var err error
	listen := func() { l, err = net.Listen("tcp", address) }
	if s == nil {
		listen()
	} else {
		s.Do(listen)
	}
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, greeting)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

// call connects, and reads what it is greeted with. What is denied says nothing, so
// who expects that waits for patience.
func call(d *net.Dialer, address string, patience time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	return string(text), err
}

const (
	enough = 10 * time.Second
	little = 100 * time.Millisecond
)

// TestConnectionsOfRealSockets tries what single packets do not show: whole
// connections, a proxy, the agent's own way out, what IPv6 needs, and that nothing
// of others is touched.
func TestConnectionsOfRealSockets(t *testing.T) {
	if !netns.Alone(t) {
		return
	}
	nft(t, "add table inet others; add chain inet others c { type filter hook input priority 5; }; add rule inet others c counter")
	kernel, err := enforce.OpenNft(enforce.TableName)
	require.NoError(t, err)
	n := enforce.NewNftables(kernel)
	w, wire := newWorld(t, 1), newWire(t)
	peer := wire.spaces[0]
	here, there := netip.AddrPortFrom(node4, 443).String(), netip.AddrPortFrom(left[0], 443).String()
	hello(t, nil, here, "node")
	hello(t, nil, netip.AddrPortFrom(netip.IPv4Unspecified(), 15000).String(), "proxy")
	hello(t, peer, there, "peer")
	hello(t, peer, netip.AddrPortFrom(left[5], 443).String(), "six")
	plain := &net.Dialer{}
	fromPeer := func(patience time.Duration) (text string, err error) {
		peer.Do(func() { text, err = call(plain, here, patience) })
		return text, err
	}
	rules := func(rules ...gen.Rule) {
		w.replace(gen.Policy{
			Slug: "p", DisplayName: "p", Selector: gen.Selector{Source: "!nobody", Destination: "!nobody"},
			Order: gen.Order{Tier: "admin"}, Rules: rules,
		})
		_, text := w.answer()
		apply(t, n, text)
	}
	tcp := func(action, from, to string) gen.Rule {
		r := gen.Rule{Action: action, Protocol: "tcp", Ports: &gen.Ports{From: 443, To: 443}, SourceCIDR: from, DestinationCIDR: to}
		if action == "redirect" {
			r.ProxyPort = 15000
		}
		return r
	}
	const node, peers = "203.0.113.0/24", "10.0.0.0/8"

	w.open()
	_, said := w.answer()
	apply(t, n, said)
	wire.meet()

	rules(tcp("allow", node, peers), tcp("allow", peers, node))
	text, err := call(plain, there, enough)
	require.NoError(t, err)
	require.Equal(t, "peer", text)
	text, err = fromPeer(enough)
	require.NoError(t, err)
	require.Equal(t, "node", text)

	rules(tcp("redirect", node, peers), tcp("redirect", peers, node))
	text, err = call(plain, there, enough)
	require.NoError(t, err)
	require.Equal(t, "proxy", text)
	text, err = fromPeer(enough)
	require.NoError(t, err)
	require.Equal(t, "proxy", text)
	past := &net.Dialer{Control: marked(enforce.ProxyMark)}
	text, err = call(past, there, enough)
	require.NoError(t, err)
	require.Equal(t, "peer", text, "a proxy's own connection is not redirected")

	rules(tcp("deny", node, peers), tcp("deny", peers, node))
	_, err = call(plain, there, little)
	require.Error(t, err)
	_, err = call(past, there, little)
	require.Error(t, err, "the mark of a proxy opens nothing")
	_, err = fromPeer(little)
	require.Error(t, err)
	text, err = call(enforce.AgentDialer(), there, enough)
	require.NoError(t, err)
	require.Equal(t, "peer", text, "the agent reaches its plane")

	// A flow that began under another policy is forbidden now, and its replies are not.
	old := wire.next(false, left[0], protoUDP, nodeMarks)
	old.source = nodeMarks
	wire.fire(wire.of[left[0]], old)
	wire.flush()
	require.NotContains(t, wire.node.got, old.id)

	// Over IPv6 with no neighbour known.
	for i, s := range []*netns.Space{nil, peer} {
		s.IP(t, "neigh flush dev "+[]string{"peer0", "eth0"}[i]+" nud permanent")
	}
	text, err = call(enforce.AgentDialer(), netip.AddrPortFrom(left[5], 443).String(), enough)
	require.NoError(t, err)
	require.Equal(t, "six", text)

	// What somebody else makes of the table is seen, and put right.
	intact, err := n.Intact(t.Context())
	require.NoError(t, err)
	require.True(t, intact)
	for _, meddling := range []string{
		"flush chain inet edict egress_any", "delete table inet edict",
		"add table inet edict { flags dormant; }", "delete table inet edict; add table inet edict { flags dormant; }",
		"insert rule inet edict egress accept", "add element inet edict ingress_ip { 1.2.3.4 : accept }",
		`add element inet edict ingress_ip { 1.2.3.4 comment "mine" : accept }`,
		"add map inet edict m { type ipv4_addr : mark; }; add element inet edict m { 1.2.3.4 : 7 }",
		"add map inet edict m { type ipv4_addr : verdict; flags timeout; }; add element inet edict m { 1.2.3.4 timeout 1h : accept }",
		"flush chain inet edict ingress; add rule inet edict ingress accept; add rule inet edict ingress accept; add rule inet edict ingress accept; add rule inet edict ingress accept; add rule inet edict ingress accept; add rule inet edict ingress accept; add rule inet edict ingress accept; add rule inet edict ingress accept",
	} {
		nft(t, meddling)
		intact, err := n.Intact(t.Context())
		require.NoError(t, err)
		require.False(t, intact, meddling)
		_, text := w.answer()
		apply(t, n, text)
		intact, err = n.Intact(t.Context())
		require.NoError(t, err)
		require.True(t, intact, meddling)
		_, err = call(plain, there, little)
		require.Error(t, err, meddling)
	}
	require.NoError(t, n.Remove(t.Context()))
	require.NoError(t, n.Remove(t.Context()), "once more")
	out, err := exec.Command("nft", "list", "tables").Output()
	require.NoError(t, err)
	require.Equal(t, "table inet others\n", string(out), "others keep what is theirs")
}

func nft(t *testing.T, commands string) {
	t.Helper()
	out, err := exec.Command("nft", commands).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// marked makes sockets whose packets carry a mark.
func marked(value int) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, value)
		})
		return errors.Join(failed, err)
	}
}
