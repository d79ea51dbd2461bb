package test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// Every event of docs/events.md, as the plane appends it, is a CloudEvent by
// CloudEvents' own SDK, but for the form of its data schema (docs/decisions.md).
func TestEventsAreCloudEventsButForTheirDataSchema(t *testing.T) {
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
		ce := cloudEvent(t, m.Header, m.Body)
		require.Equal(t, e.EventType(), ce.Type())
		require.Equal(t, e.EventID().String(), ce.ID())

		faults, refused := ce.Validate().(event.ValidationError)
		require.True(t, refused, "the SDK takes %s: docs/decisions.md says that it does not", ce.DataSchema())
		require.Len(t, faults, 1, "%s", faults)
		require.Contains(t, faults, "dataschema")
		ce.SetDataSchema("")
		require.NoError(t, ce.Validate(), e.EventType())
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
	ce := cloudEvent(t, m.Header, m.Data)
	require.NoError(t, ce.Validate())
	require.Equal(t, wire.TypePolicyUpdated, ce.Type())
	require.Equal(t, m.Header.Get(wire.HeaderMsgID), ce.ID())
	require.False(t, ce.Time().IsZero())
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

// cloudEvent reads a message in the binary mode of the binding for NATS.
func cloudEvent(t *testing.T, header map[string][]string, body []byte) event.Event {
	t.Helper()
	get := func(name string) string {
		if v := header[name]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	ce := event.New(get(wire.HeaderCESpecVersion))
	ce.SetID(get(wire.HeaderCEID))
	ce.SetType(get(wire.HeaderCEType))
	ce.SetSource(get(wire.HeaderCESource))
	ce.SetDataSchema(get(wire.HeaderDataSchema))
	at, err := time.Parse(time.RFC3339Nano, get(wire.HeaderCETime))
	require.NoError(t, err)
	ce.SetTime(at)
	ce.DataEncoded = body
	return ce
}
