package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api/openapi"
)

// A hint about a member that no type has explains nothing, and hides that the
// member which it was for is not explained.
func TestEveryHintIsAboutSomething(t *testing.T) {
	d := newDescriber()
	d.document()
	for name := range hints() {
		owner, member, ofMember := strings.Cut(name, ".")
		s := d.types.Schemas()[owner]
		require.NotNil(t, s, name)
		require.True(t, !ofMember || slices.ContainsFunc(s.Properties, func(p openapi.Property) bool { return p.Name == member }), name)
	}
}
