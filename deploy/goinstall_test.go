package deploy

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"maps"
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
	tree := archived(t)
	require.NoError(t, os.WriteFile(at+".mod", tree["go.mod"], 0o644))
	f, err := os.Create(at + ".zip")
	require.NoError(t, err)
	w := zip.NewWriter(f)
	var others []string // folders that are modules of their own
	for name := range tree {
		if dir, is := strings.CutSuffix(name, "/go.mod"); is {
			others = append(others, dir+"/")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if slices.ContainsFunc(others, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			continue
		}
		to, err := w.Create(modulePath + "@" + moduleVersion + "/" + name)
		require.NoError(t, err)
		_, err = to.Write(tree[name])
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
}

// archived are the files that are committed, whatever lies in the working tree.
func archived(t *testing.T) map[string][]byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "archive", "--format=tar", "HEAD")
	cmd.Dir = ".." // of another folder it would archive that alone
	out, err := cmd.Output()
	require.NoError(t, err)
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(out)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		files[h.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
}
