package test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
)

// TestACompactionThatIsKilledIsRunAgain kills the worker at each step of a compaction. It
// starts with all facts, and the same command goes on; what a backup needs is in the archive
// that is written first.
func TestACompactionThatIsKilledIsRunAgain(t *testing.T) {
	t.Parallel()
	bin, err := struck()
	require.NoError(t, err)
	d := newDrill(t, "recovery.md")
	d.bin = bin
	d.start()
	w := d.facts()
	w.revise(4)
	points := []string{"origin.stored", "origin.proved", "origin.recorded", "origin.purged"}
	for i, point := range points[upTo(1, 0):] { // the first two leave the same
		d.terminate()
		d.env = []string{"EDICT_FAULT=" + point + ":1"}
		d.start()
		d.env = nil
		command := fmt.Sprintf("edict log compact --keep %d --archive ./backup/log", 3+i)
		was := d.extent()
		d.does(command+"; test $? -ne 0", 0)
		<-d.gone
		d.start()
		is := was
		switch made := uint64(3 + i); point {
		case "origin.recorded":
			is.recorded = made
		case "origin.purged":
			is = extent{made, made}
		}
		require.Equal(t, is, d.extent(), "nothing is removed before all of it is so: %s", point)
		w.revise(1)
		stands := d.shown("web-1")
		d.does(command, 0)
		require.Equal(t, extent{uint64(3 + i), uint64(3 + i)}, d.extent(), point)
		require.Equal(t, stands, d.shown("web-1"), point)
		d.does("edict replay --verify", 0)
		require.Contains(t, d.does("edict log verify", 0), fmt.Sprintf("events %d to", 3+i))
		d.do(http.MethodGet, "/v1/audit?after=1", nil, http.StatusGone)
	}
	// A log of 90 days is not made in a test.
	d.own = strings.NewReplacer("90d", "1ns")
	d.runs("edict log compact --keep 90d --archive ./backup/log", 0)
	d.does("edict backup --to ./backup", 0)
	d.does("edict backup --to ./other", 0)
	require.Contains(t, d.does("edict restore --from ./other --data ./made", 0), "equal to that of the plane that was backed up")
}

// extent is where a log begins by its record, and by what is there.
type extent struct{ recorded, first uint64 }

func (d *drill) extent() (e extent) {
	d.t.Helper()
	c, err := streams.Connect(d.t.Context(), streams.ConnectOptions{URL: "nats://" + d.nats})
	require.NoError(d.t, err)
	defer c.Close()
	o, err := streams.FindOrigin(d.t.Context(), c)
	if !errors.Is(err, streams.ErrNotFound) {
		require.NoError(d.t, err)
	}
	e.recorded = o.Seq
	log, err := streams.OpenLog(d.t.Context(), c, streams.LogOptions{})
	require.NoError(d.t, err)
	state, err := log.State(d.t.Context())
	require.NoError(d.t, err)
	e.first = state.First
	return e
}

// TestACompactionGoesOnOnlyFromAnOriginThatIsThere kills the worker behind the record of
// an origin, and takes the origin away: what it stands for is not removed until it is
// there again.
func TestACompactionGoesOnOnlyFromAnOriginThatIsThere(t *testing.T) {
	t.Parallel()
	bin, err := struck()
	require.NoError(t, err)
	d := newDrill(t, "recovery.md")
	d.bin, d.env = bin, []string{"EDICT_FAULT=origin.recorded:1"}
	d.start()
	d.env = nil
	d.facts().revise(4)
	const command = "edict log compact --keep 4"
	d.does(command+"; test $? -ne 0", 0)
	<-d.gone
	d.start()
	require.Equal(t, extent{4, 1}, d.extent())

	nc, err := nats.Connect("nats://" + d.nats)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	objects, err := js.ObjectStore(t.Context(), snapshot.Store)
	require.NoError(t, err)
	all, err := objects.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	whole, err := objects.GetBytes(t.Context(), all[0].Name)
	require.NoError(t, err)
	bent := slices.Clone(whole)
	bent[len(bent)/2] ^= 1
	for _, bytes := range [][]byte{nil, bent} {
		require.NoError(t, objects.Delete(t.Context(), all[0].Name))
		if bytes != nil {
			_, err = objects.PutBytes(t.Context(), all[0].Name, bytes)
			require.NoError(t, err)
		}
		d.does(command+"; test $? -ne 0", 0)
		require.Equal(t, extent{4, 1}, d.extent(), "nothing is removed")
	}
	require.NoError(t, objects.Delete(t.Context(), all[0].Name))
	_, err = objects.PutBytes(t.Context(), all[0].Name, whole)
	require.NoError(t, err)
	d.does(command, 0)
	require.Equal(t, extent{4, 4}, d.extent())
	d.does("edict replay --verify", 0)
}
