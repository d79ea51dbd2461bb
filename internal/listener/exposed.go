package listener

import (
	"errors"
	"fmt"
	"net"
)

// ExposedError means that the plane was configured to listen where others than this
// machine reach it. Until access is configured it does not (docs/design.md#http).
type ExposedError struct{ Addr string }

// Error says what to do.
func (e *ExposedError) Error() string {
	return fmt.Sprintf("refusing to listen on %s: others than this machine may come there with access (--access FILE) and TLS (--tls-cert and --tls-key, "+
		"or --spiffe-socket) alone, because whoever reaches the API may write policy without; give both, or listen on 127.0.0.1 or [::1]", e.Addr)
}

// expose opens any address: of a plane that knows who may do what, or was configured
// to listen without.
func expose(addr string) (net.Listener, error) {
	return net.Listen("tcp", addr)
}

// listen opens a loopback address, port 0 taking a free one. Any other address
// is *ExposedError, a port in use the system's error.
func listen(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, &ExposedError{addr}
	}
	l, err := expose(addr)
	if err != nil {
		return nil, err
	}
	// A name is what the system says it is: look where it led.
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return nil, errors.Join(&ExposedError{addr}, l.Close())
	}
	return l, nil
}
