package cli

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABuildNamesItsReleaseAndItsCommit(t *testing.T) {
	made := buildOf(&debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-20T12:00:00Z"}, {Key: "vcs.modified", Value: "true"},
		},
	})
	require.Equal(t, "v1.2.3", made.Version)
	require.Equal(t, "v1.2.3 (commit abc, modified, 2026-11-20T12:00:00Z) "+made.Go+" "+made.Platform, made.String())
	for _, version := range []string{"", "(devel)"} {
		made = buildOf(&debug.BuildInfo{Main: debug.Module{Version: version}})
		require.Equal(t, "devel "+made.Go+" "+made.Platform, made.String())
	}
}
