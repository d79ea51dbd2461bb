package enforce

import (
	"context"
	"net"
	"syscall"
	"time"
)

// Marks of packets (SO_MARK), which only who may change the rules can set.
const (
	// ProxyMark is of a proxy's own connections: they are looked up like others, but
	// never redirected.
	ProxyMark = 0xed1c
	// AgentMark is of the agent's own connections: they pass, so that no policy cuts
	// off the way by which the next one comes.
	AgentMark = 0xed1d
)

// AgentDialer dials as the agent of a node, and asks for names so.
func AgentDialer() *net.Dialer {
	const patience, probe = 30 * time.Second, 30 * time.Second
	names := &net.Dialer{Timeout: patience, Control: agentSocket}
	return &net.Dialer{
		Timeout: patience, KeepAlive: probe, Control: agentSocket,
		Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return names.DialContext(ctx, network, address)
		}},
	}
}

func agentSocket(_, _ string, c syscall.RawConn) error {
	var err error
	if failed := c.Control(func(fd uintptr) { err = mark(fd) }); failed != nil {
		return failed
	}
	return err
}
