package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARotationNamesKeys(t *testing.T) {
	for _, id := range []string{"", "ed25519:", "0123456789abcdef", "ed25519:0123456789ABCDEF", "ed25519:0123456789abcde", "ed25519:0123456789abcdef0", "ed25519:*"} {
		for _, good := range []string{"ed25519:0123456789abcdef", "ed25519:fedcba9876543210"} {
			_, err := Decode([]byte(strings.Replace(keyBody, good, id, 1)))
			var fault *DecodeError
			require.ErrorAs(t, err, &fault, id)
			require.Equal(t, Invalid, fault.Code)
			require.Equal(t, CodeInvalidKeyID, fault.Violations[0].Code)
		}
	}
}
