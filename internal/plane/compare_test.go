package plane

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/output"
	"github.com/edictdev/edict/internal/worker"
)

// folding is a plane that has folded 2,100 events itself, and so knows two
// links.
func folding(t *testing.T, opt Options) *Plane {
	opt.Data, opt.NATSListen, opt.Name = t.TempDir(), "127.0.0.1:0", "w1"
	p := running(t, opt)
	_, err := p.stream.PublishAll(t.Context(), nodes(1, 2100))
	require.NoError(t, err)
	require.NoError(t, p.store.Wait(t.Context(), 2100))
	require.Eventually(t, func() bool { return len(p.store.Links()) == 2 }, 20*time.Second, time.Millisecond)
	return p
}

// meets has p see another worker that tells these links.
func (p *Plane) meets(t *testing.T, told []relay.WorkerLink) {
	leases, err := worker.LeasesOn(p.conn, true)(t.Context())
	require.NoError(t, err)
	value, err := json.Marshal(relay.Worker{ID: "b", Name: "w2", Links: told})
	require.NoError(t, err)
	_, err = leases.Create(t.Context(), "other", value, time.Minute)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(p.worker.Live()) == 2 }, 20*time.Second, time.Millisecond)
}

func changed(told []relay.WorkerLink, i int) []relay.WorkerLink {
	told[i].Hash = strings.Repeat("0f", 32)
	return told
}

func TestWorkersThatFoldedDifferentEventsStandStill(t *testing.T) {
	p := folding(t, Options{Announce: []int{}}) // nobody writes the witness
	p.meets(t, changed(p.worker.Self().Links, 1))
	err := p.alarmed(t)
	requireDamage(t, err, streams.DamageChanged, 1001, 2000)
	require.ErrorContains(t, err, "workers w1 and w2")
	require.ErrorContains(t, err, "edict log verify")
	status, body := p.get(t, "/readyz")
	require.Equal(t, 503, status)
	require.Contains(t, body, "workers w1 and w2")
}

func TestWorkersThatFoldedTheSameAgree(t *testing.T) {
	p := folding(t, Options{Announce: []int{}})
	told := append(p.worker.Self().Links, relay.WorkerLink{Log: p.stream.ID(), Seq: 3000, Hash: "unread"},
		relay.WorkerLink{Log: "another", Seq: 1000, Hash: strings.Repeat("0f", 32)})
	p.meets(t, told)
	require.NoError(t, p.alarm.Raised())
	self := p.worker.Self()
	require.Len(t, self.Links, 2, "and tells them")
	require.EqualValues(t, 2000, self.Links[1].Seq)
}

func TestAWorkerThatTheWitnessConfirmsGoesOn(t *testing.T) {
	var out output.Buffer
	p := folding(t, Options{witnessEvery: 5 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&out, nil))})
	require.Eventually(t, func() bool { return p.store.Agreed() >= 2000 }, 20*time.Second, time.Millisecond)
	p.meets(t, changed(p.worker.Self().Links, 1))
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "another worker folded another log") }, 20*time.Second, time.Millisecond)
	require.NoError(t, p.alarm.Raised())
}
