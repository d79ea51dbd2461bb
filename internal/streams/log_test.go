package streams

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

func TestAnEventIsStoredUnderItsSubjectWithItsCloudEventHeaders(t *testing.T) {
	l := openLog(t, embedded(t))
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	e := policy.RevisionCreated{
		ID: uuid.New(), Project: project, Policy: uuid.New(), Slug: "web", DisplayName: "Web",
		Revision: policy.Revision{ID: uuid.New(), CreatedAt: at},
	}
	seq, dup, err := l.Publish(within(t), Append{Event: e, Traceparent: "00-trace"})
	require.NoError(t, err)
	assert.Equal(t, uint64(1), seq)
	assert.False(t, dup)

	m, err := l.Get(within(t), 1)
	require.NoError(t, err)
	assert.Equal(t, "edict.log."+project.String()+".policy."+e.Policy.String(), m.Subject)
	assert.Equal(t, policy.Append(nil, e), m.Body)
	assert.WithinDuration(t, time.Now(), m.Time, time.Minute)
	assert.Equal(t, map[string][]string{
		"Nats-Msg-Id":    {e.ID.String()},
		"ce-id":          {e.ID.String()},
		"ce-type":        {"policy_revision_created"},
		"ce-source":      {"edict/" + project.String()},
		"ce-specversion": {"1.0"},
		"ce-time":        {"2026-11-20T12:00:00Z"},
		"ce-dataschema":  {"urn:edict:schema:v1"},
		"traceparent":    {"00-trace"},
	}, m.Header)

	_, err = l.Get(within(t), 2)
	assert.ErrorIs(t, err, ErrNotFound)
}

func TestAnEventReadByFollowAndByGetIsTheSameMessage(t *testing.T) {
	l := openLog(t, embedded(t))
	_, _, err := l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	got, err := l.Get(within(t), 1)
	require.NoError(t, err)
	assert.Equal(t, []Message{got}, collect(t, l.Follow(within(t), 1), 1))
}

func TestARepeatedEventKeepsItsFirstSequence(t *testing.T) {
	l := openLog(t, embedded(t))
	for range 3 {
		seq, _, err := l.Publish(within(t), Append{Event: node("a", 1)})
		require.NoError(t, err)
		assert.Equal(t, uint64(1), seq)
	}
	_, dup, err := l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	assert.True(t, dup)
	s, err := l.State(within(t))
	require.NoError(t, err)
	assert.Equal(t, uint64(1), s.Last)

	seq, dup, err := l.Publish(within(t), Append{Event: node("a", 1), Bulk: true})
	require.NoError(t, err)
	assert.Equal(t, uint64(2), seq, "an import carries no id")
	assert.False(t, dup)
}

func TestAcknowledgedEventsAreThereAfterARestartOfEverything(t *testing.T) {
	dir := t.TempDir()
	var created time.Time
	for round := range 3 {
		s, err := StartServer(ServerOptions{Dir: dir})
		require.NoError(t, err)
		c, err := Connect(within(t), ConnectOptions{Server: s})
		require.NoError(t, err)
		assert.Equal(t, Strict, c.Durability())
		l := openLog(t, c)
		if round == 0 {
			created = l.Created()
		}
		assert.Equal(t, created, l.Created())
		seq, _, err := l.Publish(within(t), Append{Event: node("a", round)})
		require.NoError(t, err)
		assert.Equal(t, uint64(round+1), seq)
		assert.Len(t, collect(t, l.Follow(within(t), 0), round+1), round+1)
		c.Close()
		s.Close()
	}
}

func TestTheLogKeepsThePartitionsItWasMadeWith(t *testing.T) {
	c := embedded(t)
	_, err := OpenLog(within(t), c, LogOptions{Partitions: 16})
	require.NoError(t, err)
	l, err := OpenLog(within(t), c, LogOptions{Partitions: 8})
	require.NoError(t, err)
	assert.Equal(t, 16, l.Partitions())
	_, err = OpenLog(within(t), c, LogOptions{Partitions: -1})
	assert.Error(t, err)
}

func TestALogMadeAfterALossStartsAboveWhatWasAnnounced(t *testing.T) {
	l, err := OpenLog(within(t), embedded(t), LogOptions{Above: 500})
	require.NoError(t, err)
	assert.Equal(t, uint64(501), l.First())
	s, err := l.State(within(t))
	require.NoError(t, err)
	assert.Equal(t, State{First: 501, Last: 500}, s)
	seq, _, err := l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	assert.Equal(t, uint64(501), seq)
	assert.Equal(t, []uint64{501}, sequences(collect(t, l.Follow(within(t), 0), 1)))
}

func TestALogOfAnOlderEdictGetsTheLaterFamilies(t *testing.T) {
	c := embedded(t)
	info, err := c.js.CreateStream(within(t), jetstream.StreamConfig{
		Name: LogStream, Subjects: logSubjects, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, Duplicates: logDuplicates,
		DenyDelete: true, DenyPurge: true, AllowDirect: true, AllowAtomicPublish: true, FirstSeq: 501,
		Metadata: map[string]string{metaPartitions: "8"},
	})
	require.NoError(t, err)
	_, err = c.js.Publish(within(t), wire.Subject(node("a", 1)), policy.Append(nil, node("a", 1)))
	require.NoError(t, err)

	for range 2 { // and another process, at once or later
		l := openLog(t, c)
		assert.Equal(t, uint64(501), l.First())
		assert.Equal(t, info.CachedInfo().Created.UTC(), l.Created(), "it is the same log")
	}
	l := openLog(t, c)
	_, _, err = l.Publish(within(t), Append{Event: policy.AdmissionPolicyDeleted{ID: uuid.New(), Policy: "p"}})
	require.NoError(t, err)
	msgs := collect(t, l.Follow(within(t), 0), 2)
	assert.Equal(t, []uint64{501, 502}, sequences(msgs))
	assert.Equal(t, "edict.log.admission.p", msgs[1].Subject)
	assert.Equal(t, "urn:edict:schema:v2", msgs[1].Get(wire.HeaderDataSchema), "an older binary stops at it")
	after, err := c.streamInfo(within(t), LogStream)
	require.NoError(t, err)
	want := info.CachedInfo().Config
	want.Subjects = append(want.Subjects, laterSubjects...)
	assert.Equal(t, want.Subjects, after.Config.Subjects)
	after.Config.Subjects, after.Config.Metadata, want.Metadata = want.Subjects, nil, nil // the server adds its version
	assert.Equal(t, want, after.Config, "nothing else is changed")
}

func TestNothingRemovesAnEventUnnoticed(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	_, _, err := l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	s, err := c.js.Stream(within(t), LogStream)
	require.NoError(t, err)
	assert.Error(t, s.DeleteMsg(within(t), 1))
	require.NoError(t, s.Purge(within(t)), "an origin needs it")
	var damaged *DamagedError
	require.ErrorAs(t, l.VerifyExtent(within(t), nil), &damaged, "without one it is noticed")
}

func TestALogOfAnotherBirthIsNotFollowed(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	_, _, err := l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	require.NoError(t, c.js.DeleteStream(within(t), LogStream))
	openLog(t, c)
	var damaged *DamagedError
	for _, err := range l.Follow(within(t), 2) {
		require.ErrorAs(t, err, &damaged)
	}
	require.NotNil(t, damaged)
	assert.Contains(t, damaged.Detail, "another log")
}

func TestALogThatLacksWhatWasSeenIsNotFollowed(t *testing.T) {
	l := openLog(t, embedded(t))
	_, _, err := l.Publish(within(t), Append{Event: node("a", 1)})
	require.NoError(t, err)
	var damaged *DamagedError
	for _, err := range l.Follow(within(t), 3) {
		require.ErrorAs(t, err, &damaged)
	}
	require.NotNil(t, damaged)
	assert.Contains(t, damaged.Detail, "lost its tail")
}

func TestADeletedLogEndsItsFollower(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	require.NoError(t, c.js.DeleteStream(within(t), LogStream))
	var damaged *DamagedError
	for _, err := range l.Follow(within(t), 1) {
		require.ErrorAs(t, err, &damaged)
	}
	require.NotNil(t, damaged)
	assert.Contains(t, damaged.Detail, "EDICT_LOG is gone; restore it from a backup")
}

// Workers make a bucket again: whoever restored an old one in its place would do harm.
func TestNobodyIsToldToRestoreABucketThatWorkersMake(t *testing.T) {
	c := embedded(t)
	b, err := OpenBucket(within(t), c, BucketOptions{Name: "B"})
	require.NoError(t, err)
	require.NoError(t, c.js.DeleteStream(within(t), "KV_B"))
	var last error
	for _, err := range b.Watch(within(t), 0) {
		last = err
	}
	require.ErrorContains(t, last, "KV_B is gone")
	require.NotContains(t, last.Error(), "restore")
}

// A log whose first events are gone may have been compacted, and have lost the record of that.
func TestALogWithoutTheRecordOfItsOriginNamesIt(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	for i := range 3 {
		_, _, err := l.Publish(within(t), Append{Event: node("a", i+1)})
		require.NoError(t, err)
	}
	s, err := c.js.Stream(within(t), LogStream)
	require.NoError(t, err)
	require.NoError(t, s.Purge(within(t), jetstream.WithPurgeSequence(3)))
	_, err = OpenLog(within(t), c, LogOptions{})
	require.ErrorContains(t, err, "KV_EDICT_META")
}

func TestAHoleInTheLogStopsTheFollowerAfterWhatIsSound(t *testing.T) {
	c := embedded(t)
	// A stream that allows deletion stands in for one that was damaged.
	cfg := jetstream.StreamConfig{Name: LogStream, Subjects: logSubjects, Storage: jetstream.FileStorage, AllowDirect: true}
	s, err := c.js.CreateStream(within(t), cfg)
	require.NoError(t, err)
	l := &Log{beginning: beginning{c: c, created: s.CachedInfo().Created.UTC(), first: 1}, replicas: 1, batch: newBatcher(c)}
	l.heads.read = l.readHead
	for i := range 5 {
		_, _, err := l.Publish(within(t), Append{Event: node("a", i)})
		require.NoError(t, err)
	}
	require.NoError(t, s.DeleteMsg(within(t), 4))
	var got []Message
	var damaged *DamagedError
	for batch, err := range l.Follow(within(t), 2) {
		if err != nil {
			require.ErrorAs(t, err, &damaged)
		}
		got = append(got, batch...)
	}
	assert.Equal(t, []uint64{2, 3}, sequences(got))
	require.NotNil(t, damaged)
	assert.Contains(t, damaged.Detail, "lacks sequence 4")

	require.NoError(t, s.DeleteMsg(within(t), 1))
	for _, err := range l.Follow(within(t), 1) {
		require.ErrorAs(t, err, &damaged)
	}
	assert.Contains(t, damaged.Detail, "lacks sequence 1")
}

func TestARejectionIsWrittenOnce(t *testing.T) {
	c := embedded(t)
	r, err := OpenRejected(within(t), c)
	require.NoError(t, err)
	x := Rejection{Seq: 7, Subject: "edict.log.x", Code: "undecodable", Time: time.Unix(1, 0).UTC()}
	require.NoError(t, r.Write(within(t), x))
	x.Detail = "another worker's words"
	require.NoError(t, r.Write(within(t), x))
	info, err := c.streamInfo(within(t), RejectedStream)
	require.NoError(t, err)
	assert.Equal(t, uint64(1), info.State.Msgs)
	m, err := c.getSeq(within(t), RejectedStream, 1)
	require.NoError(t, err)
	assert.Equal(t, "edict.rejected.7", m.Subject)
	assert.JSONEq(t, `{"seq":7,"subject":"edict.log.x","event_id":"","type":"","code":"undecodable","detail":"","time":"1970-01-01T00:00:01Z"}`, string(m.Body))

	again, err := OpenRejected(within(t), c)
	require.NoError(t, err)
	require.NoError(t, again.Write(within(t), Rejection{Seq: 8}))
}

func TestErrorsOfTheServerAreSorted(t *testing.T) {
	for code, want := range map[int]error{
		10071: ErrWrongSequence, 10164: ErrWrongSequence, 10201: ErrDuplicate, 10199: ErrTooLarge,
		10210: ErrBusy, 10176: ErrBusy, 10077: ErrStorage, 10054: ErrMessageTooLarge,
	} {
		err := (&apiError{ErrCode: code}).sorted()
		assert.ErrorIs(t, err, want)
		assert.Equal(t, code == 10164, inFlight(err))
	}
	assert.False(t, errors.Is((&apiError{ErrCode: 10999}).sorted(), ErrBusy))
}

func TestTheEventsOfAnIDAreFoundOnTheirSubject(t *testing.T) {
	c := embedded(t)
	l := openLog(t, c)
	e := node("a", 1)
	publish := func(x policy.Event) uint64 {
		seq, _, err := l.Publish(within(t), Append{Event: x, Bulk: true})
		require.NoError(t, err)
		return seq
	}
	publish(node("b", 1)) // the id on another subject
	publish(node("a", 0))
	first := publish(e)
	publish(node("a", 2))
	second := publish(e)
	for from, want := range map[uint64]uint64{1: first, first: first, first + 1: second} {
		m, err := l.NextOf(within(t), e, from)
		require.NoError(t, err)
		require.Equal(t, want, m.Seq)
	}
	_, err := l.NextOf(within(t), e, second+1)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = l.NextOf(within(t), node("never", 1), 1)
	require.ErrorIs(t, err, ErrNotFound)
}

// A question about the log that a restart of the server leaves without an answer
// is asked again.
func TestWhatIsAskedWhileTheServerIsAwayIsAskedAgain(t *testing.T) {
	s := startServer(t, ServerOptions{Relaxed: true})
	l := openLog(t, connect(t, ConnectOptions{Server: s}))
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	var state State
	asked := 0
	require.NoError(t, UntilAnswered(within(t), func() (err error) {
		if asked++; asked == 2 {
			require.NoError(t, s.Restart())
		}
		state, err = l.State(t.Context())
		return err
	}))
	require.Greater(t, asked, 1)
	require.Equal(t, uint64(1), state.First)
	refused := errors.New("no")
	require.Equal(t, refused, UntilAnswered(t.Context(), func() error { return refused }))
}

// Who removes the stream of rejections gives up those that it has, and none that come.
func TestRejectionsThatWereRemovedAreMadeRoomForAgain(t *testing.T) {
	t.Parallel()
	c := embedded(t)
	r, err := OpenRejected(within(t), c)
	require.NoError(t, err)
	require.NoError(t, c.js.DeleteStream(within(t), RejectedStream))
	require.NoError(t, r.Write(within(t), Rejection{Seq: 7, Code: "invalid"}))
	info, err := c.streamInfo(within(t), RejectedStream)
	require.NoError(t, err)
	require.Empty(t, rejectedFaults(info.Config))
	require.EqualValues(t, 1, info.State.Msgs)
}
