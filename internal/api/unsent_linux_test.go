package api_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
)

// The system holds little of an answer for who takes none of it: if it held megabytes, a slow
// reader would seem to read nothing until a third of them was taken.
func TestTheSystemHoldsLittleOfAnAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served, taken := make(chan error, 1), make(chan int, 1)
	server := api.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sum, part := 0, make([]byte, 16<<10)
		for {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			n, err := w.Write(part)
			if sum += n; err != nil {
				taken <- sum
				return
			}
		}
	})}
	go func() { served <- server.Run(ctx, l) }()
	conn, err := (&net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	}}).Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	require.Less(t, <-taken, 512<<10)
	stop()
	require.NoError(t, <-served)
}
