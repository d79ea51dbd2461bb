package main

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a command said is in the file, whatever other commands wrote at the same time.
func TestEveryContextThatWasAddedIsInTheFile(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	const commands = 16
	var all sync.WaitGroup
	for i := range commands {
		all.Go(func() {
			if code, _, errs := edict(t, "context", "add", fmt.Sprintf("c%d", i), "--server", "http://127.0.0.1:1"); code != 0 {
				t.Error(errs)
			}
		})
	}
	all.Wait()
	f, err := readContexts()
	require.NoError(t, err)
	require.Len(t, f.Contexts, commands)
}
