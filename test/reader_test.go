package test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Who reads the log of a plane, such as `tee`, may end before it. The plane goes on, and stops in
// order.
func TestThePlaneOutlivesWhoReadsItsLog(t *testing.T) {
	bin, err := edict()
	require.NoError(t, err)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	p := newProcess(t, bin)
	p.stderr = write
	require.NoError(t, read.Close())
	ready := p.launch()
	require.NoError(t, write.Close())
	require.True(t, p.becomesReady(ready, 30*time.Second), "serve ended: %v", p.cmd.ProcessState)
	_, code := p.run("node", "apply", "web-1", "--label", "role=web")
	require.Zero(t, code)
	p.terminate()
}
