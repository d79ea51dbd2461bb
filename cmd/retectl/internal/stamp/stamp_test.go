package stamp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/retectl/internal/stamp"
)

func at(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

// sources are files in a directory.
type sources struct {
	t   *testing.T
	dir string
}

func newSources(t *testing.T) *sources {
	t.Helper()
	s := &sources{t, t.TempDir()}
	t.Setenv("HOME", s.dir)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(s.dir))
	return s
}

// write writes a file that was modified then.
func (s *sources) write(name, text string, modified int64) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(s.t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(s.t, os.Chtimes(path, at(modified), at(modified)))
}

func (s *sources) git(args ...string) {
	s.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", s.dir, "-c", "user.name=a", "-c", "user.email=a@example"}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(s.t, err, "%s", out)
}

// commit commits the named files, then.
func (s *sources) commit(when int64, names ...string) {
	s.t.Helper()
	date := fmt.Sprintf("@%d +0000", when)
	s.t.Setenv("GIT_COMMITTER_DATE", date)
	s.t.Setenv("GIT_AUTHOR_DATE", date)
	s.git(append([]string{"add", "-f", "--"}, names...)...)
	s.git("commit", "-q", "-m", "x")
}

func (s *sources) newest(dir string, names ...string) time.Time {
	s.t.Helper()
	got, err := stamp.Newest(s.t.Context(), filepath.Join(s.dir, dir), names)
	require.NoError(s.t, err)
	return got
}

func TestOutsideAWorkTreeModificationTimesCount(t *testing.T) {
	s := newSources(t)
	s.write("a.yaml", "a", 1000)
	s.write("b.yaml", "b", 3000)
	s.write("c.yaml", "c", 9000)
	require.Equal(t, at(3000), s.newest(".", "a.yaml", "b.yaml"))
	_, err := stamp.Newest(t.Context(), s.dir, []string{"a.yaml", "gone.yaml"})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestWithoutGitModificationTimesCount(t *testing.T) {
	s := newSources(t)
	s.git("init", "-q")
	s.write("a.yaml", "a", 1000)
	s.commit(5000, "a.yaml")
	require.Equal(t, at(5000), s.newest(".", "a.yaml"))
	t.Setenv("PATH", "")
	require.Equal(t, at(1000), s.newest(".", "a.yaml"))
}

func TestInAWorkTreeCommitsCountForWhatIsAsCommitted(t *testing.T) {
	s := newSources(t)
	s.git("init", "-q")
	s.write("a.yaml", "a", 9000) // as every checkout has it: later than the commit
	require.Equal(t, at(9000), s.newest(".", "a.yaml"), "no commit yet")
	s.commit(1000, "a.yaml")
	s.write("sub dir/b[1].yaml", "b", 9000)
	s.write("b1.yaml", "never asked for", 9000)
	s.commit(2000, "sub dir/b[1].yaml")
	s.commit(4000, "b1.yaml")

	require.Equal(t, at(1000), s.newest(".", "a.yaml"))
	require.Equal(t, at(2000), s.newest(".", "a.yaml", "sub dir/b[1].yaml"), "not the commit of other files")
	require.Equal(t, at(2000), s.newest("sub dir", "b[1].yaml"), "below the root of the work tree")
	require.Equal(t, at(1000), s.newest(".", "./a.yaml"))

	s.write("c.yaml", "nobody committed it", 5000)
	require.Equal(t, at(5000), s.newest(".", "a.yaml", "c.yaml"))
	s.write("a.yaml", "changed", 6000)
	require.Equal(t, at(6000), s.newest(".", "a.yaml", "sub dir/b[1].yaml"))
	s.write("a.yaml", "changed", 1500)
	require.Equal(t, at(2000), s.newest(".", "a.yaml", "sub dir/b[1].yaml"), "modified before the last commit")
	require.Equal(t, at(1500), s.newest(".", "a.yaml"), "what is as committed is not asked for")
	s.git("add", "a.yaml")
	require.Equal(t, at(1500), s.newest(".", "a.yaml"), "staged is not committed")
}

func TestAPathThatGitWouldTakeForAPatternIsAPath(t *testing.T) {
	s := newSources(t)
	s.git("init", "-q")
	s.write(":(top)x.yaml", "a", 9000)
	s.write("*.yaml", "b", 9000)
	s.write("z.yaml", "c", 9000)
	s.git("--literal-pathspecs", "add", "--", ":(top)x.yaml", "*.yaml")
	t.Setenv("GIT_COMMITTER_DATE", "@1000 +0000")
	s.git("commit", "-q", "-m", "x")
	s.commit(4000, "z.yaml")
	require.Equal(t, at(1000), s.newest(".", ":(top)x.yaml"))
	require.Equal(t, at(1000), s.newest(".", "*.yaml"), "not that of z.yaml")
}

func TestMoreFilesThanACommandLineHolds(t *testing.T) {
	s := newSources(t)
	s.git("init", "-q")
	names := make([]string, 110)
	for i := range names {
		names[i] = fmt.Sprintf("%04d.yaml", i)
		s.write(names[i], "x", 9000)
	}
	s.commit(1000, ".")
	s.write("0105.yaml", "longer", 9000)
	s.commit(2000, "0105.yaml")
	require.Equal(t, at(2000), s.newest(".", names...))
	s.write("0010.yaml", "longer", 9000)
	s.commit(3000, "0010.yaml")
	require.Equal(t, at(2000), s.newest(".", names[100:]...))
	require.Equal(t, at(3000), s.newest(".", names...))
}

func TestTheEpochOfReproducibleBuilds(t *testing.T) {
	for text, want := range map[string]time.Time{"": {}, "0": at(0), "1776686400": at(1776686400)} {
		t.Setenv(stamp.EpochVariable, text)
		got, err := stamp.Epoch()
		require.NoError(t, err)
		require.Equal(t, want, got, "%q", text)
	}
	for _, text := range []string{"-1", "1.5", "yesterday", "99999999999999999999"} {
		t.Setenv(stamp.EpochVariable, text)
		_, err := stamp.Epoch()
		require.ErrorContains(t, err, "seconds since 1970", "%q", text)
	}
}
