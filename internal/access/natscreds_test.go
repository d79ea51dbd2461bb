package access

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

// Who is said to be revoked is, whoever else is revoked at the same time, and whatever the
// directory is called.
func TestEveryRevocationStays(t *testing.T) {
	k, err := MakeNATSKeys(filepath.Join(t.TempDir(), "nats [a]"))
	require.NoError(t, err)
	const nodes = 16
	users := make([]string, nodes)
	for i := range users {
		c, err := k.Node(policy.NodeID(fmt.Sprintf("web-%d", i)), time.Time{})
		require.NoError(t, err)
		users[i] = c.User
	}
	var all sync.WaitGroup
	for _, user := range users {
		all.Go(func() {
			if _, err := k.Revoke(t.Context(), user); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	account, err := k.account("nodes")
	require.NoError(t, err)
	for _, user := range users {
		require.True(t, account.Revocations.IsRevoked(user, time.Now().Add(-time.Minute)), user)
	}
}
