package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Over HTTP/2 a connection to a host that is gone is found by asking, since a stream that
// is asked for again would go by it, too.
func TestConnectionsOfCommandsAreAskedWhetherTheyLive(t *testing.T) {
	a := &app{}
	cmd := nodeCommands{a}.nodeWatchCommand()
	c := credentials{dial: http.DefaultTransport.(*http.Transport).DialContext}
	got, err := c.http(cmd, "https://plane.example")
	require.NoError(t, err)
	h2 := got.Transport.(*bearer).next.(*http.Transport).HTTP2
	require.NotNil(t, h2)
	require.Positive(t, h2.SendPingTimeout)
	require.Positive(t, h2.PingTimeout)
}
