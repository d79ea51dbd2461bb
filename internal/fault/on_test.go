//go:build faults

package fault

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsAskedForIsRead(t *testing.T) {
	for _, bad := range [][2]string{
		{"nowhere:1", ""},
		{"commit.after:0", ""},
		{"commit.after", ""},
		{"commit.after:p0.5", ""},
		{"", "nothing:1"},
		{"", "drop"},
	} {
		require.Error(t, configure(bad[0], bad[1]), "%q", bad)
	}
	require.NoError(t, configure("commit.after:3,publish.before:p0.25@7", "drop:1"))
	defer func() { clear(strikes); clear(mutations) }()
	require.Equal(t, 3, strikes[CommitAfter].left)
	require.InDelta(t, 0.25, strikes[PublishBefore].p, 0)
	require.True(t, Always(Drop))
	require.False(t, Always(Silence))
}

func TestASeedDrawsTheSameEachTime(t *testing.T) {
	draw := func(seed uint64) (out []bool) {
		defer Mutate(Drop, seed)()
		for range 64 {
			out = append(out, Sometimes(Drop))
		}
		return out
	}
	require.Equal(t, draw(1), draw(1))
	require.NotEqual(t, draw(1), draw(2))
	require.NotContains(t, func() []bool { return []bool{Always(Drop), Sometimes(Drop), Picks(Drop, 0, 1)} }(), true, "undone")
}

// TestTheProcessDiesAtTheNthPass runs itself as the process that dies.
func TestTheProcessDiesAtTheNthPass(t *testing.T) {
	if os.Getenv("EDICT_FAULT") != "" {
		for range 5 {
			os.Stdout.WriteString("passing\n")
			Pass(AppendAfter)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestTheProcessDiesAtTheNthPass$")
	cmd.Env = append(os.Environ(), "EDICT_FAULT=append.after:3")
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "it lives on")
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
	require.Equal(t, 3, strings.Count(string(out), "passing"))
}
