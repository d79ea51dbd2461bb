package relay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/test/cloudevent"
	"github.com/edictdev/edict/internal/wire"
)

// Each kind of message to a node is a CloudEvent by CloudEvents' own SDK.
func TestEachMessageToANodeIsACloudEvent(t *testing.T) {
	seen := map[string]int{}
	onSubject(t, artifact.Keys{Current: goldenSigner(t)}, goldenAnswer(t), func(_ string, header map[string][]string, body []byte) {
		e, err := cloudevent.Of(header, body)
		require.NoError(t, err)
		require.Equal(t, header[wire.HeaderMsgID][0], e.ID())
		seen[e.Type()]++
	})
	for _, kind := range []string{wire.TypePolicyUpdated, wire.TypeArtifactUpdated, wire.TypeStateUpdated} {
		require.NotZero(t, seen[kind], kind)
	}
}
