package artifact_test

import (
	"crypto/ed25519"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/edictdev/edict/artifact"
	"github.com/stretchr/testify/require"
)

func TestKeyFileIsMadeOnceAndReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "signing.pem")
	_, err := artifact.LoadSigner(path)
	require.ErrorIs(t, err, fs.ErrNotExist)

	made, err := artifact.LoadOrCreateSigner(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file stays")

	again, err := artifact.LoadOrCreateSigner(path)
	require.NoError(t, err)
	require.Equal(t, made.KeyID(), again.KeyID())
	require.True(t, ed25519.Verify(made.PublicKey(), []byte("x"), again.Sign([]byte("x"))))
	require.Regexp(t, `^ed25519:[0-9a-f]{16}$`, made.KeyID())
	require.Equal(t, artifact.KeyID(made.PublicKey()), made.KeyID())
}

func TestCreatorsThatRaceEndWithOneKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signing.pem")
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			s, err := artifact.LoadOrCreateSigner(path)
			if err == nil {
				ids[i] = s.KeyID()
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
		require.NotEmpty(t, id)
	}
}

func TestKeyFilesThatAreRefused(t *testing.T) {
	good, err := artifact.GenerateSigner()
	require.NoError(t, err)
	text, err := good.PEM()
	require.NoError(t, err)
	cases := []struct {
		name string
		text string
		mode fs.FileMode
		says string
	}{
		{"one the group may read", string(text), 0o640, "chmod 600"},
		{"one others may read", string(text), 0o604, "chmod 600"},
		{"an empty one", "", 0o600, "PKCS#8"},
		{"half a one", string(text[:len(text)/2]), 0o600, "PKCS#8"},
		{"a public key", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", 0o600, "PRIVATE KEY"},
		{"noise in the right clothes", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 0o600, "PKCS#8"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key.pem")
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			require.NoError(t, os.Chmod(path, c.mode))
			_, err := artifact.LoadOrCreateSigner(path)
			require.ErrorContains(t, err, c.says)
			left, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, c.text, string(left), "a refused file is never replaced")
		})
	}
	_, err = artifact.LoadSigner(t.TempDir())
	require.Error(t, err)
}
