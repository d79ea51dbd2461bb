package test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// files is every file and directory below dir, with its mode and content, but for
// the one that a plane at work there writes now and then.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), "published.json") { // or published.json.new
			return nil
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			all[path] = "directory"
			return err
		}
		b, err := os.ReadFile(path)
		sum := sha256.Sum256(b)
		all[path] = info.Mode().String() + string(sum[:])
		return err
	}))
	return all
}

// refused runs serve, which must refuse: nothing on stdout, one line on
// stderr, nothing changed below data.
func refused(t *testing.T, data string, code int, says []string, args ...string) {
	t.Helper()
	bin, err := edict()
	require.NoError(t, err)
	before := files(t, data)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, append([]string{"serve", "--data", data}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.Error(t, cmd.Run())
	assert.Equal(t, code, cmd.ProcessState.ExitCode(), "%s", &errs)
	assert.Empty(t, out.String())
	assert.Equal(t, 1, strings.Count(errs.String(), "\n"), "one line: %s", &errs)
	assert.True(t, strings.HasPrefix(errs.String(), "edict: "), "%s", &errs)
	for _, want := range says {
		assert.Contains(t, errs.String(), want)
	}
	assert.Equal(t, before, files(t, data), "nothing on disk is changed")
}

// stopped is the data directory of a plane that was stopped in order, with one
// node in it.
func stopped(t *testing.T) string {
	p := serve(t)
	p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/web-1", map[string]any{"labels": map[string]string{"role": "web"}, "addresses": []string{}}, 201)
	p.terminate()
	return p.data
}

// mute is a store that only tells what ends it.
type mute struct{ t *testing.T }

func (mute) Infof(string, ...any)                {}
func (mute) Errorf(string, ...any)               {}
func (m mute) Fatalf(format string, args ...any) { m.t.Fatalf(format, args...) }

// stampStore writes a schema version into a stopped plane's store.
func stampStore(t *testing.T, data string, version uint32) {
	t.Helper()
	dir := filepath.Join(data, "store")
	desc, err := pebble.Peek(dir, vfs.Default)
	require.NoError(t, err)
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: desc.FormatMajorVersion, Logger: mute{t}})
	require.NoError(t, err)
	defer db.Close()
	const partitions = 64
	schema := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, version), partitions)
	require.NoError(t, db.Set([]byte{'s'}, schema, pebble.Sync))
}

func TestAStartThatCannotGoWellIsRefusedInOneLine(t *testing.T) {
	origin, running := stopped(t), serve(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	taken := busy.Addr().String()
	elsewhere := t.TempDir()
	without, err := streams.StartServer(streams.ServerOptions{Dir: t.TempDir(), Listen: anyPort, Relaxed: true})
	require.NoError(t, err)
	defer without.Close()
	key := filepath.Join(origin, "signing.key")
	write := func(name string, mode os.FileMode, text string) string {
		path := filepath.Join(elsewhere, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	pem, err := os.ReadFile(key)
	require.NoError(t, err)
	openKey, noKey := write("open.pem", 0o644, string(pem)), write("none.pem", 0o600, "no key")
	_, err = artifact.CreateSigner(filepath.Join(elsewhere, "other.pem"))
	require.NoError(t, err)
	otherKey := filepath.Join(elsewhere, "other.pem")
	quiet := []string{"--http", anyPort, "--nats-listen", "none"}
	with := func(args ...string) []string { return append(append([]string{}, quiet...), args...) }
	worker := func(url string) []string {
		return []string{"--http", anyPort, "--nats", url, "--signing-key", key}
	}
	for name, c := range map[string]struct {
		change func(data string) // a copy of a stopped plane's data directory
		data   string            // in place of such a copy
		args   []string
		code   int
		says   []string
	}{
		"the store of another log": {change: func(data string) {
			other := stopped(t)
			require.NoError(t, os.RemoveAll(filepath.Join(data, "store")))
			require.NoError(t, os.CopyFS(filepath.Join(data, "store"), os.DirFS(filepath.Join(other, "store"))))
		}, code: 6, says: []string{"store was folded from another log", "move the directory away"}},
		"a store whose log is gone": {change: func(data string) {
			require.NoError(t, os.RemoveAll(filepath.Join(data, "nats")))
		}, code: 6, says: []string{"there is no log here", "move the directory away"}},
		"a server with another log": {args: worker("nats://" + running.nats), code: 6, says: []string{"store was folded from another log"}},
		"a newer store": {
			change: func(data string) { stampStore(t, data, 99) },
			code:   3, says: []string{fmt.Sprintf("has store schema 99, this binary knows %d", projector.SchemaVersion), "run the newer binary"},
		},
		"a store in a newer format": {change: func(data string) {
			marker, err := filepath.Glob(filepath.Join(data, "store", "marker.format-version.*"))
			require.NoError(t, err)
			require.NoError(t, os.Rename(marker[0], filepath.Join(data, "store", "marker.format-version.000900.900")))
		}, code: 3, says: []string{"has store format 900, this binary knows"}},
		"data that another process serves":   {data: running.data, code: 7, says: []string{"data directory " + running.data + " is in use", "--data"}},
		"a store that another process folds": {data: running.data, args: worker("nats://" + running.nats), code: 7, says: []string{"is in use by another process", "--data"}},
		"data that are a file":               {data: noKey, code: 3, says: []string{"--data: " + noKey + " is not a directory"}},
		"an HTTP address in use":             {args: []string{"--http", taken, "--nats-listen", "none"}, code: 7, says: []string{taken + " is in use by another process", "--http"}},
		"a NATS address in use":              {args: []string{"--http", anyPort, "--nats-listen", taken}, code: 7, says: []string{taken + " is in use by another process", "--nats-listen"}},
		"an address that others reach":       {args: []string{"--http", "0.0.0.0:0", "--nats-listen", "none"}, code: 2, says: []string{"0.0.0.0:0"}},
		"a NATS server that is away":         {args: worker("nats://127.0.0.1:1"), code: 7, says: []string{"nats://127.0.0.1:1"}},
		"a plane that is not where it should be": {
			change: func(data string) {
				require.NoError(t, os.RemoveAll(data))
				require.NoError(t, os.Mkdir(data, 0o700))
			},
			args: with("--existing"), code: 3, says: []string{"--existing: there is no plane in ", "is its volume mounted", "EDICT_EXISTING=false"},
		},
		"a log that is not on its servers": {
			change: func(data string) {
				require.NoError(t, os.RemoveAll(data))
				require.NoError(t, os.Mkdir(data, 0o700))
			},
			args: append(worker(without.ClientURL()), "--existing"), code: 3, says: []string{"--existing: there is no plane at nats://", "EDICT_EXISTING=false"},
		},
		"a signing key that is not there":    {args: with("--signing-key", filepath.Join(elsewhere, "nope.pem")), code: 3, says: []string{"--signing-key: ", "nope.pem"}},
		"a signing key that others may read": {args: with("--signing-key", openKey), code: 3, says: []string{openKey, "chmod 600"}},
		"a signing key that is none":         {args: with("--signing-key", noKey), code: 3, says: []string{noKey}},
		"its own key, which others may read": {change: func(data string) { require.NoError(t, os.Chmod(filepath.Join(data, "signing.key"), 0o640)) }, code: 3, says: []string{"signing.key has mode 0640", "chmod 600"}},
		"its own key, which is gone": {change: func(data string) {
			require.NoError(t, os.Remove(filepath.Join(data, "signing.key")))
		}, code: 6, says: []string{"signing.key", "put the file back", "docs/keys.md"}},
		"another key than the plane's":         {args: with("--signing-key", otherKey), code: 6, says: []string{"the plane signs with key ", otherKey}},
		"a ready file in no directory":         {args: with("--ready-file", filepath.Join(elsewhere, "none", "ready")), code: 3, says: []string{"--ready-file: ", "none"}},
		"a ready file that is a directory":     {args: with("--ready-file", elsewhere), code: 3, says: []string{elsewhere + " is a directory"}},
		"a disk without room for a first byte": {args: with("--min-free", "1073741824GiB"), code: 7, says: []string{"of disk are free below", "free some"}},
	} {
		t.Run(name, func(t *testing.T) {
			data := c.data
			if data == "" {
				data = filepath.Join(t.TempDir(), "data")
				require.NoError(t, os.CopyFS(data, os.DirFS(origin)))
				require.NoError(t, os.Chmod(filepath.Join(data, "signing.key"), 0o600))
			}
			if c.change != nil {
				c.change(data)
			}
			if c.args == nil {
				c.args = quiet
			}
			refused(t, data, c.code, c.says, c.args...)
		})
	}
}

// TestAReadyFileOfARunningPlaneSurvivesASecondStart: whoever starts the same
// command line twice loses nothing.
func TestAReadyFileOfARunningPlaneSurvivesASecondStart(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready.json")
	require.NoError(t, os.WriteFile(ready, []byte("{}"), 0o600))
	p := serve(t)
	refused(t, p.data, 7, []string{"in use"}, "--http", anyPort, "--nats-listen", "none", "--ready-file", ready)
	require.FileExists(t, ready)
}

func TestAnOlderReadModelIsRebuiltBesideTheOldOne(t *testing.T) {
	old := fmt.Sprint("store.old-", projector.SchemaVersion-1)
	for name, c := range map[string]struct {
		args []string
		kept []string
	}{
		"and the old one kept":     {kept: []string{old, old + ".2"}},
		"or deleted, with a flag.": {args: []string{"--yes-delete"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := serve(t, c.args...)
			for _, node := range []string{"web-1", "web-2"} {
				p.do("PUT", "/v1/projects/"+defaultProject+"/nodes/"+node, map[string]any{"labels": map[string]string{}, "addresses": []string{}}, 201)
				p.terminate()
				stampStore(t, p.data, projector.SchemaVersion-1)
				old := files(t, filepath.Join(p.data, "store"))
				p.start()
				_, code := p.run("replay", "--verify")
				require.Zero(t, code)
				p.do("GET", "/v1/projects/"+defaultProject+"/nodes/"+node, nil, 200)
				require.NoDirExists(t, filepath.Join(p.data, "store.new"))
				if len(c.kept) == 0 {
					continue
				}
				kept := filepath.Join(p.data, c.kept[0])
				if node == "web-2" {
					kept = filepath.Join(p.data, c.kept[1])
				}
				for path, sum := range old {
					name, err := filepath.Rel(filepath.Join(p.data, "store"), path)
					require.NoError(t, err)
					require.Equal(t, sum, files(t, kept)[filepath.Join(kept, name)], name)
				}
			}
			all, err := filepath.Glob(filepath.Join(p.data, "store*"))
			require.NoError(t, err)
			require.Len(t, all, 1+len(c.kept))
		})
	}
}

// TestASwapThatACrashCutInTwoIsFinished begins where a crash between the two
// renames left the directory.
func TestASwapThatACrashCutInTwoIsFinished(t *testing.T) {
	data := stopped(t)
	require.NoError(t, os.Rename(filepath.Join(data, "store"), filepath.Join(data, "store.new")))
	p := &process{t: t, data: data, http: anyPort, nats: anyPort}
	var err error
	p.bin, err = edict()
	require.NoError(t, err)
	p.start()
	defer p.kill()
	_, code := p.run("replay", "--verify")
	require.Zero(t, code)
	require.NoDirExists(t, filepath.Join(data, "store.new"))
}
