package test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// TestAPlaneIsBackedUpAndRestoredAsThePageSays: nodes were sent what the backup does
// not have, under ids that the plane would give again. They end with what it says.
func TestAPlaneIsBackedUpAndRestoredAsThePageSays(t *testing.T) {
	t.Parallel()
	d := newDrill(t, "recovery.md")
	d.start()
	web := d.facts()
	web.revise(2)
	stands := d.shown("web-1")
	d.runs("edict backup --to ./backup --with-keys --data ./data", 0)
	atBackup := *web
	all := []*watcher{d.watcher("sse"), d.watcher("nats", "--nats", "nats://"+d.nats)}
	for _, w := range all {
		w.start()
	}
	web.revise(5)
	d.writer("lost")
	for _, w := range all {
		w.learns(d.process)
		w.stop()
	}
	d.terminate()

	d.runs("mv data data.lost", 0)
	require.Contains(t, d.runs("edict restore --from ./backup --data ./data", 0), "equal to that of the plane that was backed up")
	require.Contains(t, d.runs("edict log verify --log ./data", 0), "Restored: ")
	d.start()
	require.Equal(t, stands, d.shown("web-1"))
	restored := atBackup
	restored.n = 100
	restored.revise(12) // the log passes all that the lost one had
	for _, w := range all {
		w.start()
	}
	for _, w := range all {
		w.learns(d.process)
	}
}

// TestAMovedPlaneIsNoticedByNoNode: its nodes go on after the ids that they have.
func TestAMovedPlaneIsNoticedByNoNode(t *testing.T) {
	t.Parallel()
	d := newDrill(t, "archive.md")
	d.start()
	web := d.facts()
	web.revise(2)
	state, last := d.state("web-1")
	keys := d.publicKeys()
	d.terminate()
	d.runs("edict log export --to ./archive --log ./data", 0)
	d.runs("edict log import --from ./archive --data ./moved", 0)
	d.runs("cp -p data/signing.key moved/signing.key", 0)
	d.data = filepath.Join(d.dir, "moved")
	d.start()
	moved, at := d.state("web-1")
	require.Equal(t, state, moved)
	require.Equal(t, last, at, "the same row has the same id")
	web.revise(1)
	got := d.frames("web-1", last.String(), 1, keys)[0]
	require.Equal(t, "policy_updated", got.Type, "it is not asked to pull")
	require.Greater(t, got.ID, last)
}

// TestAClusterIsBackedUpAndRestoredAsThePageSays: into servers of another kind, too.
func TestAClusterIsBackedUpAndRestoredAsThePageSays(t *testing.T) {
	t.Parallel()
	from, to := newCluster(t, 1, 2*time.Second), newCluster(t, 3, 2*time.Second)
	d := from.onCluster("recovery.md")
	d.own = strings.NewReplacer("nats://a:4222", from.url, "nats://b:4222", to.url)
	d.start()
	d.facts().revise(2)
	stands := d.shown("web-1")
	d.runs("edict backup --to ./backup --nats nats://a:4222", 0)
	d.terminate()
	out := d.runs("edict restore --from ./backup --nats nats://b:4222 --replicas 3", 0)
	require.Contains(t, out, "equal to that of the plane that was backed up")
	require.Contains(t, out, "has no signing key")
	require.Contains(t, d.does("edict restore --from ./backup --nats "+to.url, 6), "there is a log already")

	to.key = from.key
	w := to.work()
	require.Equal(t, stands, w.shown("web-1"))
	web := w.writer("web-2")
	web.revise(1)
	d.does("edict log verify --nats "+to.url, 0)
}

// TestABackupAndARestoreThatAreKilledAreRunAgain kills them at each of their steps. No
// plane starts on what is left.
func TestABackupAndARestoreThatAreKilledAreRunAgain(t *testing.T) {
	t.Parallel()
	bin, err := struck()
	require.NoError(t, err)
	d := newDrill(t, "recovery.md")
	d.bin = bin
	d.start()
	d.facts().revise(2)
	nc, err := nats.Connect("nats://" + d.nats)
	require.NoError(t, err)
	_, err = nc.Request("edict.log."+defaultProject+".node.large", bytes.Repeat([]byte("\xff"), upTo(1, 7)<<20), 20*time.Second)
	nc.Close()
	require.NoError(t, err)
	killed := func(point, command string) {
		t.Helper()
		out := d.does(fmt.Sprintf("EDICT_FAULT=%s:1 %s; test $? -gt 128", point, command), 0)
		require.NotContains(t, out, "Digest")
	}
	const backup = "edict backup --to ./backup --with-keys --data ./data"
	killed("archive.before", backup)
	require.Contains(t, d.does("edict restore --from ./backup --data ./new", 3), "one that was cut off")
	killed("archive.after", backup)
	d.does(backup, 0)
	d.does("edict log verify --archive ./backup/log", 0)
	stands, rejected := d.shown("web-1"), d.rejections()
	require.Len(t, rejected, 1, "the large event, which is none")
	d.terminate()

	for _, point := range []string{"import.stored", "import.proved"} {
		killed(point, "edict restore --from ./backup --data ./new")
		require.Contains(t, d.does("edict serve --data ./new --http 127.0.0.1:0 --nats-listen none", 3), "was cut off: run it again")
	}
	d.does("edict restore --from ./backup --data ./new", 0)
	d.data = filepath.Join(d.dir, "new")
	d.start()
	require.Equal(t, stands, d.shown("web-1"))
	require.Equal(t, rejected, d.rejections())

	c := newCluster(t, 1, 2*time.Second)
	c.key = filepath.Join(d.dir, "backup", "signing.key")
	killed("import.proved", "edict restore --from ./backup --nats "+c.url)
	worker := fmt.Sprintf("edict serve --data ./w1 --http 127.0.0.1:0 --nats %s --signing-key %s", c.url, c.key)
	require.Contains(t, d.does(worker, 6), "was cut off: run the same")
	d.does("edict restore --from ./backup --nats "+c.url, 0)
	require.Equal(t, stands, c.work().shown("web-1"))
}
