package plane

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A partition is one of the log's, however many it has.
func TestWhichPartitionsThereAreTheLogSays(t *testing.T) {
	require.NoError(t, Options{Announce: []int{0, 63}}.checkAnnounced(64))
	require.NoError(t, Options{Announce: []int{127}}.checkAnnounced(128))
	err := Options{Announce: []int{128, 5, -1}}.checkAnnounced(128)
	require.ErrorContains(t, err, "-1,128 are none of the plane's 128 partitions, which are 0-127")
}
