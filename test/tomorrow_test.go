package test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// tomorrow appends an event as a producer does whose release is ahead of the
// plane's, and has the plane fold it.
func tomorrow(t *testing.T, p *process) {
	t.Helper()
	nc, err := nats.Connect("nats://" + p.nats)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	m := nats.NewMsg("edict.log." + defaultProject + ".node.m")
	m.Data = []byte(`{"id":"0190a000-0000-7000-8000-000000000001","type":"node_updated","project_id":"` + defaultProject + `","node_id":"m","labels":{},"addresses":[]}`)
	m.Header.Set(wire.HeaderDataSchema, "edict/v6")
	_, err = js.PublishMsg(t.Context(), m)
	require.NoError(t, err)
}

// works wants a write taken, nodes listed and the plane ready.
func works(t *testing.T, p *process, node string, nodes int) {
	t.Helper()
	p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/"+node, map[string]any{"labels": map[string]string{}, "addresses": []string{}}, 201)
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	require.NoError(t, json.Unmarshal(p.do("GET", "/v1/projects/"+defaultProject+"/nodes", nil, 200), &list))
	require.Len(t, list.Items, nodes)
	p.do("GET", "/readyz", nil, 200)
	out, code := p.run("log", "verify")
	require.Zero(t, code, out)
}

// TestAProducerAheadOfThePlaneStopsNothing: its event is rejected, and writes,
// reads, `log verify` and further starts go on.
func TestAProducerAheadOfThePlaneStopsNothing(t *testing.T) {
	t.Parallel()
	p := serve(t)
	works(t, p, "a", 1)
	tomorrow(t, p)
	works(t, p, "b", 2)
	p.terminate()
	_, code := p.run("log", "accept", "--log", p.data, "--yes")
	require.Zero(t, code, "there is nothing to accept")
	require.DirExists(t, filepath.Join(p.data, "store"))
	p.start()
	works(t, p, "c", 3)
	p.terminate()
	require.NoError(t, os.RemoveAll(filepath.Join(p.data, "store")))
	p.start()
	works(t, p, "d", 4)
}

// TestAPlaneThatSuchAnEventStoppedComesBack: its witness was written by folds
// that named the event by nothing, and then perhaps by an acceptance that named
// it by its id, after which the fold stood at nothing.
func TestAPlaneThatSuchAnEventStoppedComesBack(t *testing.T) {
	t.Parallel()
	origin := serve(t)
	works(t, origin, "a", 1)
	tomorrow(t, origin)
	works(t, origin, "b", 2)
	origin.terminate()
	for name, accepted := range map[string]bool{"as folds left it": false, "as an acceptance left it": true} {
		t.Run(name, func(t *testing.T) {
			p := newProcess(t, origin.bin)
			require.NoError(t, os.CopyFS(p.data, os.DirFS(origin.data)))
			require.NoError(t, os.Chmod(filepath.Join(p.data, "signing.key"), 0o600))
			stampStore(t, p.data, projector.SchemaVersion-1)
			if accepted {
				require.NoError(t, os.Rename(filepath.Join(p.data, "store"), filepath.Join(p.data, "store.lost-3")))
			}
			witnessAsBefore(t, p.data, accepted)
			out, code := p.run("log", "verify", "--log", p.data)
			require.Zero(t, code, out)
			out, code = p.run("log", "accept", "--log", p.data, "--yes")
			require.Zero(t, code, out)
			p.start()
			works(t, p, "c", 3)
			p.terminate()
			p.start()
			works(t, p, "d", 4)
		})
	}
}

// witnessAsBefore gives a stopped plane the witness that an older release would
// have left of its log: the last link of a fold, and one of an acceptance.
func witnessAsBefore(t *testing.T, data string, accepted bool) {
	t.Helper()
	server, err := streams.StartServer(streams.ServerOptions{Dir: filepath.Join(data, "nats")})
	require.NoError(t, err)
	defer server.Close()
	conn, err := streams.Connect(t.Context(), streams.ConnectOptions{Server: server})
	require.NoError(t, err)
	defer conn.Close()
	log, err := streams.OpenLog(t.Context(), conn, streams.LogOptions{})
	require.NoError(t, err)
	state, err := log.State(t.Context())
	require.NoError(t, err)
	link := streams.Link{Log: log.ID(), Base: log.Base()}
	var read [32]byte
	for link.Seq < state.Last {
		m, err := log.Get(t.Context(), link.Seq+1)
		require.NoError(t, err)
		e, err := policy.Decode(m.Body)
		require.NoError(t, err)
		id := e.EventID().String()
		read = chained(read, m, id)
		if m.Get(wire.HeaderDataSchema) == "edict/v6" {
			id = ""
		}
		link.Hash, link.Seq = chained(link.Hash, m, id), m.Seq
	}

	nc, err := nats.Connect("", nats.InProcessServer(server))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), streams.ChainStream))
	chain, err := streams.OpenChain(t.Context(), conn)
	require.NoError(t, err)
	at, err := chain.Append(t.Context(), 0, link)
	require.NoError(t, err)
	if accepted {
		link.Hash, link.Accepted = read, true
		_, err = chain.Append(t.Context(), at, link)
		require.NoError(t, err)
	}
}

// chained is the chain hash of docs/design.md#the-read-model, worked out once more.
func chained(before [32]byte, m streams.Message, id string) [32]byte {
	body := sha256.Sum256(m.Body)
	b := binary.BigEndian.AppendUint64(before[:], m.Seq)
	return sha256.Sum256(append(append(b, m.Subject+id...), body[:]...))
}
