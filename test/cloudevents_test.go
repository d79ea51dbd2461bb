package test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/cloudevent"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// Every event of docs/events.md, as the plane appends it, is a CloudEvent by
// CloudEvents' own SDK.
func TestEventsAreCloudEvents(t *testing.T) {
	t.Parallel()
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "events.md"))
	require.NoError(t, err)
	log := bareLog(t)
	seen := map[string]bool{}
	for _, example := range fenced(string(page), "json") {
		e, err := policy.Decode([]byte(example))
		if err != nil {
			continue // of something else
		}
		seq, _, err := log.Publish(t.Context(), streams.Append{Event: e})
		require.NoError(t, err)
		m, err := log.Get(t.Context(), seq)
		require.NoError(t, err)
		ce, err := cloudevent.Of(m.Header, m.Body)
		require.NoError(t, err, e.EventType())
		require.Equal(t, e.EventType(), ce.Type())
		require.Equal(t, e.EventID().String(), ce.ID())
		require.NotEmpty(t, ce.DataSchema())
		seen[e.EventType()] = true
	}
	require.Len(t, seen, len(policy.Kinds()), "each kind of event")
}

// What a node is sent over NATS is a CloudEvent, too.
func TestMessagesToNodesAreCloudEvents(t *testing.T) {
	t.Parallel()
	p := serve(t)
	nc, err := nats.Connect("nats://" + p.nats)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	sub, err := nc.SubscribeSync("edict.node.web-1.>")
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/web-1", map[string]any{"labels": map[string]string{"role": "web"}}, 201)
	p.do("POST", "/v1/projects/"+defaultProject+"/policies", map[string]any{
		"slug": "web", "selector": map[string]string{"source": "role=web", "destination": "role=web"},
		"rules": []map[string]any{{"action": "deny", "protocol": "any", "source_cidr": "10.0.0.0/8", "destination_cidr": "10.0.0.0/8"}},
	}, 201)

	m, err := sub.NextMsg(30 * time.Second)
	require.NoError(t, err)
	ce, err := cloudevent.Of(m.Header, m.Data)
	require.NoError(t, err)
	require.Equal(t, wire.TypePolicyUpdated, ce.Type())
	require.Equal(t, m.Header.Get(wire.HeaderMsgID), ce.ID())
}

// bareLog is a log on a server that no plane uses.
func bareLog(t *testing.T) *streams.Log {
	s, err := streams.StartServer(streams.ServerOptions{Dir: t.TempDir(), Listen: anyPort, Relaxed: true})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	conn, err := streams.Connect(t.Context(), streams.ConnectOptions{URL: s.ClientURL()})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	log, err := streams.OpenLog(t.Context(), conn, streams.LogOptions{})
	require.NoError(t, err)
	return log
}
