package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/internal/test/greeter"
)

// A server that greets is named by its greeting, also where that comes before the request was sent:
// then Go's client says something else.
func TestAServerThatGreetsIsNamedByItsGreeting(t *testing.T) {
	for greeting, nats := range map[string]bool{"INFO {\"server_id\":\"N\"} \r\n": true, "SSH-2.0-OpenSSH_9.2\r\n": false} {
		addr := greeter.Start(t, greeting)
		closed := make(chan struct{})
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &noticed{Conn: c, closed: closed}, err
		}
		c, err := client.New("http://"+addr, client.Options{HTTP: &http.Client{Transport: &http.Transport{DialContext: dial}}})
		require.NoError(t, err)
		// The request waits until the client has given the connection up.
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { <-closed }})
		_, err = c.Nodes.Get(ctx, project, "n")
		require.Error(t, err)
		require.Equal(t, nats, errors.Is(err, client.ErrSpeaksNATS), "%v", err)
	}
}

// noticed is a connection that says when it is closed.
type noticed struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (c *noticed) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
