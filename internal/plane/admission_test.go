package plane

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/datadir"
)

// TestTwoServersCannotBothTakeAName has two processes on one log race for names
// and priorities. Neither has seen what the other writes when it checks; the
// order of the log decides.
func TestTwoServersCannotBothTakeAName(t *testing.T) {
	dir := t.TempDir()
	first, _ := start(t, Options{Data: filepath.Join(dir, "a"), Name: "a", NATSListen: "127.0.0.1:0", Relaxed: true})
	second, _ := start(t, Options{
		Data: filepath.Join(dir, "b"), Name: "b", NATS: first.NATS, SigningKey: datadir.Dir(filepath.Join(dir, "a")).SigningKey(), Announce: []int{},
	})
	clients := []*client.Client{newClient(t, first), newClient(t, second)}
	draft := func(name string, priority int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"name":%q,"policy_type":"Global","priority":%d,"rego_code":"package dcm.policy.x\n\nresult := {}\n"}`, name, priority))
	}
	for round := range 10 {
		var wg sync.WaitGroup
		ids, faults := make([]string, 2), make([]error, 2)
		for i, c := range clients {
			wg.Go(func() {
				name, priority := fmt.Sprint("n", round), 2*round+i // the same name, or
				if round%2 == 1 {
					name, priority = fmt.Sprint("n", round, "-", i), 2*round // the same priority
				}
				made, err := c.Admission.Create(t.Context(), draft(name, priority))
				ids[i], faults[i] = made.ID, err
			})
		}
		wg.Wait()
		winner := 0
		if faults[0] != nil {
			winner = 1
		}
		require.NoError(t, faults[winner], "one of them wins")
		var pr *client.Problem
		require.True(t, errors.As(faults[1-winner], &pr), "and one only: %v", faults)
		require.Equal(t, map[int]string{0: "name_taken", 1: "priority_taken"}[round%2], pr.Code)
		_, err := clients[winner].Admission.Get(t.Context(), ids[winner])
		require.NoError(t, err, "who made it reads it at once")
		require.NoError(t, clients[winner].Admission.Delete(t.Context(), ids[winner]))
		for range clients[winner].Admission.All(t.Context(), nil) {
			t.Fatal("deleted")
		}
	}
}

// TestARebuiltPlaneJudgesAsBefore replays the log into a new store.
func TestARebuiltPlaneJudgesAsBefore(t *testing.T) {
	dir := t.TempDir()
	opt := Options{Data: dir, NATSListen: "none", Relaxed: true}
	at, stop := start(t, opt)
	c := newClient(t, at)
	_, err := c.Admission.Create(t.Context(), json.RawMessage(
		`{"name":"n","policy_type":"User","user_id":"ana","rego_code":"package dcm.policy.x\n\nresult := {\"patch\": {\"by\": input.user_id}}\n"}`))
	require.NoError(t, err)
	judge := func(c *client.Client) resource.Admitted {
		out, err := c.Admission.Evaluate(t.Context(), json.RawMessage(`{"request_payload":{},"user_id":"ana"}`), false)
		require.NoError(t, err)
		return out
	}
	before := judge(c)
	require.JSONEq(t, `{"by":"ana"}`, string(before.RequestPayload))
	stop()
	for _, rebuilt := range []bool{false, true} {
		if rebuilt {
			require.NoError(t, os.RemoveAll(datadir.Dir(opt.Data).Store()))
		}
		at, stop := start(t, opt)
		require.Equal(t, before, judge(newClient(t, at)))
		stop()
	}
}
