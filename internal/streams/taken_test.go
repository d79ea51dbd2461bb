package streams

import (
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// take has somebody else's event stand in the log under the message id of e.
func take(t *testing.T, c *Conn, e policy.Event, subject string, body []byte) (seq uint64) {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Data = body
	m.Header.Set(wire.HeaderMsgID, e.EventID().String())
	ack, err := c.store(within(t), m, requestTimeout)
	require.NoError(t, err)
	require.False(t, ack.Duplicate)
	return ack.Seq
}

func TestAnEventIsStoredThoughAnotherHasItsMessageID(t *testing.T) {
	other := node("other", 1)
	other.Project = uuid.MustParse("00000000-0000-4000-8000-00000000000f")
	for name, what := range map[string]struct {
		subject string
		body    func(e policy.NodeUpdated) []byte
	}{
		"of another project":        {wire.Subject(other), func(policy.NodeUpdated) []byte { return policy.Append(nil, other) }},
		"another event of the node": {wire.Subject(node("a", 0)), func(policy.NodeUpdated) []byte { return policy.Append(nil, node("a", 99)) }},
		"a removal of the same id": {wire.Subject(node("a", 0)), func(e policy.NodeUpdated) []byte {
			return policy.Append(nil, policy.NodeRemoved{ID: e.ID, Project: e.Project, Node: e.Node})
		}},
		"no event at all": {wire.Subject(node("a", 0)), func(policy.NodeUpdated) []byte { return []byte("junk") }},
	} {
		t.Run(name, func(t *testing.T) {
			c := embedded(t)
			l := openLog(t, c)
			e := node("a", 1)
			foreign := take(t, c, e, what.subject, what.body(e))
			seq, duplicate, err := l.Publish(within(t), Append{Event: e})
			require.NoError(t, err)
			require.False(t, duplicate)
			require.NotEqual(t, foreign, seq)
			m, err := l.Get(within(t), seq)
			require.NoError(t, err)
			require.Equal(t, wire.Subject(e), m.Subject)
			require.JSONEq(t, string(policy.Append(nil, e)), string(m.Body))
		})
	}
}

func TestAnEventSentAgainIsKnownByItsMessageID(t *testing.T) {
	l := openLog(t, embedded(t))
	e := node("a", 1)
	first, _, err := l.Publish(within(t), Append{Event: e})
	require.NoError(t, err)
	again, duplicate, err := l.Publish(within(t), Append{Event: e})
	require.NoError(t, err)
	require.True(t, duplicate)
	require.Equal(t, first, again)
}

func TestOneTakenMessageIDOfManyTakesNoPlace(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	var events []Append
	for i := range 10 {
		events = append(events, Append{Event: node("a", i)})
	}
	take(t, c, events[4].Event, wire.Subject(node("b", 1)), policy.Append(nil, node("b", 1)))
	seqs, err := l.PublishAll(within(t), events)
	require.NoError(t, err)
	require.IsIncreasing(t, seqs, "in the order in which they were given")
	for i, seq := range seqs {
		m, err := l.Get(within(t), seq)
		require.NoError(t, err)
		require.JSONEq(t, string(policy.Append(nil, events[i].Event)), string(m.Body))
	}
}

func TestAWriteToAnEmptySubjectIsStoredThoughAnotherHasItsMessageID(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	e := node("a", 1)
	foreign := take(t, c, e, wire.Subject(node("b", 1)), policy.Append(nil, node("b", 1)))
	seq, duplicate, err := l.Publish(within(t), Append{Event: e, Once: true})
	require.NoError(t, err)
	require.False(t, duplicate)
	require.Greater(t, seq, foreign)
	_, _, err = l.Publish(within(t), Append{Event: node("a", 2), Once: true})
	require.ErrorIs(t, err, ErrWrongSequence)
}

// What reads one message tells where it stands by headers that the server adds. An
// author may have put the same ones there.
func TestAnEventIsReadFromWhereItStandsWhateverItsHeadersSay(t *testing.T) {
	for name, value := range map[string]string{
		"Nats-Subject": wire.Subject(node("a", 1)), "Nats-Sequence": "1", "Nats-Time-Stamp": "0001-01-01T00:00:00Z", "Nats-Stream": "OTHER", "Status": "404",
	} {
		t.Run(name, func(t *testing.T) {
			c := embedded(t)
			l := openLog(t, c)
			e := node("a", 1)
			_, _, err := l.Publish(within(t), Append{Event: node("first", 1)})
			require.NoError(t, err)
			m := nats.NewMsg(wire.Subject(node("b", 1)))
			m.Data = policy.Append(nil, e)
			m.Header.Set(name, value)
			m.Header.Set(wire.HeaderMsgID, e.EventID().String())
			ack, err := c.store(within(t), m, requestTimeout)
			require.NoError(t, err)
			got, err := l.Get(within(t), ack.Seq)
			require.NoError(t, err)
			require.Equal(t, ack.Seq, got.Seq)
			require.Equal(t, wire.Subject(node("b", 1)), got.Subject)
			require.NotEqual(t, 1, got.Time.Year())
			seq, duplicate, err := l.Publish(within(t), Append{Event: e})
			require.NoError(t, err)
			require.False(t, duplicate, "it is not the event whose message id it took")
			require.Greater(t, seq, ack.Seq)
		})
	}
}
