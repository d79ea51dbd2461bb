package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/node"
)

// TestAServerThatIsAwayIsNamedWithoutItsPassword: also where its address is no URL, which is final.
func TestAServerThatIsAwayIsNamedWithoutItsPassword(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var said error
	follow := func(address string) error {
		f := node.NewFollower("", "web-1", node.Options{NATS: address, Trust: artifact.NewTrustSet(), Trouble: func(err error, _ time.Duration) { said = err; cancel() }})
		return f.Run(ctx, func(node.Event) error { return nil })
	}
	err := follow("nats://joe:secret%zz@127.0.0.1:1")
	require.ErrorAs(t, err, new(*node.AddressError))
	require.ErrorContains(t, err, `"nats://127.0.0.1:1" is not the address of a server; it is one such as nats://127.0.0.1:4222`)
	require.NotContains(t, err.Error(), "secret")
	require.NoError(t, follow("nats://joe:secret@127.0.0.1:1,127.0.0.1:2"))
	require.ErrorContains(t, said, "connect to NATS at nats://127.0.0.1:1,127.0.0.1:2: ")
	require.NotContains(t, said.Error(), "secret")
}
