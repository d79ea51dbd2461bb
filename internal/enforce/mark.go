package enforce

import (
	"context"
	"errors"
	"net"
	"sync"
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

// Dial opens a connection.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Lasting dials as dial does. Where a name cannot be resolved just now, it goes to the
// address that it reached last under that name: a resolver on the node, such as
// systemd-resolved, asks others in its own name, and a policy may forbid it that.
func Lasting(dial Dial) Dial {
	var reached sync.Map // by network and address
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		name := [2]string{network, address}
		c, err := dial(ctx, network, address)
		if err == nil {
			reached.Store(name, c.RemoteAddr().String())
			return c, nil
		}
		var unresolved *net.DNSError
		last, known := reached.Load(name)
		if !known || !errors.As(err, &unresolved) || unresolved.IsNotFound || ctx.Err() != nil {
			return nil, err
		}
		if c, failed := dial(ctx, network, last.(string)); failed == nil {
			return c, nil
		}
		return nil, err
	}
}

func agentSocket(_, _ string, c syscall.RawConn) error {
	var err error
	if failed := c.Control(func(fd uintptr) { err = mark(fd) }); failed != nil {
		return failed
	}
	return err
}
