package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// What became of a write is said first; what the log's servers say of it stands behind.
func TestAWriteThatTheLogDidNotTakeIsSaidPlainly(t *testing.T) {
	t.Parallel()
	p := unpublished(fmt.Errorf("publish edict.log.x: %w", streams.ErrBusy))
	require.Equal(t, CodeLogUnavailable, p.Code)
	require.True(t, strings.HasPrefix(p.Detail, "the plane's log does not answer just now, so this write may be stored or not; "), p.Detail)
	require.True(t, strings.HasSuffix(p.Detail, " (publish edict.log.x: not taken now)"), p.Detail)
}

// A retry of what is too large is too large again.
func TestAWriteThatIsTooLargeForTheLogIsNotToBeSentAgain(t *testing.T) {
	t.Parallel()
	p := unpublished(fmt.Errorf("publish edict.log.x: %w: about 1048800 bytes, max_payload is 1048576", streams.ErrMessageTooLarge))
	require.Equal(t, CodeBodyTooLarge, p.Code)
	require.Equal(t, http.StatusRequestEntityTooLarge, p.Status)
	require.Contains(t, p.Detail, "it was not written")
	require.Contains(t, p.Detail, "max_payload is 1048576")
}
