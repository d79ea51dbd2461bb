package plane

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/wire"
)

// takes has a worker take a write, and read its whole log without a fault.
func (p *Plane) takes(t *testing.T, node string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+p.listeners.HTTP.Addr().String()+"/v1/projects/"+ours+"/nodes/"+node, strings.NewReader(`{"labels":{}}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusCreated, res.StatusCode, node)
	status, body := p.get(t, "/readyz")
	require.Equal(t, http.StatusOK, status, body)
	require.True(t, p.monitor.Audit(t.Context()), "the audit")
	require.NoError(t, p.alarm.Raised())
}

// Two workers meet an event that a producer appended whose release is ahead of
// theirs. Both go on, before and after each of them was started again, on its
// read model and without; the audit of each passes, and so does what each witnesses for the other.
func TestTwoWorkersGoOnAfterAnEventOfTomorrow(t *testing.T) {
	dir := data(t)
	e := startExternal(t, dir)
	var opts [2]Options
	var workers [2]*Plane
	var stop [2]func()
	for i, name := range []string{"w1", "w2"} {
		opts[i] = e.worker(t, dir)
		opts[i].Name = name
		if i > 0 {
			opts[i].Data = t.TempDir()
		}
		workers[i], stop[i] = runningUntil(t, opts[i])
		workers[i].serves(t)
	}
	nc, err := nats.Connect(e.opt.Listen)
	require.NoError(t, err)
	defer nc.Close()
	m := nats.NewMsg("edict.log." + ours + ".node.m")
	m.Data = []byte(`{"id":"0190a000-0000-7000-8000-000000000001","type":"node_updated","project_id":"` + ours + `","node_id":"m","labels":{},"addresses":[]}`)
	m.Header[wire.HeaderDataSchema] = []string{"edict/v6"}
	_, err = nc.RequestMsg(m, 10*time.Second)
	require.NoError(t, err)
	for _, p := range workers {
		require.NoError(t, p.store.Wait(t.Context(), folded+1))
		var counts projector.Counts
		p.store.Read(func(v *projector.View) { counts = v.Counts() })
		require.EqualValues(t, 1, counts.Rejected)
	}
	workers[0].takes(t, "before-1")
	workers[1].takes(t, "before-2")
	for i, p := range workers {
		stop[i]()
		workers[1-i].takes(t, "alone-"+opts[1-i].Name)
		if i > 0 {
			opts[i].Data = t.TempDir() // it folds all of the log, under the eyes of the witness
		}
		p, stop[i] = runningUntil(t, opts[i])
		p.serves(t)
		workers[i] = p
		p.takes(t, "again-"+opts[i].Name)
		workers[1-i].takes(t, "beside-"+opts[i].Name)
		head := p.store.Applied()
		require.Eventually(t, func() bool { return p.store.Agreed() >= head }, 20*time.Second, time.Millisecond, "the witness vouches for what was written")
	}
}
