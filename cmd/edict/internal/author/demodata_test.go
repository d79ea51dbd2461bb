package author_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/edict/demodata"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	read "github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/internal/compiler/lint"
)

// They are the first that a newcomer applies.
func TestTheShippedPoliciesRaiseNoWarning(t *testing.T) {
	docs, faults := read.Parse("policies.yaml", demodata.Policies)
	drafts, broken := author.Drafts(docs)
	require.Empty(t, append(faults, broken...))
	var all []*lint.Policy
	for _, d := range drafts {
		require.Empty(t, lint.Content(d.Content), d.Slug)
		all = append(all, lint.NewPolicy(d.Slug, d.Content))
	}
	for i, d := range drafts {
		overlapping, err := lint.Overlapping(all[i], all, func() error { return nil })
		require.NoError(t, err)
		require.Empty(t, overlapping, d.Slug)
	}
}
