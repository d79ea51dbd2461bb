package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
)

// The document of the API lists the kinds of facts that there are.
func TestTheKindsOfFactsAreTold(t *testing.T) {
	kinds := make([]any, len(projector.FactKinds))
	for i, k := range projector.FactKinds {
		kinds[i] = k.Name
	}
	require.ElementsMatch(t, kinds, recoveryHints()["Fact.kind"].Enum)
}
