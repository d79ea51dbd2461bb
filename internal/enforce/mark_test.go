package enforce_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/enforce"
)

// TestAnAgentWhoseResolverIsCutOffGoesWhereItWentLast: the policy that cuts it off is
// corrected by the same way.
func TestAnAgentWhoseResolverIsCutOffGoesWhereItWentLast(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	const name = "plane.example:443"
	names := map[string]string{name: l.Addr().String()}
	why := &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	var asked []string
	dial := enforce.Lasting(func(ctx context.Context, network, address string) (net.Conn, error) {
		asked = append(asked, address)
		if to, known := names[address]; known {
			address = to
		} else if address == name {
			return nil, &net.OpError{Op: "dial", Err: why}
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	})
	reach := func() error {
		c, err := dial(t.Context(), "tcp", name)
		if err == nil {
			require.Equal(t, l.Addr().String(), c.RemoteAddr().String())
			err = c.Close()
		}
		return err
	}
	resolve := names[name]
	delete(names, name)
	require.ErrorIs(t, reach(), error(why), "it was never there")
	names[name] = resolve
	require.NoError(t, reach())
	delete(names, name)
	require.NoError(t, reach())
	require.Equal(t, resolve, asked[len(asked)-1])

	why = &net.DNSError{Err: "no such host", IsNotFound: true}
	require.Error(t, reach(), "a name that is gone is gone")
	why = &net.DNSError{Err: "i/o timeout", IsTimeout: true}
	require.NoError(t, reach())
	require.NoError(t, l.Close())
	err = reach()
	require.True(t, errors.As(err, new(*net.DNSError)), "%v", err)
}
