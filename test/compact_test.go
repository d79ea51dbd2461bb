package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	for i, point := range []string{"origin.stored", "origin.proved", "origin.recorded", "origin.purged"} {
		d.terminate()
		d.env = []string{"EDICT_FAULT=" + point + ":1"}
		d.start()
		d.env = nil
		command := fmt.Sprintf("edict log compact --keep %d --archive ./backup/log", 3+i)
		d.does(command+"; test $? -ne 0", 0)
		<-d.gone
		d.start()
		w.revise(1)
		stands := d.shown("web-1")
		d.does(command, 0)
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
