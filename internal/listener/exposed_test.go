package listener

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePlaneListensOnLoopbackAlone(t *testing.T) {
	for _, addr := range []string{":8080", "0.0.0.0:0", "[::]:0", "192.0.2.1:80", "example.com:80"} {
		_, err := listen(addr)
		var exposed *ExposedError
		require.ErrorAs(t, err, &exposed, addr)
		require.Contains(t, err.Error(), addr)
	}
	_, err := Addresses{HTTP: "nonsense"}.Listen(false)
	require.ErrorContains(t, err, "want host:port")
	for _, addr := range []string{"127.0.0.1:0", "localhost:0", "127.8.8.8:0"} {
		l, err := listen(addr)
		require.NoError(t, err, addr)
		require.NoError(t, l.Close())
	}
}

func TestAPortInUseIsSaid(t *testing.T) {
	l, err := listen("127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = listen(l.Addr().String())
	require.ErrorContains(t, err, l.Addr().String())
}
