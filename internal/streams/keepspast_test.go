package streams

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// TestNobodyButThePlaneTakesFromTheLog: a client of each role asks for it, an
// administrator's too, and the log has what it had. What is left to an administrator is
// to read all, and every other stream.
func TestNobodyButThePlaneTakesFromTheLog(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true, Listen: "127.0.0.1:0", Guard: appender{}})
	c := connect(t, ConnectOptions{Server: s})
	log := openLog(t, c)
	fillNodes(t, log, 1, 3)
	for _, role := range []string{"root", "producer", "node"} {
		nc, err := nats.Connect(s.ClientURL(), nats.Token(role), nats.CustomInboxPrefix("_INBOX"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		require.NoError(t, err, role)
		t.Cleanup(nc.Close)
		for call, body := range map[string]string{
			"PURGE": "", "DELETE": "", "MSG.DELETE": `{"seq":1}`, "UPDATE": `{"name":"EDICT_LOG","subjects":["x"]}`, "RESTORE": `{"config":{"name":"EDICT_LOG"},"state":{}}`,
		} {
			subject := "$JS.API.STREAM." + call + "." + LogStream
			require.NoError(t, nc.PublishRequest(subject, "_INBOX.answer", []byte(body)))
			require.NoError(t, nc.FlushTimeout(within20s))
			require.ErrorContains(t, nc.LastError(), `Permissions Violation for Publish to "`+subject+`"`, role)
		}
	}
	state, err := log.State(within(t))
	require.NoError(t, err)
	require.EqualValues(t, []uint64{1, 3, 3}, []uint64{state.First, state.Last, state.Messages})

	root, err := nats.Connect(s.ClientURL(), nats.Token("root"))
	require.NoError(t, err)
	t.Cleanup(root.Close)
	for _, x := range [][2]string{
		{"STREAM.INFO." + LogStream, ""}, {"STREAM.CREATE.MINE", `{"name":"MINE","subjects":["mine"]}`}, {"STREAM.PURGE.MINE", ""}, {"STREAM.DELETE.MINE", ""},
	} {
		m, err := root.Request("$JS.API."+x[0], []byte(x[1]), within20s)
		require.NoError(t, err, x[0])
		var answer struct{ Error any }
		require.NoError(t, json.Unmarshal(m.Data, &answer))
		require.Nil(t, answer.Error, x[0])
	}
}
