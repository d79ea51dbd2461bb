package test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// natsOperator does what an operator does to streams with the nats command line, which
// asks the server the same: nats stream backup, rm and restore.
type natsOperator struct {
	t  *testing.T
	nc *nats.Conn
}

func newNATSOperator(t *testing.T, url string) *natsOperator {
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return &natsOperator{t, nc}
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

func (o *natsOperator) restore(stream string, b streamBackup) {
	o.t.Helper()
	var to struct {
		Subject string `json:"deliver_subject"`
	}
	o.ask("$JS.API.STREAM.RESTORE."+stream, b, &to)
	for _, chunk := range b.chunks {
		o.hand(to.Subject, chunk)
	}
	o.read(o.hand(to.Subject, nil), nil)
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
