package deploy

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/leftout"
)

const (
	modulePath    = "github.com/edictdev/edict"
	moduleVersion = "v0.1.0"
)

// TestAReleaseIsInstalledByGo has the go command install the programs from a proxy, as go
// install does it for whoever has no checkout: what go.mod replaces would be refused, and what
// the module lacks be missing.
func TestAReleaseIsInstalledByGo(t *testing.T) {
	if *dist == "" {
		leftout.Here(t, "make release-check has the go command install what a proxy has of this tree")
	}
	proxy, programs := t.TempDir(), t.TempDir()
	publish(t, filepath.Join(proxy, modulePath, "@v", moduleVersion))
	downloads := strings.TrimSpace(output(t, "go", "env", "GOMODCACHE")) + "/cache/download"
	for _, name := range []string{"edict", "retectl", "edict-controller"} {
		install := exec.CommandContext(t.Context(), "go", "install", modulePath+"/cmd/"+name+"@"+moduleVersion)
		install.Dir = proxy // not the checkout
		install.Env = append(os.Environ(), "GOPROXY=file://"+proxy+",file://"+downloads, "GOSUMDB=off", "GOFLAGS=-trimpath -modcacherw",
			"GOMODCACHE="+filepath.Join(proxy, "cache"), "GOBIN="+programs)
		out, err := install.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, output(t, filepath.Join(programs, name), "--version"), moduleVersion)
	}
}

// publish writes the files of a proxy that have what is committed.
func publish(t *testing.T, at string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
	require.NoError(t, os.WriteFile(at+".info", []byte(`{"Version":"`+moduleVersion+`","Time":"2026-01-01T00:00:00Z"}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(at), "list"), []byte(moduleVersion+"\n"), 0o644))
	require.NoError(t, os.WriteFile(at+".mod", read(t, "../go.mod"), 0o644))
	f, err := os.Create(at + ".zip")
	require.NoError(t, err)
	w := zip.NewWriter(f)
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	files := strings.Fields(output(t, "git", "-C", root, "ls-files"))
	var others []string // folders that are modules of their own
	for _, name := range files {
		if dir, is := strings.CutSuffix(name, "/go.mod"); is {
			others = append(others, dir+"/")
		}
	}
	for _, name := range files {
		if slices.ContainsFunc(others, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			continue
		}
		to, err := w.Create(modulePath + "@" + moduleVersion + "/" + name)
		require.NoError(t, err)
		from, err := os.Open(filepath.Join(root, name))
		require.NoError(t, err)
		_, err = io.Copy(to, from)
		require.NoError(t, err)
		require.NoError(t, from.Close())
	}
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
}
