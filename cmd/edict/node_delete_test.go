package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/internal/cli"
)

func TestAFileOfNodesThatAreToGo(t *testing.T) {
	t.Parallel()
	of := func(text string) ([]string, error) {
		return nodeCommands{&app{console: console{stdin: strings.NewReader(text)}}}.nodesOfFile("-")
	}
	ids, err := of("{\"id\":\"a\"}\r\n\n{\"id\":\"b\",\"labels\":{}}\n{\"id\":\"a\"}")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, ids, "each once: the second removal would find no node")

	endless := &counted{}
	_, err = nodeCommands{&app{console: console{stdin: endless}}}.nodesOfFile("-")
	require.ErrorContains(t, err, "stdin:1: the line is longer than 65536 bytes; nothing was removed")
	require.Equal(t, cli.Unreadable, exitCode(err))
	require.Less(t, endless.n, 1<<20, "what has no end is not read")
}

// counted is a line without an end, and how much of it was read.
type counted struct{ n int }

func (c *counted) Read(p []byte) (int, error) {
	if c.n += len(p); c.n > 8<<20 {
		panic("it reads on and on")
	}
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}
