package test

import (
	"encoding/json"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// closedSet reads the event types of policy out of its source: the types that
// implement the Event interface by describe, each with the name on the wire that
// its EventType method returns.
func closedSet(t *testing.T, all []source) map[string]string {
	t.Helper()
	names := map[string]string{} // constant → its text
	wire := map[string]string{}  // type → constant
	set := map[string]string{}
	for _, s := range all {
		if s.dir() != "policy" || s.test() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if i < len(n.Values) {
						if lit, ok := n.Values[i].(*ast.BasicLit); ok {
							names[name.Name], _ = strconv.Unquote(lit.Value)
						}
					}
				}
			case *ast.FuncDecl:
				if n.Recv == nil {
					break
				}
				switch n.Name.Name {
				case "describe":
					set[receiver(n)] = ""
				case "EventType":
					if ret, ok := n.Body.List[len(n.Body.List)-1].(*ast.ReturnStmt); ok {
						wire[receiver(n)] = typeName(ret.Results[0])
					}
				}
			}
			return true
		})
	}
	for event := range set {
		set[event] = names[wire[event]]
		require.NotEmpty(t, set[event], "policy.%s: EventType must return a constant of the package", event)
	}
	require.GreaterOrEqual(t, len(set), 4)
	return set
}

// arms are the names of policy that stand in a case of a method of projector.
func arms(all []source, method string) map[string]bool {
	found := map[string]bool{}
	for _, s := range all {
		if s.room != "projector" || s.test() {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != method {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if c, ok := n.(*ast.CaseClause); ok {
					for _, e := range c.List {
						if sel, ok := e.(*ast.SelectorExpr); ok {
							found[sel.Sel.Name] = true
						}
					}
				}
				return true
			})
		}
	}
	return found
}

// TestEveryEventIsFoldedAndExplained fails when an event type is not in the table
// of kinds, lacks an arm in the fold or in the verdict before it, a schema, a section in docs/events.md, a place in that
// page's table of subjects, or an example there that the decoder accepts.
func TestEveryEventIsFoldedAndExplained(t *testing.T) {
	all := house(t)
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "events.md"))
	require.NoError(t, err)
	sections := regexp.MustCompile(`(?m)^### `).Split(string(page), -1)
	folded, judged := arms(all, "event"), arms(all, "verdict")
	set := closedSet(t, all)
	require.Len(t, policy.Kinds(), len(set), "the table of kinds in policy/event.go has each type once")
	for event, name := range set {
		t.Run(name, func(t *testing.T) {
			require.True(t, folded[event], "event in projector/fold.go has no case for policy.%s", event)
			require.True(t, judged[event], "verdict in projector/judge.go has no case for policy.%s", event)
			kind := policy.KindNamed(name)
			require.NotNil(t, kind, "policy.%s is not in the table of kinds in policy/event.go", event)
			require.Regexp(t, "(?m)^\\| `"+regexp.QuoteMeta(wire.LogForm(kind.Family))+"` \\| .*`"+name+"`", string(page))
			section := ""
			for _, s := range sections {
				if strings.HasPrefix(s, "`"+name+"`") {
					section = s
				}
			}
			require.NotEmpty(t, section, "docs/events.md has no heading \"### `%s`\"", name)
			examples := fenced(section, "json")
			require.NotEmpty(t, examples, "docs/events.md shows no example of %s", name)
			for _, example := range examples {
				e, err := policy.Decode([]byte(example))
				require.NoError(t, err, example)
				require.Equal(t, name, e.EventType())
				require.Same(t, kind, policy.KindOf(e))
				require.Contains(t, string(page), "`"+wire.PrefixSchema+"1` to `"+wire.PrefixSchema+strconv.Itoa(policy.NewestSchema)+"`")
				require.GreaterOrEqual(t, kind.Schema(e), 1)
				require.LessOrEqual(t, kind.Schema(e), policy.NewestSchema)
				requireFieldsExplained(t, section, example)
			}
		})
	}
}

// requireFieldsExplained asks that each member of the example's top level is
// named in the section's text.
func requireFieldsExplained(t *testing.T, section, example string) {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(example), &fields))
	for field := range fields {
		if field == "id" || field == "type" || field == "project_id" {
			continue // explained once for all events
		}
		require.Contains(t, section, "`"+field+"`")
	}
}

// fenced are the code blocks of a language in a Markdown text.
func fenced(text, language string) []string {
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// TestEveryFoldCodeIsExplained reads the codes out of policy and projector and
// looks for each in the table of docs/events.md, and among the series that a worker
// shows from its start.
func TestEveryFoldCodeIsExplained(t *testing.T) {
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "events.md"))
	require.NoError(t, err)
	codes := []string{policy.Undecodable, policy.UnknownType, policy.Invalid}
	for _, s := range house(t) {
		if s.room != "projector" || s.test() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 && strings.HasPrefix(v.Names[0].Name, "Code") {
				if lit, ok := v.Values[0].(*ast.BasicLit); ok {
					code, _ := strconv.Unquote(lit.Value)
					codes = append(codes, code)
				}
			}
			return true
		})
	}
	require.GreaterOrEqual(t, len(codes), 10)
	counted := prometheus.NewRegistry()
	api.NewMetrics(counted)
	series, err := testutil.GatherAndCount(counted, "edict_rejected_events_total")
	require.NoError(t, err)
	require.Equal(t, len(codes), series, "foldCodes in internal/api/metrics.go has each code once")
	for _, code := range codes {
		require.True(t, strings.Contains(string(page), "\n| `"+code+"` | "), "docs/events.md does not explain %s", code)
	}
}
