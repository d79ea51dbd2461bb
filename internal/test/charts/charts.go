// Package charts runs the tools that judge and render the chart, at the versions of
// tools/charts.mod. They are built the first time.
package charts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/leftout"
)

// built are the paths of tools that were asked for, by name.
var built sync.Map

// Tool is the path of a program that tools/charts.mod names. A machine that cannot build
// it leaves the test out.
func Tool(t *testing.T, name string) string {
	t.Helper()
	once, _ := built.LoadOrStore(name, sync.OnceValues(func() (string, error) { return build(name) }))
	path, err := once.(func() (string, error))()
	if err != nil {
		leftout.Test(t, "%s cannot be built: %v", name, err)
	}
	return path
}

func build(name string) (string, error) {
	root, err := gen.ModuleRoot()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(root, "tools/charts.mod")); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "tool", "-modfile=tools/charts.mod", "-n", name)
	cmd.Dir = root
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return "", errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// Helm runs helm in the folder deploy, with a home of its own.
func Helm(t *testing.T, args ...string) (out, errors string, err error) {
	t.Helper()
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	require.NoError(t, gen.Files("deploy/helm"))
	cmd, home := exec.Command(Tool(t, "helm"), args...), t.TempDir()
	cmd.Dir = filepath.Join(root, "deploy")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home, "KUBECONFIG="+filepath.Join(home, "none"))
	var o, e strings.Builder
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	return o.String(), e.String(), err
}
