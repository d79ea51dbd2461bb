package cli

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// What ends a command may quote others, such as the author of a policy.
func TestAReportRewritesNoTerminal(t *testing.T) {
	var out bytes.Buffer
	code := Report(&out, "edict", errors.New("policy p says:\n\ta\x1b[2Jb"), error.Error, func(error) int { return 1 })
	require.Equal(t, 1, code)
	require.Equal(t, "edict: policy p says:\n\ta\\x1b[2Jb\n", out.String())
}
