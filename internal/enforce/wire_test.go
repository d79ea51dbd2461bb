//go:build linux

package enforce_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/edictdev/edict/internal/test/netns"
)

// Addresses of the node, and of its two peers: those that nodes own, and those
// that nobody does.
var (
	node4 = netip.MustParseAddr("203.0.113.100")
	node6 = netip.MustParseAddr("2001:db8:ffff::100")
	left  = addrs("10.0.0.1", "10.1.0.1", "10.1.1.1", "10.0.0.9", "10.1.0.9", "fd00::1", "fd00:1::1", "fd00::9")
	right = addrs("10.1.1.7", "192.0.2.1", "203.0.113.1", "10.1.1.9", "192.0.2.9", "198.51.100.1", "fd00:1::2", "fd00:1::9", "2001:db8::1")
)

func addrs(texts ...string) (all []netip.Addr) {
	for _, s := range texts {
		all = append(all, netip.MustParseAddr(s))
	}
	return all
}

// wire is a node, which is the test's own namespace, with a peer at each side.
type wire struct {
	t      *testing.T
	node   *end
	peers  [2]*end
	spaces [2]*netns.Space
	of     map[netip.Addr]*end
	source uint16 // of the last probe
	id     uint32 // of the last probe
}

// end is what listens and speaks in one namespace: raw sockets, which get each
// packet that the node's rules let through, whoever else would.
type end struct {
	name    string
	send    map[bool]int // by whether it is IPv4
	receive []receiver
	got     map[uint32]uint16 // ports by probe
}

type receiver struct {
	fd       int
	four     bool
	protocol uint8
}

func newWire(t *testing.T) *wire {
	t.Helper()
	// Packets of one thread on one processor stay in order.
	runtime.LockOSThread()
	var cpus unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &cpus))
	for cpu := range 1024 {
		if cpus.IsSet(cpu) {
			cpus.Zero()
			cpus.Set(cpu)
			break
		}
	}
	require.NoError(t, unix.SchedSetaffinity(0, &cpus))

	w := &wire{t: t, of: map[netip.Addr]*end{}, source: 20000}
	var here *netns.Space
	here.IP(t, "link set lo up")
	w.node = newEnd(t, "the node")
	for i, side := range [][]netip.Addr{left, right} {
		dev := fmt.Sprintf("peer%d", i)
		s := netns.New(t)
		w.spaces[i] = s
		s.Link(t, fmt.Sprintf("%s address 02:00:00:00:00:0%d", dev, 2*i+1), fmt.Sprintf("eth0 address 02:00:00:00:00:0%d", 2*i+2))
		ours := []string{
			"link set " + dev + " up",
			fmt.Sprintf("addr add %s/32 dev %s", node4, dev), fmt.Sprintf("addr add %s/128 dev %s nodad", node6, dev),
		}
		theirs := []string{"link set lo up", "link set eth0 up"}
		for _, a := range side {
			ours = append(
				ours,
				fmt.Sprintf("route add %s/%d dev %s", a, a.BitLen(), dev),
				fmt.Sprintf("neigh add %s lladdr 02:00:00:00:00:0%d dev %s", a, 2*i+2, dev),
			)
			nodad := ""
			if a.Is6() {
				nodad = " nodad"
			}
			theirs = append(theirs, fmt.Sprintf("addr add %s/%d dev eth0%s", a, a.BitLen(), nodad))
		}
		for _, a := range []netip.Addr{node4, node6} {
			theirs = append(
				theirs,
				fmt.Sprintf("route add %s/%d dev eth0", a, a.BitLen()),
				fmt.Sprintf("neigh add %s lladdr 02:00:00:00:00:0%d dev eth0", a, 2*i+1),
			)
		}
		here.IP(t, ours...)
		s.IP(t, theirs...)
		s.Do(func() { w.peers[i] = newEnd(t, dev) })
		for _, a := range side {
			w.of[a] = w.peers[i]
		}
	}
	return w
}

func newEnd(t *testing.T, name string) *end {
	t.Helper()
	e := &end{name: name, send: map[bool]int{}}
	for _, four := range []bool{true, false} {
		family, icmp := unix.AF_INET, uint8(protoICMP)
		if !four {
			family, icmp = unix.AF_INET6, protoICMPv6
		}
		e.send[four] = socket(t, family, unix.IPPROTO_RAW)
		for _, p := range []uint8{protoUDP, protoTCP, protoSCTP, protoGRE, icmp} {
			fd := socket(t, family, int(p))
			require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}))
			e.receive = append(e.receive, receiver{fd, four, p})
		}
	}
	return e
}

func socket(t *testing.T, family, protocol int) int {
	t.Helper()
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	return fd
}

// fire sends a probe. That the node's own rules drop it is no error.
func (w *wire) fire(from *end, p probe) {
	packet := p.packet()
	var to unix.Sockaddr = &unix.SockaddrInet4{Addr: as4(p.to)}
	if p.to.Is6() {
		to = &unix.SockaddrInet6{Addr: p.to.As16()}
	}
	if err := unix.Sendto(from.send[p.from.Is4()], packet, 0, to); err != nil && err != unix.EPERM {
		require.NoError(w.t, err, "%s sends %+v", from.name, p)
	}
}

func as4(a netip.Addr) (b [4]byte) {
	if a.Is4() {
		b = a.As4()
	}
	return b
}

// next is a flow that there was not before, with a peer.
func (w *wire) next(egress bool, peer netip.Addr, protocol uint8, port uint16) probe {
	w.id++
	if w.source++; w.source == 60000 {
		w.source = 20001
	}
	ours := node4
	if peer.Is6() {
		ours = node6
	}
	p := probe{from: peer, to: ours, protocol: protocol, source: w.source, port: port, id: w.id}
	if egress {
		p.from, p.to = ours, peer
	}
	return p
}

// Markers follow the probes on flows that the other side began: the arrival of one
// says that everything sent before it has arrived, or never will.
const (
	nodeMarks = 61001 // its port, and that of the peer it marks to
	peerMarks = 61002
)

// meet begins the flows of the markers. The node must let everything through.
func (w *wire) meet() {
	for _, peer := range []netip.Addr{left[0], right[0]} {
		w.mark(peer, false, nodeMarks)
		w.mark(peer, true, nodeMarks)
		w.mark(peer, true, peerMarks)
		w.mark(peer, false, peerMarks)
	}
}

func (w *wire) mark(peer netip.Addr, egress bool, port uint16) {
	p := w.next(egress, peer, protoUDP, port)
	p.source = port
	from, to := w.of[peer], w.node
	if egress {
		from, to = to, from
	}
	for range 12 { // a device that has just come up may lose the first
		w.fire(from, p)
		if to.await(w.t, p.id) {
			return
		}
	}
	require.Fail(w.t, "a marker did not arrive", "at %s: replies do not pass", to.name)
}

// flush waits until everything that was fired has arrived, and gathers it.
func (w *wire) flush() {
	for _, peer := range []netip.Addr{left[0], right[0]} {
		w.mark(peer, true, nodeMarks)
		w.mark(peer, false, peerMarks)
	}
	for _, e := range []*end{w.node, w.peers[0], w.peers[1]} {
		e.drain(w.t)
	}
}

// await reads until a marker comes, or none does for five seconds.
func (e *end) await(t *testing.T, id uint32) bool {
	t.Helper()
	for began := time.Now(); time.Since(began) < 5*time.Second; {
		if e.read(t, e.receive[0], 0) {
			if _, came := e.got[id]; came {
				delete(e.got, id)
				return true
			}
		}
	}
	return false
}

func (e *end) drain(t *testing.T) {
	t.Helper()
	for _, r := range e.receive {
		for e.read(t, r, unix.MSG_DONTWAIT) {
		}
	}
}

func (e *end) read(t *testing.T, r receiver, flags int) bool {
	t.Helper()
	var buf [2048]byte
	n, _, err := unix.Recvfrom(r.fd, buf[:], flags)
	if err == unix.EAGAIN || err == unix.EINTR {
		return false
	}
	require.NoError(t, err)
	if id, port, ok := seen(buf[:n], r.four, r.protocol); ok {
		if e.got == nil {
			e.got = map[uint32]uint16{}
		}
		e.got[id] = port
	}
	return true
}
