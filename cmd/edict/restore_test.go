package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/archive"
	"github.com/edictdev/edict/internal/datadir"
)

// TestARestoreThatComesToAnotherDigestLeavesNothing to start on.
func TestARestoreThatComesToAnotherDigestLeavesNothing(t *testing.T) {
	backup, data, e := backupThatLies(t, 30)
	code, _, errs := edict(t, "restore", "--from", backup, "--data", data)
	require.Equal(t, cli.Differs, code, errs)
	require.Contains(t, errs, "the plane that was backed up had "+e.Chain)
	code, _, errs = edict(t, "serve", "--data", data, "--http", "127.0.0.1:0", "--nats-listen", "none")
	require.Equal(t, cli.Unreadable, code)
	require.Contains(t, errs, "was cut off")

	result, err := (replayCommands{&app{}}).foldArchive(t.Context(), mustOpen(t, filepath.Join(backup, archive.BackupLog)), "", 30)
	require.NoError(t, err)
	_, err = archive.WriteBackup(backup, archive.Manifest{Log: e, Digest: result.Digest}, nil)
	require.NoError(t, err)
	code, out, errs := edict(t, "restore", "--from", backup, "--data", data, "-o", "json")
	require.Zero(t, code, errs)
	require.Contains(t, out, result.Digest)
	require.Contains(t, errs, "no signing key")
}

// backupThatLies is a backup of n events whose digest is not theirs, and where to restore it to.
func backupThatLies(t *testing.T, n int) (backup, data string, e archive.Extent) {
	t.Helper()
	l := openLedger(t, t.TempDir())
	l.add(n)
	backup, data = t.TempDir(), filepath.Join(t.TempDir(), "data")
	e, err := archive.Export(t.Context(), l.log, archive.ExportOptions{Dir: filepath.Join(backup, archive.BackupLog)})
	require.NoError(t, err)
	l.close()
	_, err = archive.WriteBackup(backup, archive.Manifest{Log: e, Digest: e.Chain}, nil)
	require.NoError(t, err)
	return backup, data, e
}

// TestARestoreHasTheKeysThatItProved, and not those of a backup that is written meanwhile: the
// record of which key signs is that of the first.
func TestARestoreHasTheKeysThatItProved(t *testing.T) {
	backup, data, e := backupThatLies(t, 3)
	write := func(parts map[string][]byte) {
		_, err := archive.WriteBackup(backup, archive.Manifest{Log: e, Digest: e.Chain}, parts)
		require.NoError(t, err)
	}
	write(map[string][]byte{archive.BackupKey: []byte("first"), archive.BackupMore + "/a.key": []byte("before")})
	b, err := archive.OpenBackup(t.Context(), backup)
	require.NoError(t, err)
	write(map[string][]byte{archive.BackupKey: []byte("second")})
	to := datadir.Dir(data)
	require.NoError(t, restoreKeys(b, to))
	for path, want := range map[string]string{to.SigningKey(): "first", filepath.Join(to.Keys(), "a.key"): "before"} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
}

func mustOpen(t *testing.T, dir string) *archive.Archive {
	a, err := archive.Open(t.Context(), dir)
	require.NoError(t, err)
	return a
}

func TestFlagsThatWouldDoNothingAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"say --with-keys, too":     {"backup", "--to", "b", "--data", "d"},
		"exclude each other":       {"backup", "--to", "b", "--with-keys", "--data", "d", "--signing-key", "k"},
		"a data directory has one": {"restore", "--from", "b", "--data", "d", "--replicas", "3"},
	} {
		code, _, errs := edict(t, args...)
		require.Equal(t, cli.BadUsage, code, errs)
		require.Contains(t, errs, want)
	}
}

// TestARestoreThatIsRunAgainTakesNoKey that it did not bring.
func TestARestoreThatIsRunAgainTakesNoKey(t *testing.T) {
	backup, data, _ := backupThatLies(t, 3)
	code, _, errs := edict(t, "restore", "--from", backup, "--data", data)
	require.Equal(t, cli.Differs, code, errs)
	key := datadir.Dir(data).SigningKey()
	require.NoError(t, os.WriteFile(key, []byte("the only one"), 0o600))
	code, _, errs = edict(t, "restore", "--from", backup, "--data", data)
	require.Equal(t, cli.Unreadable, code, errs)
	require.FileExists(t, key)
}

// TestAnArchiveWithoutItsBeginningLeavesNothing where a plane is to be.
func TestAnArchiveWithoutItsBeginningLeavesNothing(t *testing.T) {
	l := openLedger(t, t.TempDir())
	l.add(5)
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	_, err := archive.Export(t.Context(), l.log, archive.ExportOptions{Dir: dir, From: 3})
	require.NoError(t, err)
	l.close()
	code, _, errs := edict(t, "log", "import", "--from", dir, "--data", data)
	require.NotZero(t, code)
	require.Contains(t, errs, "the archive begins at 3")
	require.NoDirExists(t, data)
}

// TestAnImportThatMeetsAFullServerSaysSo, and does not say that something differs: there is room
// for it later, or elsewhere.
func TestAnImportThatMeetsAFullServerSaysSo(t *testing.T) {
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 1 << 10,
	})
	require.NoError(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	require.True(t, ns.ReadyForConnections(time.Minute))
	l := openLedger(t, t.TempDir())
	l.add(30)
	l.close()
	code, _, errs := edict(t, "log", "import", "--from", archived(t, l.data, ""), "--nats", ns.ClientURL())
	require.Equal(t, cli.Unavailable, code, errs)
	require.Contains(t, errs, "make room there")
}
