package api

import (
	"net"

	"golang.org/x/sys/unix"
)

// maxUnsent bounds, in bytes, what the system holds of answers for a client that does not take
// them. By default it holds megabytes, and lets a write go on only when a third of them was
// taken: whoever reads slowly would seem to read nothing.
const maxUnsent = 2 * pieceBytes

// boundUnsent bounds it for a connection. What is under way to a client that reads is not bounded.
func boundUnsent(c net.Conn) {
	if under, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = under.NetConn() // TLS
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { // one that cannot be bounded serves as well as it can
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent) //nolint:gosec // a file descriptor
		})
	}
}
