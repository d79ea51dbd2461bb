package deploy

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/charts"
	"github.com/edictdev/edict/internal/test/kubeschema"
	"github.com/edictdev/edict/internal/test/leftout"
)

// valuesOf are helm's arguments for a file of values of the chart, and more values.
func valuesOf(file string, set []string) (args []string) {
	if file != "" {
		args = append(args, "--values", filepath.Join("helm/edict/values", file+".yaml"))
	}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	return args
}

// rendered is what helm makes of the chart, once for each set of values.
func rendered(t *testing.T, values string, set ...string) []byte {
	t.Helper()
	key := values + " " + strings.Join(set, " ")
	if out, ok := renderings.Load(key); ok {
		return out.([]byte)
	}
	out, stderr, err := charts.Helm(t, append([]string{"template", "edict", "helm/edict", "--namespace", "edict"}, valuesOf(values, set)...)...)
	require.NoError(t, err, stderr)
	renderings.Store(key, []byte(out))
	return []byte(out)
}

var renderings sync.Map

func TestHelmFindsNoFaultInTheChart(t *testing.T) {
	for _, c := range choices {
		out, stderr, err := charts.Helm(t, append([]string{"lint", "--strict", "--quiet", "helm/edict"}, valuesOf(c, nil)...)...)
		require.NoError(t, err, "values %q: %s%s", c, out, stderr)
	}
	there, err := filepath.Glob("helm/edict/values/*.yaml")
	require.NoError(t, err)
	require.Len(t, there, len(choices)-1, "each file of values is tried")
}

// TestAClusterTakesEveryField: kubeconform holds each object against the schemas of
// Kubernetes and of the Prometheus operator.
func TestAClusterTakesEveryField(t *testing.T) {
	judge, schemas := charts.Tool(t, "kubeconform"), t.TempDir()
	if err := kubeschema.Write(schemas, map[string][]string{
		"v1": {"Service", "ConfigMap", "ServiceAccount"}, "apps/v1": {"StatefulSet", "DaemonSet", "Deployment"},
		"policy/v1": {"PodDisruptionBudget"}, "networking.k8s.io/v1": {"NetworkPolicy"},
		"rbac.authorization.k8s.io/v1": {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"},
	}); err != nil {
		leftout.Test(t, "no schemas: %v", err)
	}
	conform := func(manifests string) (s struct{ Valid, Invalid, Errors, Skipped int }, out []byte) {
		cmd := exec.Command(judge, "-strict", "-summary", "-output", "json", "-schema-location", filepath.Join(schemas, kubeschema.Location), "-")
		cmd.Stdin = strings.NewReader(manifests)
		out, err := cmd.Output()
		require.False(t, err != nil && len(out) == 0, "%v", err)
		var report struct {
			Summary *struct{ Valid, Invalid, Errors, Skipped int }
		}
		report.Summary = &s
		require.NoError(t, json.Unmarshal(out, &report), "%s", out)
		return s, out
	}
	// All at once: the judge reads the schemas anew each time that it starts.
	var all strings.Builder
	for _, c := range choices {
		fmt.Fprintf(&all, "---\n# values %q\n%s\n", c, rendered(t, c))
	}
	s, out := conform(all.String())
	require.Zero(t, s.Invalid+s.Errors+s.Skipped, "%s", out)
	require.Equal(t, strings.Count(all.String(), "\nkind: "), s.Valid)
	typo, out := conform(strings.Replace(string(rendered(t, "")), "terminationGracePeriodSeconds", "terminationGraceSeconds", 1))
	require.Equal(t, 1, typo.Invalid, "a field that no cluster knows is seen: %s", out)
}

// TestValuesThatCannotWorkAreRefused: with the reason, and nothing is rendered.
func TestValuesThatCannotWorkAreRefused(t *testing.T) {
	for set, why := range map[string]string{
		"nats.mode=embedded":                  "set workers.replicas to 1",
		"nats.mode=external":                  "nats.urls is needed",
		"nats.mode=elsewhere":                 "nats",
		"signingKeySecret=":                   "every worker of a plane signs with the same key",
		"metrics.serviceMonitor.enabled=true": "needs access.enabled",
		"agent.enabled=true":                  "agent.enabled needs access.enabled",
		"controller.enabled=true":             "controller.enabled needs access.enabled",
		"nats.replicas=4":                     "three servers",
		"nats.caSecret=ca":                    "speak no TLS",
		"nats.mode=embedded,workers.replicas=1,nats.credentialsSecret=c": "nats.credentialsSecret",
		"workers.replicaz=2":                           "replicaz",
		"workers.existing=perhaps":                     "existing",
		"access.enabled=true,access.service.port=http": "port",
	} {
		out, stderr, err := charts.Helm(t, "template", "edict", "helm/edict", "--set", set)
		require.Error(t, err, set)
		require.Contains(t, stderr, why, set)
		require.NotContains(t, out, "kind:", set)
	}
}

// TestAProcessThatStandsAloneIsAskedAlsoWhileItIsNotReady: with a full disk its reads go on. Of many
// workers those are asked that are ready.
func TestAProcessThatStandsAloneIsAskedAlsoWhileItIsNotReady(t *testing.T) {
	services := func(manifests []byte) (of, asked int) {
		for m := range strings.SplitSeq(string(manifests), "\n---") {
			if strings.Contains(m, "\nkind: Service\n") && strings.Contains(m, "app.kubernetes.io/name: edict\n") {
				of, asked = of+1, asked+strings.Count(m, "\n  publishNotReadyAddresses: true\n")
			}
		}
		return of, asked
	}
	of, asked := services(rendered(t, "one", "access.enabled=true"))
	require.Equal(t, 2, of)
	require.Equal(t, 2, asked)
	of, asked = services(rendered(t, "open"))
	require.Equal(t, 2, of)
	require.Zero(t, asked)
}

// TestAProjectMayTakeWhatItWants: 0 is no limit, which is a number where --set says it.
func TestAProjectMayTakeWhatItWants(t *testing.T) {
	require.Contains(t, string(rendered(t, "", "workers.projectBytes=0")), "- --project-bytes=0\n")
	require.Contains(t, string(rendered(t, "", "workers.projectBytes=8GiB")), "- --project-bytes=8GiB\n")
}

// TestAnUpgradeRefusesAnEmptyLog: a plane that was installed exists.
func TestAnUpgradeRefusesAnEmptyLog(t *testing.T) {
	existing := func(args ...string) string {
		out, stderr, err := charts.Helm(t, append([]string{"template", "edict", "helm/edict"}, args...)...)
		require.NoError(t, err, stderr)
		return regexp.MustCompile(`name: EDICT_EXISTING\s+value: (\S+)`).FindStringSubmatch(out)[1]
	}
	require.Equal(t, `"false"`, existing())
	require.Equal(t, `"true"`, existing("--is-upgrade"))
	require.Equal(t, `"true"`, existing("--set", "workers.existing=true"))
	require.Equal(t, `"false"`, existing("--is-upgrade", "--set", "workers.existing=false"))
}

// TestTheRuleFileIsTheChartsToo: one file of alerts, for a Prometheus with and without
// the operator.
func TestTheRuleFileIsTheChartsToo(t *testing.T) {
	alerts := regexp.MustCompile(`(?m)^ *(?:- )?alert: (\w+)$`)
	want := alerts.FindAllStringSubmatch(string(read(t, "prometheus/alerts.yaml")), -1)
	require.Greater(t, len(want), 10)
	require.Len(t, alerts.FindAllStringSubmatch(string(rendered(t, "open")), -1), len(want))
}
