package deploy

import (
	"maps"
	"os"
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
		require.NotContains(t, unit[section], key, "line %d: %s stands twice", i+1, key)
		unit[section][key] = append(unit[section][key], value)
	}
	return unit
}

func TestTheUnitRunsServe(t *testing.T) {
	unit := parseUnit(t, "edict.service")
	require.ElementsMatch(t, []string{"Unit", "Service", "Install"}, slices.Collect(maps.Keys(unit)))
	words := strings.Fields(unit["Service"]["ExecStart"][0])
	require.Equal(t, []string{"/usr/local/bin/edict", "serve", "--data", "%S/edict"}, words)
	require.Equal(t, []string{"exec"}, unit["Service"]["Type"], "serve does not speak the notify protocol")
	require.Equal(t, []string{"edict"}, unit["Service"]["StateDirectory"], "the folder that --data names")
	require.Equal(t, []string{"multi-user.target"}, unit["Install"]["WantedBy"])
}

func TestTheUnitGivesNothingAway(t *testing.T) {
	service := parseUnit(t, "edict.service")["Service"]
	for key, want := range map[string]string{
		"DynamicUser":           "yes",
		"NoNewPrivileges":       "yes",
		"ProtectSystem":         "strict",
		"ProtectHome":           "yes",
		"PrivateTmp":            "yes",
		"CapabilityBoundingSet": "",
		"UMask":                 "0077",
	} {
		require.Equal(t, []string{want}, service[key], key)
	}
}
