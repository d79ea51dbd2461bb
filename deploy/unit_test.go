package deploy

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// parseUnit reads a systemd unit: section → key → values in order.
func parseUnit(t *testing.T, path string) map[string]map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	unit, section := map[string]map[string][]string{}, ""
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]")
			require.NotContains(t, unit, section, "line %d: a section stands once", i+1)
			unit[section] = map[string][]string{}
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		require.True(t, ok && section != "", "line %d: %q is no assignment", i+1, line)
		if key != "EnvironmentFile" { // each adds to those before it
			require.NotContains(t, unit[section], key, "line %d: %s stands twice", i+1, key)
		}
		unit[section][key] = append(unit[section][key], value)
	}
	return unit
}

var unitFiles = []string{"edict.service", "edict-worker@.service", "edict-agent.service", "nats-server.service"}

func TestUnitsRunWhatTheyAreNamedAfter(t *testing.T) {
	for _, c := range []struct {
		path, kind, state string
		command           []string
	}{
		{"edict.service", "exec", "edict", []string{"/usr/local/bin/edict", "serve", "--data", "%S/edict"}},
		{"edict-worker@.service", "exec", "edict-%i", []string{"/usr/local/bin/edict", "serve", "--name", "%i", "--data", "%S/edict-%i", "--signing-key", "%d/plane.pem"}},
		{
			"edict-agent.service", "notify", "edict-agent",
			[]string{"/usr/local/bin/edict", "agent", "--node", "${EDICT_NODE}", "--dir", "%S/edict-agent", "--apply", "nftables", "--token-file", "%d/node.token"},
		},
		{"nats-server.service", "exec", "nats", []string{"/usr/local/bin/nats-server", "--config", "/etc/nats/nats.conf"}},
	} {
		unit := parseUnit(t, c.path)
		require.ElementsMatch(t, []string{"Unit", "Service", "Install"}, slices.Collect(maps.Keys(unit)), c.path)
		require.Equal(t, c.command, strings.Fields(unit["Service"]["ExecStart"][0]))
		require.Equal(t, []string{c.kind}, unit["Service"]["Type"], "only the agent speaks the notify protocol")
		require.Equal(t, []string{c.state}, unit["Service"]["StateDirectory"], "the folder that it writes to")
		require.Equal(t, []string{"multi-user.target"}, unit["Install"]["WantedBy"])
	}
}

func TestAWorkerIsGivenItsKeyAndItsServers(t *testing.T) {
	service := parseUnit(t, "edict-worker@.service")["Service"]
	require.Equal(t, []string{"plane.pem:/etc/edict/plane.pem"}, service["LoadCredential"])
	require.Equal(t, []string{"/etc/edict/worker.env", "-/etc/edict/worker-%i.env"}, service["EnvironmentFile"], "without the first there is no EDICT_NATS")
	require.Equal(t, []string{"2 3 6"}, service["RestartPreventExitStatus"], "7 is a server that is away: it comes back")
}

func TestOnlyTheFirstStartMakesAPlane(t *testing.T) {
	service := parseUnit(t, "edict.service")["Service"]
	require.Equal(t, []string{"EDICT_EXISTING=true"}, service["Environment"])
	require.Equal(t, []string{"-/run/edict-first.env", "-/etc/edict/edict.env"}, service["EnvironmentFile"], "they stand above Environment")
	require.Contains(t, string(read(t, "README.md")), "echo EDICT_EXISTING=false | sudo tee /run/edict-first.env")
}

// What was in force stands before any interface does: the unit is ready once it is.
func TestTheAgentComesBeforeTheNetwork(t *testing.T) {
	unit := parseUnit(t, "edict-agent.service")
	require.Equal(t, []string{"network-pre.target"}, unit["Unit"]["Before"])
	require.Equal(t, []string{"network-pre.target"}, unit["Unit"]["Wants"], "it is passive: somebody has to want it")
	require.Equal(t, []string{"node.token:/etc/edict/node.token"}, unit["Service"]["LoadCredential"])
	require.Equal(t, []string{"2 78"}, unit["Service"]["RestartPreventExitStatus"])
}

// TestAnAgentSeesWhetherAnotherMayEnforce: each copy of the unit has a user of its own, and an
// agent believes nobody who hides his capabilities, so it would enforce beside the other one.
func TestAnAgentSeesWhetherAnotherMayEnforce(t *testing.T) {
	service := parseUnit(t, "edict-agent.service")["Service"]
	require.NotContains(t, service, "ProtectProc")
	require.NotContains(t, service, "ProcSubset")
}

func TestUnitsGiveNothingAway(t *testing.T) {
	for _, path := range unitFiles {
		service := parseUnit(t, path)["Service"]
		for key, want := range map[string]string{
			"DynamicUser":           "yes",
			"NoNewPrivileges":       "yes",
			"ProtectSystem":         "strict",
			"ProtectHome":           "yes",
			"PrivateTmp":            "yes",
			"CapabilityBoundingSet": map[bool]string{true: "CAP_NET_ADMIN"}[path == "edict-agent.service"],
			"UMask":                 "0077",
		} {
			require.Equal(t, []string{want}, service[key], "%s: %s", path, key)
		}
	}
}

// TestSystemdUnderstandsTheUnits asks systemd itself, where there is one: a
// misspelt key is only a warning to it, and a line in a journal nobody reads.
// Elsewhere the tests above have to do.
func TestSystemdUnderstandsTheUnits(t *testing.T) {
	systemd, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not here: the keys of the units are not checked")
		return
	}
	root := t.TempDir()
	units := filepath.Join(root, "etc/systemd/system")
	put := func(path, text string, mode os.FileMode) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
	}
	for _, name := range append(unitFiles, "edict-worker@w1.service") {
		source := strings.Replace(name, "@w1", "@", 1)
		put(filepath.Join(units, name), string(read(t, source)), 0o644)
	}
	for _, needed := range []string{"sysinit", "basic", "shutdown", "multi-user", "network-online", "network-pre"} {
		put(filepath.Join(units, needed+".target"), "[Unit]\nDescription="+needed+"\n", 0o644)
	}
	for _, program := range []string{"edict", "nats-server"} {
		put(filepath.Join(root, "usr/local/bin", program), "#!/bin/true\n", 0o755)
	}
	out, err := exec.Command(systemd, "verify", "--man=no", "--recursive-errors=yes", "--root="+root,
		"edict.service", "edict-worker@w1.service", "edict-agent.service", "nats-server.service").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
}
