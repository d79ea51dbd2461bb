package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/leftout"
)

var alertNames = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)

// Prometheus itself says whether each alert calls when it should, and none while all
// is well.
func TestAlertsCallWhenTheyShould(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		leftout.Test(t, "alerts are tried with promtool: %v", err)
	}
	require.NoError(t, gen.Files("deploy/prometheus"))
	out, err := exec.Command(promtool, "test", "rules", filepath.Join("prometheus", "alerts_test.yaml")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	tests := string(read(t, "prometheus/alerts_test.yaml"))
	for _, m := range alertNames.FindAllStringSubmatch(string(read(t, "prometheus/alerts.yaml")), -1) {
		require.Contains(t, tests, "- name: "+m[1]+" calls\n")
	}
}

// Whoever is called finds what to do at the alert's address: a section of docs/runbooks.md
// that says what the alert says itself, its condition included.
func TestEachAlertHasARunbook(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "runbooks.md"))
	require.NoError(t, err)
	alerts := string(read(t, "prometheus/alerts.yaml"))
	names := alertNames.FindAllStringSubmatchIndex(alerts, -1)
	for i, m := range names {
		end := len(alerts)
		if i+1 < len(names) {
			end = names[i+1][0]
		}
		name, rule := alerts[m[2]:m[3]], alerts[m[0]:end]
		_, section, found := strings.Cut(string(page), "\n## "+name+"\n")
		require.True(t, found, "docs/runbooks.md has no section about %s", name)
		section, _, _ = strings.Cut(section, "\n## ")
		require.Contains(t, rule, "runbook_url: https://github.com/edictdev/edict/blob/main/docs/runbooks.md#"+strings.ToLower(name)+"\n")
		for _, key := range []string{"expr", "runbook", "summary"} {
			found := regexp.MustCompile(`(?m)^ +` + key + `: (.*)$`).FindStringSubmatch(rule)
			require.Len(t, found, 2, "%s has no %s", name, key)
			var text string
			require.NoError(t, yaml.Load([]byte(found[1]), &text), "%s: %s", name, key)
			require.Contains(t, section, text, "%s: %s", name, key)
		}
	}
	require.Greater(t, len(names), 20)
}
