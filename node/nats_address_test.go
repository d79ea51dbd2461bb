package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/node"
)

// TestAServerThatIsAwayIsNamedWithoutItsPassword: also where its address is no URL.
func TestAServerThatIsAwayIsNamedWithoutItsPassword(t *testing.T) {
	for address, want := range map[string]string{
		"nats://joe:secret@127.0.0.1:1,127.0.0.1:2": "connect to NATS at nats://127.0.0.1:1,127.0.0.1:2: ",
		"nats://joe:secret%zz@127.0.0.1:1":          "connect to NATS at nats://127.0.0.1:1: that is not an address",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var said error
		f := node.NewFollower("", "web-1", node.Options{NATS: address, Trust: artifact.NewTrustSet(), Trouble: func(err error, _ time.Duration) { said = err; cancel() }})
		require.NoError(t, f.Run(ctx, func(node.Event) error { return nil }))
		require.ErrorContains(t, said, want)
		require.NotContains(t, said.Error(), "secret")
	}
}
