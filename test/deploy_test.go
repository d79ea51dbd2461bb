package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/edictdev/edict/internal/test/gen"
)

// deployed reads a file of deploy/.
func deployed(t *testing.T, path string) []byte {
	t.Helper()
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "deploy", path))
	require.NoError(t, err)
	return text
}

// alertFile is a rule file of Prometheus, as far as ours go.
type alertFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert       string
			Expr        string
			For         string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

// alertsAsk holds each alert against what a plane shows, and wants it to say
// what is the matter and what to do.
func alertsAsk(t *testing.T, s scraped) {
	var file alertFile
	require.NoError(t, yaml.Load(deployed(t, "prometheus/alerts.yaml"), &file, yaml.WithKnownFields()))
	seen := map[string]bool{}
	for _, group := range file.Groups {
		require.NotEmpty(t, group.Name)
		for _, rule := range group.Rules {
			require.Regexp(t, `^Edict[A-Z][A-Za-z]+$`, rule.Alert)
			require.False(t, seen[rule.Alert], "%s is there twice", rule.Alert)
			seen[rule.Alert] = true
			require.Empty(t, s.faults(rule.Expr), rule.Alert)
			if rule.For != "" {
				require.Regexp(t, `^\d+[smh]$`, rule.For, rule.Alert)
			}
			require.Contains(t, []string{"critical", "warning", "info"}, rule.Labels["severity"], rule.Alert)
			for key, words := range map[string]int{"summary": 4, "description": 8, "runbook": 12} {
				require.GreaterOrEqual(t, len(strings.Fields(rule.Annotations[key])), words, "%s: %s", rule.Alert, key)
			}
			for key, text := range rule.Annotations {
				_, err := template.New(key).Funcs(template.FuncMap{"humanize": fmt.Sprint, "humanizeDuration": fmt.Sprint}).
					Parse("{{$labels := .Labels}}{{$value := .Value}}" + text)
				require.NoError(t, err, rule.Alert)
			}
		}
	}
	require.Greater(t, len(seen), 10)
}

// TestEveryConditionToWatchHasAnAlert: what docs/metrics.md says to watch for, as
// a condition, somebody is called for.
func TestEveryConditionToWatchHasAnAlert(t *testing.T) {
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	require.NoError(t, err)
	_, watch, found := strings.Cut(string(page), "\n## What to watch\n")
	require.True(t, found)
	alerts, conditions := string(deployed(t, "prometheus/alerts.yaml")), 0
	for _, m := range regexp.MustCompile("`([^`]*(?:>|!=)[^`]*)`").FindAllStringSubmatch(watch, -1) {
		metric := regexp.MustCompile(`edict_\w+`).FindString(m[1])
		require.NotEmpty(t, metric, m[1])
		require.Regexp(t, `(?m)^ +expr: .*\b`+metric+`\b`, alerts, "no alert asks for what is to be watched: %s", m[1])
		conditions++
	}
	require.GreaterOrEqual(t, conditions, 6)
}

// board is a dashboard of Grafana, as far as ours goes.
type board struct {
	UID, Title    string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Datasource               struct{ UID string }
		GridPos                  struct{ H, W, X, Y int }
		FieldConfig              struct{ Defaults struct{ Unit string } }
		Targets                  []struct {
			RefID, Expr, LegendFormat string
			Datasource                struct{ UID string }
		}
	}
}

// units are Grafana's ids of those that the board uses.
var units = []string{"short", "ops", "reqps", "s", "bytes"}

// boardAsks holds each panel against what a plane shows.
func boardAsks(t *testing.T, s scraped) {
	var b board
	require.NoError(t, json.Unmarshal(deployed(t, "grafana/edict.json"), &b))
	require.NotEmpty(t, b.UID)
	require.Positive(t, b.SchemaVersion)
	variables := map[string]bool{"__rate_interval": true}
	for _, v := range b.Templating.List {
		variables[v.Name] = true
		if asks, ok := v.Query.(map[string]any); ok {
			metric := regexp.MustCompile(`^label_values\((\w+), job\)$`).FindStringSubmatch(asks["query"].(string))
			require.Len(t, metric, 2, v.Name)
			require.Empty(t, s.faults(metric[1]))
		}
	}
	ids, taken := map[int]bool{}, map[[2]int]int{}
	for _, p := range b.Panels {
		require.False(t, ids[p.ID] || p.ID == 0, "panel %d is there twice", p.ID)
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Zero(t, taken[[2]int{x, y}], "panel %d lies on another", p.ID)
				taken[[2]int{x, y}] = p.ID
			}
		}
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, "panel %d is beside the board", p.ID)
		if p.Type == "row" {
			continue
		}
		require.Contains(t, []string{"stat", "timeseries"}, p.Type)
		require.NotEmpty(t, p.Title)
		require.NotEmpty(t, p.Description, p.Title)
		require.Contains(t, units, p.FieldConfig.Defaults.Unit, p.Title)
		require.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		refs := map[string]bool{}
		for _, q := range p.Targets {
			require.False(t, refs[q.RefID] || q.RefID == "", p.Title)
			refs[q.RefID] = true
			require.Equal(t, "${datasource}", q.Datasource.UID, p.Title)
			require.Contains(t, q.Expr, `{job=~"$job"}`, "%s: of all planes that are scraped, the chosen", p.Title)
			require.Empty(t, s.faults(q.Expr), p.Title)
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(q.Expr, -1) {
				require.True(t, variables[v[1]], "%s: the board has no variable %s", p.Title, v[1])
			}
			require.Empty(t, s.unlabelled(q.Expr, q.LegendFormat), p.Title)
		}
	}
}

// unlabelled are the labels of a legend that no series of the query has.
func (s scraped) unlabelled(expr, legend string) (faults []string) {
	q, err := parseQuery(expr)
	if err != nil {
		return nil
	}
	have := append(slices.Clone(q.groups), targetLabels...)
	if len(q.groups) == 0 {
		for _, pick := range q.picks {
			_, labels, _ := s.find(pick.metric)
			have = append(have, labels...)
		}
	}
	for _, name := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(legend, -1) {
		if !slices.Contains(have, name[1]) {
			faults = append(faults, fmt.Sprintf("the legend names %s, which no series has", name[1]))
		}
	}
	return faults
}

// TestWhatIsDeployedIsUnderstood holds every flag and variable of manifests,
// units and their page against the binary's own help.
func TestWhatIsDeployedIsUnderstood(t *testing.T) {
	bin, err := edict()
	require.NoError(t, err)
	help := func(command ...string) string {
		out, err := exec.Command(bin, append(command, "--help")...).CombinedOutput()
		require.NoError(t, err, "edict %v", command)
		require.Contains(t, string(out), "\n  edict "+strings.Join(command, " ")+" ", "there is no edict %v", command)
		return string(out)
	}
	serve := help("serve")
	has := func(flag string) bool {
		return regexp.MustCompile(`(?m)^ +(?:-\w, )?--` + flag + `\b`).MatchString(serve)
	}
	require.True(t, has("data") && !has("dat"))
	client := help("agent")
	for _, path := range []string{
		"helm/edict/templates/workers.yaml", "helm/edict/templates/agent.yaml", "edict.service", "edict-worker@.service", "edict-agent.service",
		"README.md", "Dockerfile", "prometheus/alerts.yaml",
	} {
		text := deployed(t, path)
		for _, m := range regexp.MustCompile(`EDICT_([A-Z_]+)`).FindAllSubmatch(text, -1) {
			flag := strings.ToLower(strings.ReplaceAll(string(m[1]), "_", "-"))
			require.True(t, has(flag) || strings.Contains(client, string(m[0])), "%s: serve has no flag --%s for %s, and no client knows it", path, flag, m[0])
		}
		for _, m := range regexp.MustCompile(`edict"?,? serve\b[^\n]*`).FindAll(text, -1) {
			for _, f := range regexp.MustCompile(`--([a-z-]+)`).FindAllSubmatch(m, -1) {
				require.True(t, has(string(f[1])), "%s: serve has no flag --%s", path, f[1])
			}
		}
		for _, m := range regexp.MustCompile("(?m)(?:^ *(?:sudo )?|`|/)edict ([a-z]+)").FindAllSubmatch(text, -1) {
			help(string(m[1]))
		}
	}
	for path, command := range map[string]string{"workers": serve, "agent": client} {
		args := regexp.MustCompile(`(?m)^ +- --([a-z-]+)=`).FindAllSubmatch(deployed(t, "helm/edict/templates/"+path+".yaml"), -1)
		require.Greater(t, len(args), 4)
		for _, f := range args {
			require.Regexp(t, `(?m)^ +--`+string(f[1])+`\b`, command, "%s.yaml", path)
		}
	}
	for _, m := range regexp.MustCompile(`command: \[/edict, (\w+), (\w+)\]`).FindAllSubmatch(deployed(t, "helm/edict/templates/workers.yaml"), -1) {
		require.Contains(t, help(string(m[1])), string(m[2]))
	}
}

// TestTheBinaryNeedsNoC: the image is empty, so nothing may be linked at run
// time. What the compiler would refuse without cgo is left to the build of the image.
func TestTheBinaryNeedsNoC(t *testing.T) {
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if or .CgoFiles .Incomplete}}{{.ImportPath}}{{end}}", "./cmd/edict")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.Empty(t, strings.TrimSpace(string(out)))
}
