package archive

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// parts are those of a backup whose key has a text, and which has other keys.
func parts(key string, more ...string) map[string][]byte {
	all := map[string][]byte{BackupKeys: []byte("{}"), BackupKey: []byte(key)}
	for _, name := range more {
		all[BackupMore+"/"+name] = []byte(name)
	}
	return all
}

// TestABackupThatIsCutOffIsTheOneBeforeOrTheNewOne, whatever it has written: with
// other keys, and without some.
func TestABackupThatIsCutOffIsTheOneBeforeOrTheNewOne(t *testing.T) {
	dir, m := backedUp(t)
	key := func() string {
		b, err := OpenBackup(t.Context(), dir)
		require.NoError(t, err)
		text, err := os.ReadFile(b.Path(BackupKey))
		require.NoError(t, err)
		return string(text)
	}
	old, err := WriteBackup(dir, m, parts("old", "a.key", "b.key"))
	require.NoError(t, err)
	before, err := os.ReadFile(filepath.Join(dir, manifestName))
	require.NoError(t, err)

	require.NoError(t, stage(dir, parts("new", "b.key", "c.key")), "and it is cut off")
	require.Equal(t, "old", key())
	_, err = WriteBackup(dir, m, parts("new", "b.key", "c.key"))
	require.NoError(t, err)
	require.Equal(t, "new", key())
	require.NoFileExists(t, filepath.Join(dir, BackupMore, "a.key"), "a key that the plane has no more")

	// Behind its manifest: the parts have not got their places.
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifestName), before, 0o600))
	require.NoError(t, stage(dir, parts("old", "a.key", "b.key")))
	require.Equal(t, "old", key())
	settled, err := settle(dir)
	require.NoError(t, err)
	require.Equal(t, old, settled)
	require.Equal(t, "old", key())
	_, err = WriteBackup(dir, m, nil)
	require.NoError(t, err)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, left, 4, "log, manifest, notes, and a directory for keys, which is empty: %v", left)
	_, err = OpenBackup(t.Context(), dir)
	require.NoError(t, err)
}

// TestTheFirstBackupThatIsCutOffIsFinished by the next one, which does not take its own
// directory of keys for a plane's.
func TestTheFirstBackupThatIsCutOffIsFinished(t *testing.T) {
	for name, cutOff := range map[string]func(dir string){
		"by a crash": func(dir string) { require.NoError(t, stage(dir, parts("key", "a.key", "b.key"))) },
		"while it wrote": func(dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, BackupMore, ".edict-1"), nil, 0o600))
		},
		"by a full disk": func(string) {},
	} {
		t.Run(name, func(t *testing.T) {
			dir, m := backedUp(t)
			require.NoError(t, os.Remove(filepath.Join(dir, manifestName)))
			require.NoError(t, os.Mkdir(filepath.Join(dir, BackupMore), 0o700))
			cutOff(dir)
			torn := filepath.Join(dir, ".edict-2") // has some of a key, maybe
			require.NoError(t, os.WriteFile(torn, nil, 0o600))
			release, err := LockBackup(dir)
			require.NoError(t, err)
			defer release()
			_, err = WriteBackup(dir, m, parts("key", "b.key"))
			require.NoError(t, err)
			_, err = OpenBackup(t.Context(), dir)
			require.NoError(t, err)
			left, err := os.ReadDir(filepath.Join(dir, BackupMore))
			require.NoError(t, err)
			require.Len(t, left, 1)
			require.NoFileExists(t, torn)
		})
	}
}

// TestAFailedBackupLeavesTheOneBefore: the disk is full, or whatever.
func TestAFailedBackupLeavesTheOneBefore(t *testing.T) {
	dir, m := backedUp(t)
	_, err := WriteBackup(dir, m, parts("old"))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, BackupRecord+unfinished, "in the way"), 0o700))
	_, err = WriteBackup(dir, m, map[string][]byte{BackupKey: []byte("new"), BackupRecord: nil})
	require.Error(t, err)
	_, err = OpenBackup(t.Context(), dir)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dir, BackupKey+unfinished))
}

// TestASegmentThatChangedIsNotDeclaredSound by the next backup, which reads the last
// one alone.
func TestASegmentThatChangedIsNotDeclaredSound(t *testing.T) {
	dir, m := backedUp(t)
	path := filepath.Join(dir, BackupLog, segmentName(1))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text[len(text)/2] ^= 1
	require.NoError(t, os.WriteFile(path, text, 0o600))
	_, err = WriteBackup(dir, m, parts("key"))
	require.ErrorContains(t, err, "it is not what it was")
	require.NoError(t, os.Remove(path))
	_, err = WriteBackup(dir, m, parts("key"))
	require.ErrorContains(t, err, "or is missing")
}

// TestASegmentThatNoBackupHadIsProved before one declares it to be sound: a compaction wrote
// it there, long ago, and the log has its events no more.
func TestASegmentThatNoBackupHadIsProved(t *testing.T) {
	dir, m := backedUp(t)
	require.NoError(t, os.Remove(filepath.Join(dir, manifestName)))
	path := filepath.Join(dir, BackupLog, segmentName(1))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text[len(text)/2] ^= 1
	require.NoError(t, os.WriteFile(path, text, 0o600))
	_, err = WriteBackup(dir, m, parts("key"))
	var fault *FaultError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, segmentName(1), fault.File)
	require.NoFileExists(t, filepath.Join(dir, manifestName))
}

func TestABackupNamesNoSegmentBeyondItsEnd(t *testing.T) {
	dir, m := backedUp(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, BackupLog, segmentName(26)), []byte("of an export meanwhile"), 0o600))
	again, err := WriteBackup(dir, m, map[string][]byte{BackupKeys: []byte("{}")})
	require.NoError(t, err)
	require.Equal(t, m.Files, again.Files)
}

// TestABackupTakesNoPlanesPlace: the keys there may be the only ones.
func TestABackupTakesNoPlanesPlace(t *testing.T) {
	for _, name := range []string{BackupKey, BackupMore, "nats", "store"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("the only one"), 0o600))
		_, err := LockBackup(dir)
		require.ErrorIs(t, err, fs.ErrExist, name)
		require.FileExists(t, filepath.Join(dir, name))
	}
}

// TestTwoDoNotWriteAtOnce: neither backups nor exports.
func TestTwoDoNotWriteAtOnce(t *testing.T) {
	dir, _ := backedUp(t)
	log := world(t, 43, 1).Log
	for busy, begin := range map[error]func(dir string) error{
		ErrBackingUp: func(dir string) error {
			release, err := LockBackup(dir)
			if err == nil {
				release()
			}
			return err
		},
		ErrExporting: func(dir string) error {
			_, err := Export(t.Context(), log, ExportOptions{Dir: dir})
			return err
		},
	} {
		release, err := LockBackup(dir)
		require.NoError(t, err)
		require.ErrorIs(t, begin(dir), busy)
		release()
		require.NoError(t, begin(dir))

		// A lock that cannot be had for another reason is nobody's.
		unwritable := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(unwritable, ".lock"), 0o700))
		err = begin(unwritable)
		require.Error(t, err)
		require.NotErrorIs(t, err, busy)
	}
}

// TestWhatIsNoFileIsNotWaitedFor: a pipe in the place of one, and a file that never ends.
func TestWhatIsNoFileIsNotWaitedFor(t *testing.T) {
	dir, _ := backedUp(t)
	for name, put := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		for _, file := range []string{BackupKeys, manifestName, filepath.Join(BackupLog, segmentName(11))} {
			t.Run(name+" for "+filepath.Base(file), func(t *testing.T) {
				path, aside := filepath.Join(dir, file), filepath.Join(dir, "aside")
				require.NoError(t, os.Rename(path, aside))
				defer func() { require.NoError(t, os.Rename(aside, path)) }()
				require.NoError(t, put(path))
				_, err := OpenBackup(t.Context(), dir)
				require.ErrorContains(t, err, "not a regular file")
			})
		}
	}
}

// TestALogWithoutEventsMakesNoArchive, and says so without a range that is none.
func TestALogWithoutEventsMakesNoArchive(t *testing.T) {
	_, err := Export(t.Context(), world(t, 1, 0).Log, ExportOptions{Dir: t.TempDir()})
	require.EqualError(t, err, "the log has no event yet: there is nothing to export")
}
