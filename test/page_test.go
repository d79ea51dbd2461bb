package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	require.True(d.t, strings.Contains(d.page, command), "the page shows no command %s", command)
}

func (d *drill) does(command string, code int) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), "sh", "-c", command)
	cmd.Dir, cmd.Env = d.dir, append(os.Environ(), "PATH="+filepath.Dir(d.bin)+":"+os.Getenv("PATH"), "EDICT_SERVER=http://"+d.http)
	out, _ := cmd.CombinedOutput() // its exit code says how it went
	require.Equal(d.t, code, cmd.ProcessState.ExitCode(), "%s: %s", command, out)
	return string(out)
}

// drilled are the pages whose every command is run by a drill.
var drilled = []string{"recovery.md"}

// TestEveryCommandOfADrillIsRun: a block of such a page has no command that no test runs.
func TestEveryCommandOfADrillIsRun(t *testing.T) {
	ran := map[string]bool{}
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			runs, ok := call.Fun.(*ast.SelectorExpr)
			said, literal := call.Args[0].(*ast.BasicLit)
			if ok && literal && runs.Sel.Name == "runs" && said.Kind == token.STRING {
				command, err := strconv.Unquote(said.Value)
				require.NoError(t, err)
				ran[command] = true
			}
			return true
		})
	}
	for _, page := range drilled {
		text, err := os.ReadFile(filepath.Join("..", "docs", page))
		require.NoError(t, err)
		commands := commandsOf(string(text))
		require.NotEmpty(t, commands)
		for _, command := range commands {
			require.True(t, ran[command], "docs/%s shows a command that no drill runs: %s", page, command)
		}
	}
}

// commandsOf are the commands in the blocks of a page, without what explains them.
func commandsOf(page string) (commands []string) {
	inside := false
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside
		case inside && strings.TrimSpace(line) != "":
			command, _, _ := strings.Cut(line, " #")
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands
}
