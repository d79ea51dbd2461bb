//go:build unix

package relay

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheSystemKeepsLittleOfAStream(t *testing.T) {
	log := newScript(t)
	log.node("n0", "role=a")
	g := newStage(t, log, Options{})
	g.play()
	for _, begin := range []func(*httptest.Server){(*httptest.Server).Start, (*httptest.Server).StartTLS} {
		accepted := make(chan net.Conn, 1)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			_ = g.relay.ServeEvents(rw, req, "n0") // the client sees it
		}))
		server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			accepted <- c
			return WithConn(ctx, c)
		}
		begin(server)
		res, err := server.Client().Get(server.URL)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
		conn := <-accepted
		if under, ok := conn.(interface{ NetConn() net.Conn }); ok {
			conn = under.NetConn()
		}
		const most = 256 << 10 // Linux keeps twice what it is told
		require.LessOrEqual(t, sendBuffer(t, conn.(*net.TCPConn)), most)
		require.NoError(t, res.Body.Close())
		server.Close()
	}
}

func sendBuffer(t *testing.T, c *net.TCPConn) (bytes int) {
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) {
		bytes, failed = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
	}))
	require.NoError(t, failed)
	return bytes
}
