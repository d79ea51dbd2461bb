package plane

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/streams"
)

func TestAShareOfTheLogIsADays(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)
	q := newQuota(1000, slog.New(slog.DiscardHandler))
	q.now = func() time.Time { return now }
	mine, others := uuid.MustParse(ours), uuid.MustParse(theirs)
	put := func(project string, bytes int, at time.Time) {
		m := streams.Message{Subject: "edict.log." + project + ".node.a", Time: at}
		m.Body = make([]byte, bytes-m.Size())
		q.count([]streams.Message{m})
	}
	put(ours, 5000, now.Add(-25*time.Hour)) // folded now, written long ago
	put(ours, 600, now.Add(-23*time.Hour))
	require.False(t, q.spent(mine))
	put(ours, 400, now)
	require.True(t, q.spent(mine))
	require.False(t, q.spent(others))
	require.Equal(t, 1, q.over())
	now = now.Add(time.Hour)
	require.False(t, q.spent(mine), "the oldest hours are over")
	put(ours, 600, now)
	require.True(t, q.spent(mine))
	now = now.Add(30 * time.Hour)
	require.False(t, q.spent(mine))
	require.Empty(t, q.of, "nothing is kept of who is quiet")

	any := newQuota(0, nil)
	any.count([]streams.Message{{Subject: "edict.log." + ours + ".node.a", Body: make([]byte, 1<<20), Time: time.Now()}})
	require.False(t, any.spent(mine))
}

// Whose project has had its share of the log is shut out over NATS, and stays so;
// others, and authors over HTTP, are not.
func TestAProducerBeyondItsShareIsShutOut(t *testing.T) {
	g := startGuarded(t, false, func(o *Options) { o.ProjectBytes = 2 * mib })
	operator, author := who{g, "operator"}, who{g, "author"}
	nc, err := operator.nats()
	require.NoError(t, err)
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	for range 5 {
		_, err := nc.Request("edict.log."+theirs+".node.junk", make([]byte, 500<<10), 10*time.Second)
		require.NoError(t, err)
	}
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		require.Fail(t, "the producer goes on")
	}
	_, err = operator.nats()
	require.ErrorIs(t, err, nats.ErrAuthorization)
	require.Contains(t, g.log.String(), "has had its share")
	other, err := author.nats()
	require.NoError(t, err)
	_, err = other.Request("edict.log."+ours+".node.a", []byte("x"), 10*time.Second)
	require.NoError(t, err)
	require.NoError(t, who{g, "stranger"}.http("PUT", "/v1/projects/"+theirs+"/nodes/a", `{"labels":{}}`))
}
