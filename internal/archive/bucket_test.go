package archive

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/s3store"
)

const inBucket = "s3://" + s3store.Name + "/planes/one"

// archived is a log in a bucket: exported, gone on with, read, and proved.
func archived(t *testing.T) {
	p := world(t, 3, 25)
	require.EqualValues(t, 3, p.export(inBucket).Segments)
	p.grow(4, 7)
	grown := p.export(inBucket)
	require.Equal(t, [3]uint64{1, 32, 4}, [3]uint64{grown.First, grown.Last, uint64(grown.Segments)})
	require.Equal(t, grown, p.export(inBucket), "nothing is new")

	whole, agreed, err := opened(t, inBucket).Verify(t.Context(), nil, nil)
	require.NoError(t, err)
	require.Zero(t, agreed)
	require.Equal(t, grown, whole)
	require.Equal(t, p.exported(32), whole.Chain)
	require.Equal(t, p.folded().Digest, foldedArchive(t, opened(t, inBucket)).Digest)
	var read []streams.Message
	for m, err := range opened(t, inBucket+"/"+segmentName(11)).Messages(0) {
		require.NoError(t, err)
		read = append(read, m)
	}
	require.Len(t, read, 10, "one segment of it")

	_, err = Export(t.Context(), world(t, 3, 40).Log, ExportOptions{Dir: inBucket})
	require.ErrorContains(t, err, "is of log")
	_, err = Open(t.Context(), "s3://"+s3store.Name+"/planes/two")
	require.ErrorIs(t, err, ErrEmpty)
}

func foldedArchive(t *testing.T, a *Archive) (digest struct{ Digest string }) {
	opt, err := a.StoreOptions(t.Context())
	require.NoError(t, err)
	digest.Digest = folded(t, a, opt).Digest
	return digest
}

func TestALogIsArchivedInABucket(t *testing.T) {
	s := s3store.Start(t)
	archived(t)
	require.Len(t, s.Names(), 4)
	_, err := Open(t.Context(), "s3://elsewhere/planes")
	require.ErrorContains(t, err, "elsewhere")
}

func TestAStoreOfOthersArchivesALog(t *testing.T) {
	s3store.Versity(t, "../..")
	archived(t)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
	_, err := Open(t.Context(), inBucket)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "another")
}

// TestAnAnswerThatWasLostIsNoOther: the store has the segment, and who sends it again
// finds its name taken by itself.
func TestAnAnswerThatWasLostIsNoOther(t *testing.T) {
	s := s3store.Start(t)
	puts := 0
	s.Lose(func(r *http.Request) bool {
		if r.Method == http.MethodPut {
			puts++
		}
		return r.Method == http.MethodPut && puts%2 == 1
	})
	require.EqualValues(t, 3, world(t, 3, 25).export(inBucket).Segments)
	require.Equal(t, 6, puts)
}

// TestTwoThatArchiveAtOnceWriteNoSegmentTwice: the second finds the name taken by what is
// not its own, and what is there stays.
func TestTwoThatArchiveAtOnceWriteNoSegmentTwice(t *testing.T) {
	s3store.Start(t)
	p := world(t, 3, 25)
	at, _, err := placeOf(t.Context(), inBucket)
	require.NoError(t, err)
	_, err = at.lock(ErrExporting)
	require.NoError(t, err)
	f, err := at.create(segmentName(1))
	require.NoError(t, err)
	_, err = f.Write([]byte("of who saw the archive before the other wrote"))
	require.NoError(t, err)
	e := p.export(inBucket)
	require.ErrorIs(t, f.keep(), ErrExporting)
	require.Equal(t, e, p.export(inBucket))
}

// TestALargeObjectIsWrittenInOneRequest: of parts the client sends the condition that its name
// is free with none that a store heeds.
func TestALargeObjectIsWrittenInOneRequest(t *testing.T) {
	s := s3store.Start(t)
	var asked []string
	s.Lose(func(r *http.Request) bool {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			asked = append(asked, r.Method+" "+r.Header.Get("If-None-Match"))
		}
		return false
	})
	at, _, err := placeOf(t.Context(), inBucket)
	require.NoError(t, err)
	f, err := at.create(originName(1, suffixObject))
	require.NoError(t, err)
	require.NoError(t, f.(*upload).Truncate(maxLine+1))
	require.NoError(t, f.keep())
	require.Equal(t, []string{"PUT *"}, asked)
}

// TestAConnectionThatBreaksEndsNoReading: an object is asked for from where it broke off,
// and one that changed meanwhile, or ends again and again at one place, is an error.
func TestAConnectionThatBreaksEndsNoReading(t *testing.T) {
	s := s3store.Start(t)
	e := world(t, 3, 60).export(inBucket)
	s.Cut(400)
	whole, err := opened(t, inBucket).Extent(t.Context())
	require.NoError(t, err)
	require.Equal(t, e, whole)

	s.Cut(0)
	s.Change(s.Names()[0], func(b []byte) []byte { return append(b[:len(b)-9:len(b)-9], "tampered!"...) })
	_, err = opened(t, inBucket).Extent(t.Context())
	require.Error(t, err)
}

// broken is a place whose files cannot be read any further behind so many bytes, because the
// store goes away.
type broken struct {
	place
	bytes int64
	why   error
}

func (b broken) open(name string) (io.ReadCloser, error) {
	f, err := b.place.open(name)
	gone := iotest.ErrReader(&BucketError{"s3://history/" + name, b.why})
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(f, b.bytes), gone), f}, err
}

// TestAStoreThatGoesAwayIsNoFaultOfItsArchive: another copy would be no better, and who is
// called off says nothing of it.
func TestAStoreThatGoesAwayIsNoFaultOfItsArchive(t *testing.T) {
	p, dir := world(t, 3, 25), t.TempDir()
	p.export(dir)
	size, err := fileOf(filepath.Join(dir, segmentName(1)), -1)
	require.NoError(t, err)
	for _, why := range []error{io.ErrUnexpectedEOF, syscall.ECONNREFUSED, context.Canceled} {
		for _, bytes := range []int64{0, 2, 100, size.Bytes / 2, size.Bytes - 1, size.Bytes} {
			a, err := find(broken{directory(dir), bytes, why})
			require.NoError(t, err)
			_, _, err = a.Verify(t.Context(), nil, nil)
			require.ErrorIs(t, err, why, bytes)
			require.ErrorAs(t, err, new(*BucketError))
			require.NotErrorAs(t, err, new(*FaultError))
			require.ErrorContains(t, err, "s3://history/"+segmentName(1))
		}
	}
}

func TestAURLOfABucketHasNoSecrets(t *testing.T) {
	for _, text := range []string{"s3://", "s3:///x", "s3://key:hidden@bucket/x", "s3://bucket/x?secret=hidden", "s3://bucket:9000/x", "s3://bucket/x#hidden", "s3://a%41/x", "s3://bucket/a\nb"} {
		_, err := Open(t.Context(), text)
		require.ErrorContains(t, err, "s3://BUCKET/PREFIX", text)
		require.NotContains(t, err.Error(), "hidden")
	}
	_, err := LockBackup("s3://bucket/x")
	require.ErrorContains(t, err, "a backup is a directory")
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://key:hidden@127.0.0.1:1")
	_, err = Open(t.Context(), inBucket)
	require.ErrorContains(t, err, "AWS_ENDPOINT_URL")
	require.False(t, strings.Contains(err.Error(), "hidden"))
}

// TestThePrefixOfABucketIsTakenAsItIs, as the store's other clients take it, and so that what
// is shown of it names it again.
func TestThePrefixOfABucketIsTakenAsItIs(t *testing.T) {
	for _, text := range []string{"s3://bucket/100%", "s3://bucket/a%20b", "s3://bucket/a b", "s3://bucket/%2e%2e/x"} {
		at, only, err := openBucket(t.Context(), text)
		require.NoError(t, err, text)
		require.Equal(t, text+"/", at.String())
		require.Empty(t, only)
	}
}
