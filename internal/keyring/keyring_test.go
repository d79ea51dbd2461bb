package keyring

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// plane is what the workers of a plane share.
type plane struct {
	conn *streams.Conn
	log  *streams.Log
}

func newPlane(t *testing.T) *plane {
	server, err := streams.StartServer(streams.ServerOptions{Dir: t.TempDir(), Relaxed: true})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	p := new(plane)
	p.conn, err = streams.Connect(t.Context(), streams.ConnectOptions{Server: server})
	require.NoError(t, err)
	t.Cleanup(p.conn.Close)
	p.log, err = streams.OpenLog(t.Context(), p.conn, streams.LogOptions{})
	require.NoError(t, err)
	return p
}

// refusing is the plane's log, which takes nothing while refuse is set.
type refusing struct {
	*streams.Log
	refuse bool
}

func (r *refusing) Publish(ctx context.Context, a streams.Append) (uint64, bool, error) {
	if r.refuse {
		return 0, false, errors.New("the log takes nothing")
	}
	return r.Log.Publish(ctx, a)
}

// worker is one with these files, which has read the record.
func (p *plane) worker(t *testing.T, files Files, log Log) *Manager {
	m, err := Load(Options{
		Files: files, Log: log, LeastTransition: time.Second,
		Open: BucketOn(p.conn),
	})
	require.NoError(t, err)
	require.NoError(t, m.Open(t.Context()))
	return m
}

// made are the files of a worker that makes its keys.
func made(dir string) Files {
	return Files{Signing: filepath.Join(dir, "signing.key"), Made: filepath.Join(dir, "keys")}
}

func given(t *testing.T) (file string, s *artifact.Signer) {
	file = filepath.Join(t.TempDir(), "plane.pem")
	s, err := artifact.CreateSigner(file)
	require.NoError(t, err)
	return file, s
}

// TestKeysAreFoundWhateverTheDirectoryIsCalled: a path is no pattern.
func TestKeysAreFoundWhateverTheDirectoryIsCalled(t *testing.T) {
	f := made(filepath.Join(t.TempDir(), "plane [a]"))
	none, err := f.Kept()
	require.NoError(t, err)
	require.Empty(t, none)
	key := filepath.Join(f.Made, "1.key")
	require.NoError(t, os.MkdirAll(f.Made, 0o700))
	require.NoError(t, os.WriteFile(key, nil, 0o600))
	kept, err := f.Kept()
	require.NoError(t, err)
	require.Equal(t, []string{key}, kept)
}

func alone() ([]Worker, error) { return nil, nil }

// Nobody meets a key whose coming the log does not show.
func TestAKeyDoesNotSignBeforeTheLogShowsIt(t *testing.T) {
	p := newPlane(t)
	log := &refusing{Log: p.log, refuse: true}
	files := made(t.TempDir())
	m := p.worker(t, files, log)
	before := m.Ring().Current()
	_, err := m.Rotate(t.Context(), Rotation{Transition: time.Hour, Principal: "ana", Others: alone})
	require.ErrorContains(t, err, "signs once its rotation is in the log")
	require.Equal(t, before, m.Ring().Current())
	require.Equal(t, before.KeyID(), m.Trusted()[0].KeyID)
	recorded, err := readRecord(t.Context(), m.bucket)
	require.NoError(t, err)
	require.NotEqual(t, before.KeyID(), recorded.KeyID)

	log.refuse = false
	require.NoError(t, m.apply(t.Context(), recorded))
	require.Equal(t, recorded.KeyID, m.Ring().Current().KeyID())
	there, err := p.log.Holds(t.Context(), recorded.event())
	require.NoError(t, err)
	require.True(t, there)
	signs, holds := m.Held()
	require.Equal(t, recorded.KeyID, signs)
	require.ElementsMatch(t, []string{before.KeyID(), recorded.KeyID}, holds)
	current, err := artifact.LoadSigner(files.Signing)
	require.NoError(t, err)
	require.Equal(t, recorded.KeyID, current.KeyID())
}

// A transition that is over stays over: its key is gone, and a clock that is not set yet when
// the plane starts would ask for it.
func TestATransitionThatIsOverStaysOver(t *testing.T) {
	p := newPlane(t)
	files := made(t.TempDir())
	m := p.worker(t, files, p.log)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	_, err := m.Rotate(t.Context(), Rotation{Transition: time.Second, Principal: "ana", Others: alone})
	require.NoError(t, err)
	recorded, err := readRecord(t.Context(), m.bucket)
	require.NoError(t, err)
	require.NotNil(t, recorded.Previous)
	require.Eventually(t, func() bool {
		kept, err := files.Kept()
		return err == nil && len(kept) == 0
	}, 20*time.Second, time.Millisecond)
	stop()
	require.NoError(t, <-ended)

	r, err := readRecord(t.Context(), m.bucket)
	require.NoError(t, err)
	held, err := files.held()
	require.NoError(t, err)
	for _, now := range []time.Time{time.Unix(0, 0), recorded.RotatedAt, time.Now()} {
		lacks, _ := r.lacking(held, now)
		require.Empty(t, lacks, now)
	}
	require.True(t, r.used(recorded.Previous.KeyID), "it never comes back")
	require.Equal(t, recorded.RotatedBy, r.RotatedBy)
	require.NoError(t, Check(t.Context(), files, FoundOn(p.conn)))
	again := p.worker(t, files, p.log)
	require.Equal(t, recorded.KeyID, again.Ring().Current().KeyID())
	_, err = again.Rotate(t.Context(), Rotation{Transition: time.Second, Others: alone})
	require.NoError(t, err)
}

// The record of a rotation says what its event says, so it stands until the log holds that.
func TestATransitionEndsOnceTheLogShowsIt(t *testing.T) {
	p := newPlane(t)
	log := &refusing{Log: p.log, refuse: true}
	files := made(t.TempDir())
	_, err := p.worker(t, files, log).Rotate(t.Context(), Rotation{Transition: time.Second, Principal: "ana", Others: alone})
	require.ErrorContains(t, err, "signs once its rotation is in the log")
	again := p.worker(t, files, log)
	recorded := again.now()
	require.Eventually(t, func() bool { return recorded.transition(time.Now()).IsZero() }, 20*time.Second, time.Millisecond)
	again = p.worker(t, files, log)
	require.NotNil(t, again.now().Previous)
	require.True(t, again.untidy.Load(), "it is looked after again")

	log.refuse = false
	require.NoError(t, again.apply(t.Context(), again.now()))
	require.Nil(t, again.now().Previous)
	require.False(t, again.untidy.Load())
	there, err := p.log.Holds(t.Context(), recorded.event())
	require.NoError(t, err)
	require.True(t, there)
	kept, err := files.Kept()
	require.NoError(t, err)
	require.Empty(t, kept)
}

// late is a bucket that stores what is written when nobody expects it any more: the servers
// that were asked got another leader.
type late struct {
	Bucket
	land func() error
}

func (b *late) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	b.land = func() error {
		_, err := b.Bucket.Update(ctx, key, value, revision, ttl)
		return err
	}
	return 0, streams.ErrUnknown
}

// A key whose rotation may have been recorded is kept, whatever the record says meanwhile: it
// would be the plane's, and nobody would have it.
func TestAKeyThatMayBeRecordedIsKept(t *testing.T) {
	p := newPlane(t)
	files := made(t.TempDir())
	m := p.worker(t, files, p.log)
	stands := m.now()
	bucket := &late{Bucket: m.bucket}
	m.bucket = bucket
	_, err := m.Rotate(t.Context(), Rotation{Transition: time.Hour, Others: alone})
	require.ErrorIs(t, err, streams.ErrUnknown)
	require.NoError(t, m.apply(t.Context(), stands))

	require.NoError(t, bucket.land())
	recorded, err := readRecord(t.Context(), bucket)
	require.NoError(t, err)
	require.NotEqual(t, stands.KeyID, recorded.KeyID)
	require.NoError(t, m.apply(t.Context(), recorded))
	require.Equal(t, recorded.KeyID, m.Ring().Current().KeyID())
}

// A worker that runs and lacks the key that the record names ends: what it signed
// would be refused.
func TestAWorkerWithoutTheNewKeyEnds(t *testing.T) {
	p := newPlane(t)
	first, old := given(t)
	second, next := given(t)
	lacking := p.worker(t, Files{Signing: first}, p.log)
	ended := make(chan error, 1)
	go func() { ended <- lacking.Run(t.Context()) }()
	_, err := p.worker(t, Files{Signing: first, Next: second}, p.log).Rotate(t.Context(), Rotation{Transition: time.Hour, Others: alone})
	require.NoError(t, err)
	var other *OtherKeyError
	require.ErrorAs(t, <-ended, &other)
	require.Equal(t, next.KeyID(), other.Want)
	require.Equal(t, []string{old.KeyID()}, other.Have)
}

func TestARotationIsRefusedBeforeAnythingChanges(t *testing.T) {
	p := newPlane(t)
	first, _ := given(t)
	second, next := given(t)
	m := p.worker(t, Files{Signing: first, Next: second}, p.log)
	stands, err := readRecord(t.Context(), m.bucket)
	require.NoError(t, err)
	unknown := errors.New("the other workers are not known yet")
	for name, c := range map[string]struct {
		transition time.Duration
		others     []Worker
		unknown    error
		why        error
		detail     string
	}{
		"a transition that is too short": {time.Millisecond, nil, nil, ErrTransition, "want 1s to"},
		"one that is too long":           {MostTransition + 1, nil, nil, ErrTransition, "want 1s to"},
		"a worker without the new key":   {time.Hour, []Worker{{Name: "w2"}}, nil, ErrNextKey, "worker w2 does not hold the new key " + next.KeyID()},
		"workers that are not known":     {time.Hour, nil, unknown, unknown, "not known yet"},
	} {
		_, err := m.Rotate(t.Context(), Rotation{Transition: c.transition, Others: func() ([]Worker, error) { return c.others, c.unknown }})
		require.ErrorIs(t, err, c.why, name)
		require.ErrorContains(t, err, c.detail, name)
	}
	now, err := readRecord(t.Context(), m.bucket)
	require.NoError(t, err)
	require.Equal(t, stands, now)
	_, err = p.worker(t, Files{Signing: first}, p.log).Rotate(t.Context(), Rotation{Transition: time.Hour, Others: alone})
	require.ErrorIs(t, err, ErrNextKey)
	require.ErrorContains(t, err, "openssl genpkey")
	_, err = m.Rotate(t.Context(), Rotation{Transition: time.Hour, Others: alone})
	require.NoError(t, err)
	_, err = m.Rotate(t.Context(), Rotation{Transition: time.Hour, Others: alone})
	require.ErrorIs(t, err, ErrInTransition)
}

// What workers of all releases read.
func TestTheRecordIsWrittenAsItAlwaysWas(t *testing.T) {
	b := new(memory)
	until := time.Unix(1_800_000_000, 0).UTC()
	r := record{
		Key:      Key{KeyID: "ed25519:b", Alg: "ed25519", Plane: "policy", PublicKey: "QQ==", Status: statusCurrent},
		Previous: &Key{KeyID: "ed25519:a", Alg: "ed25519", Plane: "policy", PublicKey: "QQ==", Status: statusPrevious, NotAfter: &until},
		Retired:  []string{"ed25519:0"}, RotatedAt: until, RotatedBy: "ana", CorrelationID: "c", EventID: uuid.MustParse("00000000-0000-7000-8000-000000000001"),
	}
	_, err := writeRecord(t.Context(), b, r)
	require.NoError(t, err)
	require.Equal(t, `{"key_id":"ed25519:b","alg":"ed25519","plane":"policy","public_key":"QQ==","status":"current","not_after":null,`+
		`"previous":{"key_id":"ed25519:a","alg":"ed25519","plane":"policy","public_key":"QQ==","status":"previous","not_after":"2027-01-15T08:00:00Z"},`+
		`"retired":["ed25519:0"],"rotated_at":"2027-01-15T08:00:00Z","rotated_by":"ana","correlation_id":"c","event_id":"00000000-0000-7000-8000-000000000001"}`, string(b.value))
	read, err := readRecord(t.Context(), b)
	require.NoError(t, err)
	r.revision = 1
	require.Equal(t, r, read)
	require.Equal(t, policy.KeyRotated{ID: r.EventID, Key: "ed25519:b", Previous: "ed25519:a", Expires: until, CreatedBy: "ana"}, read.event())
}

// memory is a bucket that takes one value.
type memory struct {
	Bucket
	value []byte
}

func (b *memory) Get(context.Context, string) ([]byte, uint64, error) { return b.value, 1, nil }

func (b *memory) Create(_ context.Context, _ string, value []byte, _ time.Duration) (uint64, error) {
	b.value = value
	return 1, nil
}
