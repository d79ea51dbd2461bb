package fault_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/test/gen"
)

// TestAnOrdinaryBinaryHoldsNothingOfThis looks for our symbols and names in a
// program that calls everything here, built as the product is.
func TestAnOrdinaryBinaryHoldsNothingOfThis(t *testing.T) {
	held := func(tags string) string {
		bin := filepath.Join(t.TempDir(), "struck")
		require.NoError(t, gen.Sources("./internal/fault/testdata/struck"))
		out, err := exec.Command("go", "build", "-trimpath", "-tags", tags, "-o", bin, "./testdata/struck").CombinedOutput()
		require.NoError(t, err, "%s", out)
		symbols, err := exec.Command("go", "tool", "nm", bin).Output()
		require.NoError(t, err)
		var ours []string
		for line := range strings.Lines(string(symbols)) {
			if strings.Contains(line, "edict/internal/fault") {
				ours = append(ours, strings.TrimSpace(line))
			}
		}
		return strings.Join(ours, "\n")
	}
	require.Empty(t, held(""))
	require.Contains(t, held("faults"), "fault.Pass")
}

func TestEveryNameIsListedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range fault.Points() {
		require.False(t, seen[string(p)], p)
		seen[string(p)] = true
	}
	for _, m := range fault.Mutants() {
		require.False(t, seen[string(m)], m)
		seen[string(m)] = true
	}
}
