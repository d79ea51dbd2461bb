package test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/relay"
	"github.com/edictdev/edict/streams"
	"github.com/edictdev/edict/test/oracle"
)

// trail reads all of the node stream as it grows and notes what no owner of a
// partition may do: announce without the partition's fence in the same batch,
// or under a fence that another has replaced; fall back to an older version.
type trail struct {
	nodes      *streams.Nodes
	partitions int

	mu       sync.Mutex
	last     uint64
	fences   map[int]relay.Fence
	versions map[string]uint64 // by subject
	batch    string            // whose messages are passing
	place    int               // in it, of the last one; 0: some were replaced before they could be read
	in       map[int]bool      // partitions whose fence it carries
	held     int               // announcements whose fence was seen
	broken   []string
}

// watchTrail begins with what the stream holds.
func watchTrail(t *testing.T, conn *streams.Conn, partitions int) *trail {
	t.Helper()
	nodes, _, err := streams.OpenNodes(t.Context(), conn, streams.NodesOptions{})
	require.NoError(t, err)
	tr := &trail{nodes: nodes, partitions: partitions, fences: map[int]relay.Fence{}, versions: map[string]uint64{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for msgs, err := range nodes.Follow(ctx, 0) {
			tr.mu.Lock()
			if err != nil {
				tr.broken = append(tr.broken, err.Error())
			}
			for _, m := range msgs {
				tr.pass(m)
			}
			tr.mu.Unlock()
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return tr
}

func (tr *trail) breaks(format string, args ...any) {
	tr.broken = append(tr.broken, fmt.Sprintf(format, args...))
}

func (tr *trail) pass(m streams.Message) {
	tr.last = m.Seq
	id := m.Get("Nats-Batch-Id")
	place, _ := strconv.Atoi(m.Get("Nats-Batch-Sequence"))
	switch {
	case id == "" || place == 1:
		tr.batch, tr.place, tr.in = id, 1, map[int]bool{}
	case id == tr.batch && place == tr.place+1 && tr.place > 0:
		tr.place = place
	default:
		tr.batch, tr.place = id, 0
	}
	if text, ok := strings.CutPrefix(m.Subject, "edict.fence."); ok {
		p, _ := strconv.Atoi(text)
		tr.fence(p, m)
		return
	}
	rest, ok := strings.CutPrefix(m.Subject, "edict.node.")
	if !ok {
		return
	}
	node, _, _ := strings.Cut(rest, ".")
	p := policy.NodeID(node).Partition(tr.partitions)
	if tr.place > 0 {
		tr.held++
		if !tr.in[p] {
			tr.breaks("%s at %d is announced without a fence of partition %d", m.Subject, m.Seq, p)
		}
	}
	version, _ := strconv.ParseUint(m.Get(streams.HeaderEdictLogSeq), 10, 64)
	if version <= tr.versions[m.Subject] {
		tr.breaks("%s at %d has version %d after %d", m.Subject, m.Seq, version, tr.versions[m.Subject])
	}
	tr.versions[m.Subject] = version
}

func (tr *trail) fence(p int, m streams.Message) {
	f, err := relay.ParseFence(m.Body)
	if err != nil {
		tr.breaks("fence at %d: %v", m.Seq, err)
		return
	}
	if tr.in != nil {
		tr.in[p] = true
	}
	was := tr.fences[p]
	if f.Epoch < was.Epoch || f.Epoch == was.Epoch && f.Owner != was.Owner {
		tr.breaks("partition %d at %d: owner %s of epoch %d after %s of epoch %d", p, m.Seq, f.Owner, f.Epoch, was.Owner, was.Epoch)
	}
	if f.Epoch > was.Epoch && was.Mode == relay.Follow && f.Mode == relay.Follow && f.After != was.After && f.Epoch == was.Epoch+1 {
		tr.breaks("partition %d at %d: epoch %d begins after %v and not after %v, where it was left", p, m.Seq, f.Epoch, f.After, was.After)
	}
	tr.fences[p] = f
}

// sound waits until the trail has read the stream to its end and requires that
// nothing was broken.
func (tr *trail) sound(t *testing.T) {
	t.Helper()
	state, err := tr.nodes.State(t.Context())
	require.NoError(t, err)
	require.True(t, waitFor(20*time.Second, func() bool {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		return tr.last >= state.Last
	}))
	tr.mu.Lock()
	defer tr.mu.Unlock()
	require.Empty(t, tr.broken)
	require.NotZero(t, tr.held, "no announcement was judged")
}

// tells compares what the node stream says last with what the oracle wants of
// every node.
func (tr *trail) tells(t *testing.T, plane *oracle.Plane) {
	t.Helper()
	state, err := tr.nodes.State(t.Context())
	require.NoError(t, err)
	says := map[string]string{}
	for msgs, err := range tr.nodes.Read(t.Context(), tr.nodes.First(), state.Last, "edict.node.>") {
		require.NoError(t, err)
		for _, m := range msgs {
			var e struct {
				Name    string `json:"name"`
				Payload struct {
					Node        string `json:"node_id"`
					Fingerprint string `json:"fingerprint"`
				} `json:"payload"`
			}
			require.NoError(t, json.Unmarshal(m.Body, &e))
			if e.Payload.Fingerprint != oracle.EmptyFingerprint {
				says[e.Payload.Node+"/"+e.Name] = e.Payload.Fingerprint
			}
		}
	}
	want := map[string]string{}
	for _, node := range plane.Nodes() {
		for _, r := range plane.Rows(node) {
			want[node+"/"+r.Policy] = r.Fingerprint
		}
	}
	require.Equal(t, want, says)
}
