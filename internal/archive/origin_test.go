package archive

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHalfAnOriginIsAFault: without one of its files the archive would pass for one that was
// begun in the middle of a log on purpose, of which no log is made.
func TestHalfAnOriginIsAFault(t *testing.T) {
	p := world(t, 3, 25)
	for there, lost := range map[string]string{suffixObject: suffixDocument, suffixDocument: suffixObject} {
		dir := t.TempDir()
		_, err := Export(t.Context(), p.Log, ExportOptions{Dir: dir, From: 9})
		require.NoError(t, err)
		_, _, err = opened(t, dir).Verify(t.Context(), nil, nil)
		require.NoError(t, err, "it was begun there on purpose")

		require.NoError(t, os.WriteFile(filepath.Join(dir, originName(9, there)), []byte("half"), 0o600))
		_, _, err = opened(t, dir).Verify(t.Context(), nil, nil)
		require.ErrorAs(t, err, new(*FaultError))
		require.ErrorContains(t, err, originName(9, lost)+": it is missing")
		_, err = opened(t, dir).Whole(t.Context())
		require.ErrorContains(t, err, "it is missing")
	}
}
