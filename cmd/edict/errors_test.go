package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
)

// Whatever the plane answers with, there is something to do about it; cures of their own are
// of codes that there are.
func TestEachCodeHasACure(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, c := range api.ErrorCodes() {
		known[c.Code] = true
		require.NotEmpty(t, helpFor(c).Do, "%s %d", c.Code, c.Status)
	}
	for code := range errorCures {
		require.True(t, known[code], code)
	}
}
