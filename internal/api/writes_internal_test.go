package api

import (
	"fmt"
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
