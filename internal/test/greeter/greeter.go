// Package greeter has servers that speak first, as those of NATS and SSH do, and nothing else.
package greeter

import (
	"net"
	"testing"
)

// Start is the address of a server that says something to whoever connects, and hangs up when
// the test ends.
func Start(t testing.TB, greeting string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Write([]byte(greeting)) // who hangs up does not hear it
		}
	}()
	return l.Addr().String()
}
