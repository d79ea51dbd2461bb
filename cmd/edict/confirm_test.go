package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/internal/cli"
)

func TestOnlyAYesIsAYes(t *testing.T) {
	before := asksPeople
	t.Cleanup(func() { asksPeople = before })
	asksPeople = func(io.Reader) bool { return true }
	for answer, yes := range map[string]bool{"y\n": true, " YES \n": true, "n\n": false, "\n": false, "": false, "yellow\n": false} {
		var asked bytes.Buffer
		c := console{stdin: strings.NewReader(answer), stderr: &asked}
		err := c.confirm(new(cobra.Command), "remove 2 nodes: a, b")
		require.Equal(t, yes, err == nil, "%q", answer)
		require.Equal(t, "remove 2 nodes: a, b? [y/N] ", asked.String())
	}
}

// A command that reads what another writes ends when it is told to, also while the other is silent.
func TestWhoWaitsForAPipeMayLeave(t *testing.T) {
	t.Parallel()
	in, silent, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	defer silent.Close()
	ctx, leave := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, leave)
	var stderr bytes.Buffer
	require.Equal(t, cli.Unreadable, run(ctx, []string{"policy", "apply", "-f", "-", "--server", "http://127.0.0.1:1"}, in, io.Discard, &stderr))
	require.Contains(t, stderr.String(), "stdin: interrupted")
}

// Who is asked something, or is to type a file, gets away with Ctrl-C.
func TestWhoIsAskedMayLeave(t *testing.T) {
	before := asksPeople
	t.Cleanup(func() { asksPeople = before })
	asksPeople = func(io.Reader) bool { return true }
	in, keys, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	defer keys.Close()
	ctx, leave := context.WithCancel(t.Context())
	c := console{stdin: until(ctx, in), stderr: io.Discard}
	_, err = keys.WriteString("yes\n")
	require.NoError(t, err)
	require.NoError(t, c.confirm(new(cobra.Command), "remove all"), "until then what is typed is read")
	time.AfterFunc(time.Millisecond, leave)
	require.ErrorIs(t, c.confirm(new(cobra.Command), "remove all"), context.Canceled)
}
