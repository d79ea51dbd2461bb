package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// drill is where the commands of a page are run as they are written: a directory
// with ./data, and edict on the path.
type drill struct {
	*process
	dir, page string
	own       *strings.Replacer // what stands for a reader's own on the page; nil: nothing
}

// newDrill is one of a page below docs, with a plane that was not started yet.
func newDrill(t *testing.T, page string, args ...string) *drill {
	bin, err := edict()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join("..", "docs", page))
	require.NoError(t, err)
	d := &drill{process: newProcess(t, bin, args...), dir: t.TempDir(), page: string(text)}
	d.data = filepath.Join(d.dir, "data")
	return d
}

// runs runs a command that the page must show, and wants its exit code.
func (d *drill) runs(command string, code int) (out string) {
	d.t.Helper()
	d.shows(command)
	if d.own != nil {
		command = d.own.Replace(command)
	}
	return d.does(command, code)
}

// shows holds that the page has a command.
func (d *drill) shows(command string) {
	d.t.Helper()
	require.Contains(d.t, d.page, command, "the page shows another command")
}

func (d *drill) does(command string, code int) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), "sh", "-c", command)
	cmd.Dir, cmd.Env = d.dir, append(os.Environ(), "PATH="+filepath.Dir(d.bin)+":"+os.Getenv("PATH"), "EDICT_SERVER=http://"+d.http)
	out, _ := cmd.CombinedOutput() // its exit code says how it went
	require.Equal(d.t, code, cmd.ProcessState.ExitCode(), "%s: %s", command, out)
	return string(out)
}
