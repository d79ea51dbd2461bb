package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/authority"
)

// Files that could not be used when they changed are read again until they can be, though
// nothing that a file's size and time show is different then: whoever renews a certificate
// may give it its owner last.
func TestACertificateIsReadOnceItCanBe(t *testing.T) {
	ca := authority.New(t, t.TempDir())
	dir := t.TempDir()
	files := TLSFiles{Cert: filepath.Join(dir, "tls.pem"), Key: filepath.Join(dir, "tls.key")}
	put := func(file, from string, at time.Time) {
		text, err := os.ReadFile(ca.File(from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, text, 0o600))
		require.NoError(t, os.Chtimes(file, at, at))
	}
	for _, name := range []string{"before", "after"} {
		ca.Issue(name, &x509.Certificate{Subject: pkix.Name{CommonName: name}})
	}
	then := time.Unix(1_800_000_000, 0)
	put(files.Cert, "before.crt", then)
	put(files.Key, "before.key", then)
	failures := 0
	k := &keeper{files: files, failed: func(error) { failures++ }}
	serves := func() string {
		k.looked = time.Time{} // a second has passed
		return k.config().Certificates[0].Leaf.Subject.CommonName
	}
	require.Equal(t, "before", serves())

	then = then.Add(time.Hour)
	put(files.Cert, "after.crt", then)
	put(files.Key, "before.key", then) // as good as one that may not be read
	require.Equal(t, "before", serves())
	require.Equal(t, "before", serves())
	require.Equal(t, 1, failures, "what stays wrong is said once")
	put(files.Key, "after.key", then)
	require.Equal(t, "after", serves())
	require.Equal(t, 1, failures)
}
