package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// natsOperator does what an operator does to streams with the nats command line: nats
// stream backup, rm, restore and edit.
type natsOperator struct {
	t    *testing.T
	d    *drill
	nc   *nats.Conn
	url  string
	nats string                  // the command line; "": this machine has none
	made map[string]streamBackup // by stream, where it has none
}

func newNATSOperator(d *drill, url string) *natsOperator {
	nc, err := nats.Connect(url)
	require.NoError(d.t, err)
	d.t.Cleanup(nc.Close)
	o := &natsOperator{t: d.t, d: d, nc: nc, url: url, made: map[string]streamBackup{}}
	for _, bin := range []string{filepath.Join("..", "bin", "nats"), "nats"} {
		if found, err := exec.LookPath(bin); err == nil && o.nats == "" {
			o.nats, err = filepath.Abs(found)
			require.NoError(d.t, err)
		}
	}
	return o
}

// runs runs a command of the page by the command line of NATS. Where the machine has none,
// the server is asked what that asks.
func (o *natsOperator) runs(command string) {
	o.t.Helper()
	o.d.shows(command)
	if o.nats != "" {
		o.d.does(fmt.Sprintf("NATS_URL=%s %s%s", o.url, o.nats, strings.TrimPrefix(command, "nats")), 0)
		return
	}
	words, replicas := strings.Fields(command), 0
	if n := len(words); words[n-2] == "--replicas" {
		var err error
		replicas, err = strconv.Atoi(words[n-1])
		require.NoError(o.t, err)
		words = words[:n-2]
	}
	switch stream := path.Base(words[len(words)-1]); words[2] {
	case "backup":
		o.made[stream] = o.backup(stream)
	case "rm":
		o.remove(stream)
	case "restore":
		o.restore(stream, o.made[stream], replicas)
	case "edit":
		o.edit(stream, replicas)
	default:
		require.Fail(o.t, command)
	}
}

// streamBackup is a directory that `nats stream backup` makes.
type streamBackup struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
	chunks [][]byte
}

// ask asks the server's API, and decodes the answer.
func (o *natsOperator) ask(subject string, request, answer any) {
	o.t.Helper()
	var body []byte
	if request != nil {
		var err error
		body, err = json.Marshal(request)
		require.NoError(o.t, err)
	}
	m, err := o.nc.Request(subject, body, 20*time.Second)
	require.NoError(o.t, err)
	o.read(m, answer)
}

func (o *natsOperator) read(m *nats.Msg, answer any) {
	o.t.Helper()
	var failed struct {
		Error json.RawMessage `json:"error"`
	}
	require.NoError(o.t, json.Unmarshal(m.Data, &failed))
	require.Empty(o.t, string(failed.Error))
	if answer != nil {
		require.NoError(o.t, json.Unmarshal(m.Data, answer))
	}
}

func (o *natsOperator) backup(stream string) (b streamBackup) {
	o.t.Helper()
	to := o.nc.NewInbox()
	sub, err := o.nc.SubscribeSync(to)
	require.NoError(o.t, err)
	defer sub.Unsubscribe() //nolint:errcheck // the connection ends with the test
	o.ask("$JS.API.STREAM.SNAPSHOT."+stream, map[string]any{"deliver_subject": to}, &b)
	for {
		m, err := sub.NextMsg(20 * time.Second)
		require.NoError(o.t, err)
		if len(m.Data) == 0 {
			return b
		}
		b.chunks = append(b.chunks, m.Data)
		if m.Reply != "" {
			require.NoError(o.t, m.Respond(nil))
		}
	}
}

func (o *natsOperator) remove(stream string) {
	o.t.Helper()
	o.ask("$JS.API.STREAM.DELETE."+stream, nil, nil)
}

func (o *natsOperator) restore(stream string, b streamBackup, replicas int) {
	o.t.Helper()
	b.Config = o.keptBy(b.Config, replicas)
	var to struct {
		Subject string `json:"deliver_subject"`
	}
	o.ask("$JS.API.STREAM.RESTORE."+stream, b, &to)
	for _, chunk := range b.chunks {
		o.hand(to.Subject, chunk)
	}
	o.read(o.hand(to.Subject, nil), nil)
}

// keptBy is the configuration of a stream with another number of replicas.
func (o *natsOperator) keptBy(config json.RawMessage, replicas int) json.RawMessage {
	var fields map[string]any
	require.NoError(o.t, json.Unmarshal(config, &fields))
	fields["num_replicas"] = replicas
	text, err := json.Marshal(fields)
	require.NoError(o.t, err)
	return text
}

// edit gives a stream another number of replicas.
func (o *natsOperator) edit(stream string, replicas int) {
	o.t.Helper()
	var info struct{ Config json.RawMessage }
	o.ask("$JS.API.STREAM.INFO."+stream, nil, &info)
	o.ask("$JS.API.STREAM.UPDATE."+stream, o.keptBy(info.Config, replicas), nil)
}

// current waits until each replica of a stream is.
func (o *natsOperator) current(stream string, replicas int) {
	o.t.Helper()
	o.d.shows("nats stream info EDICT_LOG")
	require.True(o.t, waitFor(60*time.Second, func() bool {
		var info struct {
			Cluster struct {
				Replicas []struct {
					Current bool
					Lag     uint64
				}
			}
		}
		o.ask("$JS.API.STREAM.INFO."+stream, nil, &info)
		current := 1 // who leads it
		for _, r := range info.Cluster.Replicas {
			if r.Current && r.Lag == 0 {
				current++
			}
		}
		return current == replicas
	}))
}

// hand gives a server a part of a stream. The one that takes it may be another than this
// client's, which has yet to hear who listens there.
func (o *natsOperator) hand(subject string, chunk []byte) (m *nats.Msg) {
	o.t.Helper()
	var err error
	waitFor(20*time.Second, func() bool {
		m, err = o.nc.Request(subject, chunk, 20*time.Second)
		return !errors.Is(err, nats.ErrNoResponders)
	})
	require.NoError(o.t, err)
	return m
}
