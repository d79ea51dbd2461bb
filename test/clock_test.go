package test

import (
	"encoding/binary"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var clockOverlay = flag.String("clock.overlay", "", "the overlay by which this test was built, as go run ./test/clock makes it: clocks of NATS servers and workers are stepped, too")

// clock is what processes that were built with the overlay take the time from.
type clock struct {
	t    *testing.T
	file *os.File
}

// newClock is one that agrees with the machine's; nil without an overlay.
func newClock(t *testing.T) *clock {
	t.Helper()
	if *clockOverlay == "" {
		return nil
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "clock"))
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	c := &clock{t: t, file: file}
	c.ahead(0)
	return c
}

// ahead steps it: it is ahead of the machine's clock by so much, or behind it.
func (c *clock) ahead(d time.Duration) {
	_, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(d/time.Second)), 0) //nolint:gosec // two's complement
	require.NoError(c.t, err)
}

// env has a process take the time from it.
func (c *clock) env() []string {
	if c == nil {
		return nil
	}
	return []string{"EDICT_TEST_CLOCK=" + c.file.Name()}
}

// steps are what is done to clocks: a correction, a machine that was set by hand, and one whose
// battery is empty.
var steps = []time.Duration{2 * time.Second, -2 * time.Second, 10 * time.Minute, -10 * time.Minute, 25 * time.Hour, -25 * time.Hour}

// stepped are the ills of clocks.
var stepped = []ill{
	{"clocks of servers stepped", false, func(c *natsCluster, i int, hold func()) {
		step(c.server(i).clock, steps[i%len(steps)], hold)
	}},
	{"clocks of workers stepped", false, func(c *natsCluster, i int, hold func()) {
		step(c.workers[i%len(c.workers)].clock, max(-patience, min(patience, steps[i%len(steps)])), hold)
	}},
}

// patience is less than the five minutes by which clients refuse what was signed at another time: a
// worker whose clock is further away tells nobody anything.
const patience = 4 * time.Minute

func step(c *clock, d time.Duration, hold func()) {
	c.ahead(d)
	hold()
	c.ahead(0)
}

// keepsTimeBy holds that a worker's answers are of its clock, and not of the machine's.
func (p *process) keepsTimeBy(c *clock) {
	p.t.Helper()
	for _, d := range []time.Duration{time.Hour, -time.Hour, 0} {
		c.ahead(d)
		resp, err := http.Get("http://" + p.http + "/livez")
		require.NoError(p.t, err)
		resp.Body.Close()
		at, err := http.ParseTime(resp.Header.Get("Date"))
		require.NoError(p.t, err)
		require.WithinDuration(p.t, time.Now().Add(d), at, 10*time.Minute)
	}
}
