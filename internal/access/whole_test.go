package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/authority"
)

// TestAFileWithoutEndIsNotTakenWhole: a device that was named by mistake took all memory, and
// what else ran there with it.
func TestAFileWithoutEndIsNotTakenWhole(t *testing.T) {
	ca := authority.New(t, t.TempDir())
	ca.Issue("plane", &x509.Certificate{Subject: pkix.Name{CommonName: "plane"}})
	sound, err := os.ReadFile(ca.File("plane.crt"))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(path, sound, 0o600)) // and then bytes 0, which are no fault of PEM
	_, err = ReadCA(path)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, maxWhole+1))
	for name, read := range map[string]func() error{
		"authorities": func() error { _, err := ReadCA(path); return err },
		"principals":  func() error { _, err := ReadFile(path); return err },
		"credentials": func() error { return CheckNATSCreds(path) },
	} {
		err := read()
		require.ErrorContains(t, err, "larger than 64 MiB", name)
		require.ErrorContains(t, err, path, name)
	}
}
