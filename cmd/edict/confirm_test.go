package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
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
