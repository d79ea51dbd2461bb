package test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/policy"
)

// trail hears everything that is published for nodes and notes what no publisher
// may do: say two things under one event id, or name what it says in two ways. It
// keeps what was said last of each row, by the greatest id.
type trail struct {
	conn *streams.Conn

	mu     sync.Mutex
	said   map[string]saying // by node and event id
	rows   map[string]saying // by node and policy
	twice  int               // messages heard again
	broken []string
}

// saying is what one message says.
type saying struct {
	id      policy.EventID
	row     string
	payload string
	rules   string // fingerprint
}

// watchTrail hears what is published from now on.
func watchTrail(t *testing.T, conn *streams.Conn) *trail {
	t.Helper()
	tr := &trail{conn: conn, said: map[string]saying{}, rows: map[string]saying{}}
	stop, err := conn.Hear("edict.node.>", tr.pass)
	require.NoError(t, err)
	t.Cleanup(stop)
	require.NoError(t, conn.Settle(t.Context()))
	return tr
}

func (tr *trail) breaks(format string, args ...any) {
	tr.broken = append(tr.broken, fmt.Sprintf(format, args...))
}

func (tr *trail) pass(m streams.Message) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	node, name, ok := strings.Cut(strings.TrimPrefix(m.Subject, "edict.node."), ".")
	id, err := policy.ParseEventID(m.Get("Edict-Event-Id"))
	if !ok || err != nil {
		tr.breaks("%s: event id %q", m.Subject, m.Get("Edict-Event-Id"))
		return
	}
	if want := node + "." + id.String(); m.Get("Edict-Id") != want || m.Get("Nats-Msg-Id") != want {
		tr.breaks("%s: Edict-Id %q, Nats-Msg-Id %q, want %q", m.Subject, m.Get("Edict-Id"), m.Get("Nats-Msg-Id"), want)
	}
	if prev, err := policy.ParseEventID(m.Get("Edict-Prev")); err != nil || prev >= id {
		tr.breaks("%s: %s after %q", m.Subject, id, m.Get("Edict-Prev"))
	}
	var e struct {
		Name    string          `json:"name"`
		Node    string          `json:"node"`
		Payload json.RawMessage `json:"payload"`
	}
	var p struct {
		Fingerprint string `json:"fingerprint"`
	}
	if json.Unmarshal(m.Body, &e) != nil || json.Unmarshal(e.Payload, &p) != nil || e.Node != node {
		tr.breaks("%s: %s", m.Subject, m.Body)
		return
	}
	s := saying{id, node + "/" + name, string(e.Payload), p.Fingerprint}
	if was, known := tr.said[m.Get("Edict-Id")]; known {
		tr.twice++
		if was != s {
			tr.breaks("%s says %+v and %+v", m.Get("Edict-Id"), was, s)
		}
		return
	}
	tr.said[m.Get("Edict-Id")] = s
	if m.Get("Edict-Type") == "policy_updated" && tr.rows[s.row].id < id {
		tr.rows[s.row] = s
	}
}

// sound requires that nothing was broken so far.
func (tr *trail) sound(t *testing.T) {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	require.Empty(t, tr.broken)
	require.NotEmpty(t, tr.said, "nothing was heard")
	t.Logf("%d messages heard, %d of them twice", len(tr.said), tr.twice)
}

// tells waits until what was said last is what the oracle wants of every node.
func (tr *trail) tells(t *testing.T, plane *oracle.Plane) {
	t.Helper()
	want := map[string]string{}
	for _, node := range plane.Nodes() {
		for _, r := range plane.Rows(node) {
			want[node+"/"+r.Policy] = r.Fingerprint
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, tr.conn.Settle(ctx))
	var says map[string]string
	if !waitFor(20*time.Second, func() bool {
		says = tr.says()
		return maps.Equal(want, says)
	}) {
		require.Equal(t, want, says)
	}
}

// says are the rows that nodes were sent last.
func (tr *trail) says() map[string]string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	says := map[string]string{}
	for row, s := range tr.rows {
		if s.rules != oracle.EmptyFingerprint {
			says[row] = s.rules
		}
	}
	return says
}
