package archive

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/s3store"
)

// TestAStoreThatFallsSilentIsGivenUp: before it answers, and in the middle of an object.
func TestAStoreThatFallsSilentIsGivenUp(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Query().Get("list-type") == "" {
			w.Header().Set("Content-Length", "1000")
			w.Header().Set("ETag", `"one"`)
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			if r.Header.Get("Range") == "" {
				_, err := io.WriteString(w, "the beginning")
				require.NoError(t, err)
				w.(http.Flusher).Flush()
			}
		}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	for name, value := range s3store.Env(silent.URL) {
		t.Setenv(name, value)
	}
	for what, ask := range map[string]func(b *bucket) error{
		"list": func(b *bucket) error { _, err := b.names(); return err },
		"lock": func(b *bucket) error { _, err := b.lock(ErrExporting); return err },
		"put": func(b *bucket) error {
			p, err := b.create(segmentName(1))
			require.NoError(t, err)
			_, err = io.WriteString(p, "a segment")
			require.NoError(t, err)
			return p.keep()
		},
		"get": func(b *bucket) error {
			r, err := b.open(segmentName(1))
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.ReadAll(r)
			return err
		},
	} {
		b := &bucket{name: s3store.Name}
		require.NoError(t, b.openStore(t.Context(), 50*time.Millisecond))
		err := ask(b)
		require.ErrorIs(t, err, errSilent, what)
		require.ErrorAs(t, err, new(*BucketError), what)
	}
}

// TestARequestThatIsLongOnItsWayIsNoSilence: its answer is read for all the while.
func TestARequestThatIsLongOnItsWayIsNoSilence(t *testing.T) {
	var read, write time.Time
	w := &watched{deadlines{read: &read, write: &write}, &silence{patience: time.Hour}}
	_, err := w.Read(nil)
	require.NoError(t, err)
	begun := read
	_, err = w.Write(nil)
	require.NoError(t, err)
	require.True(t, read.After(begun))
	require.Equal(t, read, write)
}

// deadlines is a connection that keeps which it was given.
type deadlines struct {
	net.Conn
	read, write *time.Time
}

func (deadlines) Read([]byte) (int, error)             { return 0, nil }
func (deadlines) Write([]byte) (int, error)            { return 0, nil }
func (d deadlines) SetReadDeadline(at time.Time) error { *d.read = at; return nil }
func (d deadlines) SetDeadline(at time.Time) error     { *d.read, *d.write = at, at; return nil }

// TestAURLThatLacksASlashIsNoDirectory: who asks would believe the archive to be in a store.
func TestAURLThatLacksASlashIsNoDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"s3:/history/one", "S3://history/one", "gs://history"} {
		_, err := Export(t.Context(), world(t, 1, 3).Log, ExportOptions{Dir: name})
		require.ErrorContains(t, err, "s3://BUCKET/PREFIX", name)
	}
}
