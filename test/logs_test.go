package test

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

// logCall is one line that the code may log.
type logCall struct {
	at, level, message string
	keys               []string
}

// logCalls finds every call of slog in the code.
func logCalls(t *testing.T) (all []logCall) {
	levels := map[string]int{"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "Log": 2, "With": -1} // where the message is
	for _, s := range house(t) {
		if s.test() || s.room == "test" || s.room == "docs" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			at, ours := levels[sel.Sel.Name]
			if !ours || !isLogger(sel.X) || len(call.Args) < max(at+1, 1) {
				return true
			}
			c := logCall{at: s.path, level: strings.ToLower(sel.Sel.Name)}
			if at >= 0 {
				c.message, ok = literal(call.Args[at])
				require.True(t, ok, "%s: a message is a constant; what varies has a key", s.path)
			}
			for i := at + 1; i < len(call.Args); i += 2 {
				key, ok := literal(call.Args[i])
				require.True(t, ok, "%s: the keys of %q are constants", s.path, c.message)
				c.keys = append(c.keys, key)
			}
			all = append(all, c)
			return true
		})
	}
	return all
}

// isLogger: loggers are called log, Log, trace or Trace, or come from a call of
// one of these names.
func isLogger(e ast.Expr) bool {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	case *ast.CallExpr:
		return isLogger(e.Fun)
	}
	return slices.Contains([]string{"log", "Log", "trace", "Trace", "to"}, name)
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(l.Value)
	return s, err == nil
}

// table reads the rows of a document's table whose first header is named: the
// cells of each by the first one, without backquotes.
func table(t *testing.T, file, header string) map[string][]string {
	t.Helper()
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	rows, within := map[string][]string{}, false
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "|") {
			within = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		switch {
		case cells[0] == header:
			within = true
		case within && !strings.HasPrefix(cells[0], "---"):
			require.NotContains(t, rows, cells[0], "%s: once is enough", file)
			rows[cells[0]] = cells[1:]
		}
	}
	require.NotEmpty(t, rows, "%s: no table of %s", file, header)
	return rows
}

const logsPage = "docs/logs.md"

// TestEveryLineThatIsLoggedIsDocumented: keys are stable because they are
// written down, and so are the messages that an operator sees.
func TestEveryLineThatIsLoggedIsDocumented(t *testing.T) {
	keys, messages := table(t, logsPage, "key"), table(t, logsPage, "message")
	calls := logCalls(t)
	require.Greater(t, len(calls), 30, "the walk found the calls")
	var used []string
	for _, c := range calls {
		used = append(append(used, c.message), c.keys...)
		for _, k := range c.keys {
			if keys[k] == nil {
				t.Errorf("%s: key %q of %q is not in %s: use one that is, or add a row", c.at, k, c.message, logsPage)
			}
		}
		if c.message == "" || c.level == "debug" || strings.HasPrefix(c.at, "node/") {
			continue // of no plane's log
		}
		row := messages[c.message]
		switch {
		case row == nil:
			t.Errorf("%s: message %q is not in %s", c.at, c.message, logsPage)
		case c.level != "log" && row[0] != c.level:
			t.Errorf("%s: %q is %s, in %s %s", c.at, c.message, c.level, logsPage, row[0])
		}
	}
	used = append(used, "time", "level", "msg")
	for _, rows := range []map[string][]string{keys, messages} {
		for is := range rows {
			if !slices.Contains(used, is) {
				t.Errorf("%s has %q, which nobody logs", logsPage, is)
			}
		}
	}
}
