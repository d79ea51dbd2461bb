package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/openapi"
)

// A hint about a member that no type has explains nothing, and hides that the
// member which it was for is not explained.
func TestEveryHintIsAboutSomething(t *testing.T) {
	d := &describer{openapi.NewTypes(hints()), meanings()}
	d.document()
	require.Empty(t, d.types.Unused())
}
