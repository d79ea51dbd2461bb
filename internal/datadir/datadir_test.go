package datadir

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/streams"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestADirectoryThatCannotBeUsedSaysWhy(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Dir(filepath.Join(dir, "a", "b")).Check(), "it is made")
	require.Equal(t, dir, Dir(filepath.Join(dir, "a", "b")).Existing())
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, d := range map[string]Dir{"a file": Dir(file), "below a file": Dir(filepath.Join(file, "a"))} {
		var unusable *UnusableError
		require.ErrorAs(t, d.Check(), &unusable, name)
		require.Equal(t, "--data", unusable.What)
	}
	require.ErrorContains(t, Dir(file).Check(), "is not a directory")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing is left of the look")
}

func TestADirectoryThatIsServedIsInUse(t *testing.T) {
	d := Dir(t.TempDir())
	require.NoError(t, d.CheckLock())
	server, err := streams.StartServer(streams.ServerOptions{Dir: d.NATS(), Relaxed: true})
	require.NoError(t, err)
	defer server.Close()
	var used *InUseError
	require.ErrorAs(t, d.CheckLock(), &used)
	require.Contains(t, used.Error(), string(d))
}

func TestWhatAWorkerKeepsOfItself(t *testing.T) {
	d := Dir(t.TempDir())
	id, err := d.WorkerID()
	require.NoError(t, err)
	again, err := d.WorkerID()
	require.NoError(t, err)
	require.Equal(t, id, again)
	require.NoError(t, os.Truncate(d.join("worker.id"), 0)) // a crash
	again, err = d.WorkerID()
	require.NoError(t, err)
	require.NotEqual(t, id, again)
	require.NoError(t, uuid.Validate(again))

	none, err := d.Published("l", 7)
	require.NoError(t, err)
	require.Nil(t, none)
	marks := map[int]uint64{3: 9}
	require.NoError(t, d.KeepPublished(&relay.Published{Log: "l", Base: 7, Partitions: marks}))
	kept, err := d.Published("l", 7)
	require.NoError(t, err)
	require.Equal(t, marks, kept)
	for _, other := range []struct {
		log  string
		base uint64
	}{{"another", 7}, {"l", 8}} {
		kept, err = d.Published(other.log, other.base)
		require.NoError(t, err)
		require.Nil(t, kept, "that was another past")
	}
}

// A plane that is there must be found.
func TestAStartThatFindsNoLogWhereThereIsOneIsRefused(t *testing.T) {
	d := Dir(t.TempDir())
	_, err := Find(Options{Dir: d, Existing: true})
	var unusable *UnusableError
	require.ErrorAs(t, err, &unusable)
	require.Equal(t, "--existing", unusable.What)
	f, err := Find(Options{Dir: d})
	require.NoError(t, err)
	require.Nil(t, f.Store)
	require.Zero(t, f.LeastID())
	require.NoError(t, f.CheckBlocks())
}

// folded makes a read model of no log, in the directory.
func folded(t *testing.T, d Dir) {
	store, err := projector.Open(d.Store(), projector.Options{Partitions: 1, Created: time.Unix(1, 0)})
	require.NoError(t, err)
	require.NoError(t, store.Close())
}

func TestAReadModelOfAnotherLogIsRefused(t *testing.T) {
	d := Dir(t.TempDir())
	folded(t, d)
	var other *projector.OtherLogError
	_, err := Find(Options{Dir: d})
	require.ErrorAs(t, err, &other)
	require.ErrorContains(t, err, "there is no log here")
	f, err := Find(Options{Dir: d, External: true})
	require.NoError(t, err, "its servers are asked later")
	require.NotNil(t, f.Store)
}

// A damaged read model is moved aside, over the one before, and its place is
// free then.
func TestADamagedReadModelIsMovedAside(t *testing.T) {
	d := Dir(t.TempDir())
	var out strings.Builder
	require.NoError(t, os.Mkdir(d.Store()+".damaged", 0o700)) // of the time before
	folded(t, d)
	manifests, err := filepath.Glob(filepath.Join(d.Store(), "MANIFEST-*"))
	require.NoError(t, err)
	require.NotEmpty(t, manifests)
	require.NoError(t, os.Truncate(manifests[0], 10))
	_, err = Find(Options{Dir: d})
	require.ErrorContains(t, err, "it is damaged, and there is no log here")

	f, err := Find(Options{Dir: d, External: true})
	require.NoError(t, err)
	require.Nil(t, f.Store)
	s := NewStore(StoreOptions{Found: f, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	require.NoError(t, s.putAside())
	require.NoError(t, s.putAside(), "once")
	require.Equal(t, 1, strings.Count(out.String(), "\n"), out.String())
	require.FileExists(t, filepath.Join(d.Store()+".damaged", filepath.Base(manifests[0])))
	require.True(t, absent(d.Store()))
}

// A crash between the two renames of a rebuild leaves both read models beside an
// empty place.
func TestASwapThatACrashCutIsFinished(t *testing.T) {
	d := Dir(t.TempDir())
	folded(t, d)
	require.NoError(t, os.Rename(d.Store(), d.fresh()))
	f, err := Find(Options{Dir: d, External: true})
	require.NoError(t, err)
	require.NoError(t, NewStore(StoreOptions{Found: f}).rebuild(t.Context()))
	_, found, err := projector.Inspect(d.Store())
	require.NoError(t, err)
	require.True(t, found)
	_, err = os.Stat(d.fresh())
	require.True(t, errors.Is(err, fs.ErrNotExist))
}

// A rebuild that was cut off is gone on from by the release that began it alone.
func TestARebuildOfAnotherReleaseIsBegunAnew(t *testing.T) {
	d := Dir(t.TempDir())
	server, err := streams.StartServer(streams.ServerOptions{Dir: d.NATS(), Relaxed: true})
	require.NoError(t, err)
	defer server.Close()
	conn, err := streams.Connect(t.Context(), streams.ConnectOptions{Server: server})
	require.NoError(t, err)
	defer conn.Close()
	log, err := streams.OpenLog(t.Context(), conn, streams.LogOptions{Partitions: 1})
	require.NoError(t, err)
	opt := projector.Options{Partitions: 1, Created: log.Created()}
	for _, schema := range []uint32{projector.SchemaVersion - 1, projector.SchemaVersion + 1} {
		folded(t, d)
		require.NoError(t, os.Rename(d.Store(), d.fresh()))
		stamp(t, d.fresh(), schema)
		s := NewStore(StoreOptions{Found: &Found{opt: Options{Dir: d}}, Log: log, Store: opt})
		store, err := s.openFresh(t.Context(), d.fresh())
		require.NoError(t, err)
		require.Zero(t, store.Applied())
		require.NoError(t, store.Close())
		require.NoError(t, os.RemoveAll(d.fresh()))
	}
}

// stamp gives a read model of one partition another layout.
func stamp(t *testing.T, dir string, schema uint32) {
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatValueSeparation})
	require.NoError(t, err)
	require.NoError(t, db.Set([]byte("s"), binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, schema), 1), pebble.Sync))
	require.NoError(t, db.Close())
}

func TestReadModelsAsideHaveNamesOfTheirOwn(t *testing.T) {
	d := Dir(t.TempDir())
	for _, want := range []string{".old-3", ".old-3.2", ".old-3.3"} {
		name, err := d.aside(3)
		require.NoError(t, err)
		require.Equal(t, d.Store()+want, name)
		require.NoError(t, os.Mkdir(name, 0o700))
	}
}
