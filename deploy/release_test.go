package deploy

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/edictdev/edict/internal/test/leftout"
)

// dist is where make release-check has what goreleaser made.
var dist = flag.String("release.dist", "", "folder of a release that is looked at")

// TestAReleaseIsMadeOfWhatIsThere holds that the files that a release takes from here are here.
func TestAReleaseIsMadeOfWhatIsThere(t *testing.T) {
	var release struct {
		Builds []struct{ ID, Main string }
		Nfpms  []struct {
			Contents []struct{ Src, Dst string }
			Scripts  map[string]string
		}
		Before struct{ Hooks []string }
	}
	require.NoError(t, yaml.Unmarshal(read(t, "../.goreleaser.yaml"), &release))
	require.Len(t, release.Builds, 3)
	paths := release.Before.Hooks
	for _, b := range release.Builds {
		paths = append(paths, b.Main)
	}
	for _, p := range release.Nfpms {
		for _, c := range p.Contents {
			if c.Src != "" && !strings.HasPrefix(c.Src, "bin/") { // made by prepare.sh
				paths = append(paths, c.Src)
			}
		}
		for _, script := range p.Scripts {
			paths = append(paths, script)
		}
	}
	for _, path := range paths {
		_, err := os.Stat(filepath.Join("..", path))
		require.NoError(t, err)
	}
	prepare := string(read(t, "release/prepare.sh"))
	for _, unit := range unitFiles {
		if strings.HasPrefix(unit, "edict") {
			require.Contains(t, prepare, unit, "a package has the unit")
		}
	}
}

// releaseFile is the one file of the release that a pattern names.
func releaseFile(t *testing.T, pattern string) string {
	t.Helper()
	if *dist == "" {
		leftout.Here(t, "make release-check makes a release first, and has it looked at")
	}
	found, err := filepath.Glob(filepath.Join(*dist, pattern))
	require.NoError(t, err)
	require.Len(t, found, 1, pattern)
	return found[0]
}

// output is what a program of others says of a release.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		leftout.Here(t, "%v", err)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = *dist
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestSumsOfAReleaseAreRight(t *testing.T) {
	sums := string(read(t, releaseFile(t, "SHA256SUMS")))
	for _, kind := range []string{".deb", ".rpm", ".tar.gz", ".cdx.json"} {
		require.Contains(t, sums, kind)
	}
	output(t, "sha256sum", "--check", "--strict", "SHA256SUMS")
}

// packaged is what each package brings.
var packaged = []string{
	"/usr/bin/edict", "/usr/bin/retectl", "/usr/lib/systemd/system/edict.service", "/usr/lib/systemd/system/edict-agent.service",
	"/usr/lib/systemd/system/edict-worker@.service", "/usr/share/man/man1/edict-policy-apply.1.gz", "/usr/share/bash-completion/completions/edict",
	"/usr/share/doc/edict/copyright",
}

func TestTheDebianPackageIsOne(t *testing.T) {
	deb := releaseFile(t, "edict_*_amd64.deb")
	info := output(t, "dpkg-deb", "--info", deb)
	require.Contains(t, info, "Package: edict\n")
	require.Contains(t, info, "Architecture: amd64\n")
	contents := output(t, "dpkg-deb", "--contents", deb)
	for _, path := range packaged {
		require.Contains(t, contents, " ."+path+"\n")
	}
	dir := t.TempDir()
	output(t, "dpkg-deb", "--extract", deb, dir)
	require.Contains(t, output(t, filepath.Join(dir, "usr/bin/edict"), "version", "-o", "json"), `"platform": "linux/amd64"`)
	unit := string(read(t, filepath.Join(dir, "usr/lib/systemd/system/edict.service")))
	require.Contains(t, unit, "ExecStart=/usr/bin/edict serve")
	require.NotContains(t, unit, "/usr/local")
}

func TestTheRPMIsOne(t *testing.T) {
	rpm := releaseFile(t, "edict-*.x86_64.rpm")
	info := output(t, "rpm", "-qip", rpm)
	require.Regexp(t, `Name +: edict\n`, info)
	require.Regexp(t, `License +: Apache-2.0\n`, info)
	files := output(t, "rpm", "-qlp", rpm)
	for _, path := range packaged {
		require.Contains(t, "\n"+files, "\n"+path+"\n")
	}
}

func TestAnArchiveHasProgramsThatRun(t *testing.T) {
	file, err := os.Open(releaseFile(t, "edict_*_linux_amd64.tar.gz"))
	require.NoError(t, err)
	defer file.Close()
	plain, err := gzip.NewReader(file)
	require.NoError(t, err)
	dir, names := t.TempDir(), map[string]bool{}
	for files := tar.NewReader(plain); ; {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if names[head.Name] = true; head.Name == "edict" || head.Name == "retectl" {
			text, err := io.ReadAll(files)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, head.Name), text, 0o700)) //nolint:gosec // a program
			require.NoError(t, exec.CommandContext(t.Context(), filepath.Join(dir, head.Name), "--version").Run())
		}
	}
	for _, name := range []string{"edict", "retectl", "LICENSE", "README.md", "CHANGELOG.md", "man/edict-doctor.1.gz", "completions/edict.zsh"} {
		require.True(t, names[name], "%s in %v", name, names)
	}
}

func TestWhatProgramsAreBuiltOfIsListed(t *testing.T) {
	for program, library := range map[string]string{
		"edict": "github.com/cockroachdb/pebble/v2", "retectl": "github.com/spf13/cobra", "edict-controller": "k8s.io/client-go",
	} {
		var list struct {
			BOMFormat  string `json:"bomFormat"`
			Components []struct{ Name, Version string }
		}
		require.NoError(t, json.Unmarshal(read(t, releaseFile(t, program+"_*_linux_amd64.cdx.json")), &list))
		require.Equal(t, "CycloneDX", list.BOMFormat)
		found := false
		for _, c := range list.Components {
			found = found || c.Name == library && c.Version != ""
		}
		require.True(t, found, "%s is built of %s", program, library)
	}
}
