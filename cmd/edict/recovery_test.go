package main

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/plane"
	"github.com/edictdev/edict/internal/streams"
)

// serving runs a plane on data until stop is called.
func serving(t *testing.T, data string) (c *client.Client, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan plane.Addresses, 1), make(chan error, 1)
	go func() {
		ended <- plane.Run(ctx, plane.Options{
			Data: data, HTTP: "127.0.0.1:0", NATSListen: "none", Relaxed: true,
			Ready: func(at plane.Addresses) { ready <- at },
		})
	}()
	select {
	case at := <-ready:
		transport := &http.Transport{}
		c, err := client.New("http://"+at.HTTP, client.Options{HTTP: &http.Client{Transport: transport}})
		require.NoError(t, err)
		return c, func() {
			transport.CloseIdleConnections()
			cancel()
			require.NoError(t, <-ended)
		}
	case err := <-ended:
		cancel()
		require.NoError(t, err)
		return nil, nil
	}
}

// TestTheWayBackFromALostTail is docs/recovery.md, typed.
func TestTheWayBackFromALostTail(t *testing.T) {
	data, project := t.TempDir()+"/data", uuid.MustParse(defaultProject)
	c, stop := serving(t, data)
	put := func(id string) uint64 {
		n, _, err := c.Nodes.Put(t.Context(), project, id, resource.Facts{Labels: map[string]string{"role": "web"}})
		require.NoError(t, err)
		return n.Version
	}
	var last uint64
	for _, id := range []string{"n-1", "n-2", "n-3"} {
		last = put(id)
	}
	stop()

	// The power fails, and takes what was acknowledged last.
	cutFrom(t, data, 2)
	_, err := plane.Open(t.Context(), plane.Options{Data: data, NoAPI: true, NATSListen: "none", Relaxed: true})
	require.ErrorContains(t, err, "lost its tail")
	require.ErrorContains(t, err, "docs/recovery.md")
	require.Equal(t, cli.Conflict, codeOf(err))
	code, r := verify(t, data)
	require.Equal(t, cli.Differs, code)
	require.Equal(t, streams.DamageTruncated, r.Damage.Kind)

	require.EqualValues(t, last, accepted(t, data).Last)
	c, stop = serving(t, data)
	defer stop()
	require.Greater(t, put("n-2"), last, "no node takes what comes for a rollback")
	s, err := c.Status(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, 2, s.Nodes, "the log wins: n-3 is lost, n-2 was written again")
	require.EqualValues(t, 2, s.Rejected, "each lost sequence is listed")
}
