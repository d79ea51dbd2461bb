package plane

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/test/output"
)

func putNodes(t *testing.T, c *client.Client, from, to int) {
	t.Helper()
	var body strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&body, `{"id":"n%d","labels":{"role":"web"},"addresses":[]}`+"\n", i)
	}
	res, err := c.Nodes.Import(t.Context(), project, strings.NewReader(body.String()))
	require.NoError(t, err)
	require.Equal(t, to-from, res.Applied)
}

// A worker without a read model takes the newest checkpoint that is sound, and
// does without where none is. Either way it is where the others are.
func TestANewWorkerStartsFromTheNewestCheckpointThatIsSound(t *testing.T) {
	dir := t.TempDir()
	at, _ := start(t, Options{Data: dir, NATSListen: "127.0.0.1:0", Relaxed: true})
	c := newClient(t, at)
	putNodes(t, c, 0, 20)
	_, err := c.Snapshots.Create(t.Context())
	require.NoError(t, err)
	putNodes(t, c, 20, 30)
	second, err := c.Snapshots.Create(t.Context())
	require.NoError(t, err)
	putNodes(t, c, 30, 40)
	live, err := c.Status(t.Context(), true)
	require.NoError(t, err)

	worker := func() string {
		var log output.Buffer
		at, stop := start(t, Options{
			Data: t.TempDir(), NATS: at.NATS, SigningKey: dir + "/signing.key", Announce: []int{},
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		got, err := newClient(t, at).Status(t.Context(), true)
		require.NoError(t, err)
		require.Equal(t, live.Digest, got.Digest)
		stop()
		return log.String()
	}
	require.Contains(t, worker(), `"the read model starts from a checkpoint" seq=30`)

	nc, err := nats.Connect(at.NATS)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	objects, err := js.ObjectStore(t.Context(), "EDICT_SNAPSHOTS")
	require.NoError(t, err)
	_, err = objects.PutBytes(t.Context(), second.Name, []byte("something else"))
	require.NoError(t, err)
	said := worker()
	require.Contains(t, said, `seq=30 error="checkpoint `+second.Name+` is refused`)
	require.Contains(t, said, `"the read model starts from a checkpoint" seq=20`)

	bucket, err := js.KeyValue(t.Context(), "EDICT_SNAPSHOTS")
	require.NoError(t, err)
	e, err := bucket.Get(t.Context(), "checkpoints")
	require.NoError(t, err)
	_, err = bucket.Put(t.Context(), "checkpoints", bytes.ReplaceAll(e.Value(), []byte(`"seq":20`), []byte(`"seq":19`)))
	require.NoError(t, err)
	said = worker()
	require.Contains(t, said, "seq=19 error=")
	require.NotContains(t, said, "starts from a checkpoint")
	_, err = bucket.PutString(t.Context(), "checkpoints", "nonsense")
	require.NoError(t, err)
	require.Contains(t, worker(), "checkpoints cannot be read; folding from the first event")
}

// Of two workers, the one that announces partition 0 makes checkpoints, as soon
// as there is something new.
func TestCheckpointsAreMadeAsTheyAreDue(t *testing.T) {
	dir := t.TempDir()
	every := snapshot.Schedule{Every: 20 * time.Millisecond, Keep: 1}
	at, _ := start(t, Options{Data: dir, Name: "one", NATSListen: "127.0.0.1:0", Relaxed: true, Announce: []int{1, 2}, Snapshots: every})
	start(t, Options{Data: t.TempDir(), Name: "two", NATS: at.NATS, SigningKey: dir + "/signing.key", Announce: []int{0}, Snapshots: every})
	c := newClient(t, at)
	var got []resource.Snapshot
	for n := range 2 {
		putNodes(t, c, n*10, n*10+10)
		require.Eventually(t, func() bool {
			var err error
			got, err = c.Snapshots.List(t.Context())
			require.NoError(t, err)
			return len(got) == 1 && got[0].Seq == uint64(n*10+10)
		}, 20*time.Second, 5*time.Millisecond)
		require.Equal(t, "two", got[0].Worker)
	}
	never := snapshot.NewCheckpointer(snapshot.CheckpointerOptions{})
	require.NoError(t, never.Run(t.Context()), "it is off unless asked for")
}
