package plane

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/output"
	"github.com/edictdev/edict/internal/worker"
)

// ear hears what is published for all nodes.
func (e *external) ear(t *testing.T) *nats.Subscription {
	nc, err := nats.Connect(e.opt.Listen)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	sub, err := nc.SubscribeSync("edict.node.>")
	require.NoError(t, err)
	require.NoError(t, nc.FlushTimeout(20*time.Second))
	return sub
}

// A plane that was stopped goes on publishing where it was.
func TestAPlaneThatStartsAgainPublishesNothingAgain(t *testing.T) {
	e := startExternal(t, t.TempDir())
	sub := e.ear(t)
	heard := map[string]int{}
	file, _ := newKeyFile(t)
	opt := Options{Data: t.TempDir(), NATS: "nats://" + e.opt.Listen, SigningKey: file, Relaxed: true, LeaseTTL: 2 * time.Second}
	var policies []string
	for i, slug := range []string{"one", "two", "three"} {
		at, stop := start(t, opt)
		c := newClient(t, at)
		if i == 0 {
			_, _, err := c.Nodes.Put(t.Context(), project, "n1", resource.Facts{Labels: map[string]string{"role": "web"}})
			require.NoError(t, err)
		}
		_, err := c.Policies.Create(t.Context(), project, resource.Draft{
			Slug: slug, Selector: resource.Selector{Source: "role=web", Destination: "role=web"}, Rules: allow(uint16(i + 1)),
		})
		require.NoError(t, err)
		status, err := c.Status(t.Context(), false)
		require.NoError(t, err)
		m, err := sub.NextMsg(20 * time.Second)
		require.NoError(t, err)
		id := m.Header["Edict-Event-Id"][0]
		heard[id]++
		policies = append(policies, m.Subject)
		require.Eventually(t, func() bool {
			status, err = c.Status(t.Context(), false)
			return err == nil && status.Partitions[0].UpTo == status.Applied
		}, 20*time.Second, 5*time.Millisecond)
		stop()
	}
	require.Len(t, heard, 3, "each start told what was new: %v", policies)
	for id, times := range heard {
		require.Equal(t, 1, times, id)
	}
	pending, _, err := sub.Pending()
	require.NoError(t, err)
	require.Zero(t, pending)

	// What comes into the log while no worker runs is told by the next.
	fact := fmt.Sprintf(`{"id":%q,"type":"node_updated","project_id":%q,"node_id":"n2","labels":{"role":"web"},"addresses":[]}`, uuid.New(), project)
	js := e.js(t)
	require.NoError(t, js.DeleteKeyValue(t.Context(), worker.Bucket), "nobody is left who knows how far it was told")
	_, err = js.Publish(t.Context(), "edict.log."+project.String()+".node.n2", []byte(fact))
	require.NoError(t, err)
	start(t, opt)
	for range 3 {
		m, err := sub.NextMsg(20 * time.Second)
		require.NoError(t, err)
		require.Contains(t, m.Subject, "edict.node.n2.")
	}
}

// Whoever cannot know whether the log is still the one that was folded answers
// no node.
func TestAWorkerThatIsNotSureOfItsLogAnswersNoNode(t *testing.T) {
	dir := data(t)
	e := startExternal(t, dir)
	p := running(t, e.worker(t, dir))
	p.serves(t)
	require.NoError(t, p.store.Wait(t.Context(), enroll(t, p, 1))) // it follows the log
	require.True(t, p.monitor.Confirmed())
	require.NoError(t, p.relay.Ready())
	e.server.Close()
	require.Eventually(t, func() bool { return !p.monitor.Confirmed() }, 20*time.Second, time.Millisecond)
	require.Error(t, p.relay.Ready())
	status, _ := p.get(t, "/v1/nodes/node-1/events")
	require.Equal(t, 503, status)
	e.start(t)
	require.Eventually(t, func() bool { return p.monitor.Confirmed() && p.relay.Ready() == nil }, 20*time.Second, time.Millisecond)
	p.serves(t)
	p.alarm.Raise(&streams.DamagedError{Damage: streams.DamageChanged, From: 1, To: 2})
	require.False(t, p.monitor.Confirmed())
}

// The stream of an older release is named once, and stays as it is.
func TestTheNodeStreamOfAnOlderReleaseIsNamedAndLeftAlone(t *testing.T) {
	e := startExternal(t, t.TempDir())
	js := e.js(t)
	old := jetstream.StreamConfig{Name: streams.OldNodesStream, Subjects: []string{"edict.node.*.>", "edict.fence.*"}, FirstSeq: 1_700_000_000}
	_, err := js.CreateStream(t.Context(), old)
	require.NoError(t, err)
	file, _ := newKeyFile(t)
	var log output.Buffer
	_, stop := start(t, Options{Data: t.TempDir(), NATS: "nats://" + e.opt.Listen, SigningKey: file, Relaxed: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.Equal(t, 1, strings.Count(log.String(), "stream="+streams.OldNodesStream))
	stop()
	s, err := js.Stream(t.Context(), streams.OldNodesStream)
	require.NoError(t, err)
	require.Equal(t, old.FirstSeq, s.CachedInfo().Config.FirstSeq)
}
