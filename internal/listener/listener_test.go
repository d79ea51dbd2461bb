package listener

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/streams"
)

func TestOnlyThisMachineIsServed(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:1", ":1", "10.0.0.1:1", "[::]:1", "example.org:1", "127.0.0.1"} {
		for _, a := range []Addresses{{HTTP: addr}, {Admin: addr}, {NATS: addr}} {
			var refused *AddressError
			require.ErrorAs(t, a.CheckLoopback(), &refused, addr)
		}
	}
	for _, addr := range []string{"127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "localhost:1"} {
		require.NoError(t, Addresses{HTTP: addr, Admin: addr, NATS: addr}.CheckLoopback(), addr)
	}
	require.NoError(t, Addresses{}.CheckLoopback())
}

func TestOperatorsRoutesStayOnThisMachineWhereNobodyProvesWhoItIs(t *testing.T) {
	require.Equal(t, "127.0.0.1:8081", Addresses{HTTP: "0.0.0.0:80"}.WithAdmin(false).Admin)
	require.Empty(t, Addresses{HTTP: "0.0.0.0:80"}.WithAdmin(true).Admin, "there is one address")
	require.Equal(t, "10.0.0.1:81", Addresses{HTTP: "0.0.0.0:80", Admin: "10.0.0.1:81"}.WithAdmin(true).Admin)
	require.Empty(t, Addresses{HTTP: "127.0.0.1:80"}.WithAdmin(false).Admin)
	require.Empty(t, Addresses{NATS: "0.0.0.0:4222"}.WithAdmin(false).Admin, "without an API there are none")
}

func TestAnAddressInUseIsNamedWithItsFlag(t *testing.T) {
	l, err := Addresses{HTTP: "127.0.0.1:0"}.Listen(false)
	require.NoError(t, err)
	defer l.Close()
	require.Empty(t, Addr(l.Admin))
	var used *datadir.InUseError
	for flag, a := range map[string]Addresses{
		"--http": {HTTP: Addr(l.HTTP)}, "--admin": {Admin: Addr(l.HTTP)}, "--nats-listen": {NATS: Addr(l.HTTP)},
	} {
		require.ErrorAs(t, a.CheckFree(), &used)
		require.ErrorContains(t, used, flag)
	}
	_, err = Addresses{HTTP: "127.0.0.1:0", Admin: Addr(l.HTTP)}.Listen(false)
	require.ErrorAs(t, err, &used)
	require.ErrorContains(t, used, "--admin")
}

// What is no address, or none of this machine, begins with the flag that gave it.
func TestAWrongAddressIsNamedWithItsFlag(t *testing.T) {
	for _, addr := range []string{"8085", "localhost:abc", "localhost:70000", "localhost:-1"} {
		for flag, a := range map[string]Addresses{"--http": {HTTP: addr}, "--admin": {Admin: addr}, "--nats-listen": {NATS: addr}} {
			for _, err := range []error{a.CheckForm(), a.CheckLoopback()} {
				var wrong *AddressError
				require.ErrorAs(t, err, &wrong)
				require.Equal(t, flag+` "`+addr+`": want host:port, such as 127.0.0.1:8080, with a port from 0 to 65535`, wrong.Error())
			}
		}
	}
	require.NoError(t, Addresses{HTTP: "localhost:http", Admin: ":0"}.CheckForm())
	elsewhere := Addresses{HTTP: "192.0.2.1:0"}
	require.ErrorContains(t, elsewhere.CheckFree(), "--http 192.0.2.1:0: listen tcp 192.0.2.1:0: ")
	_, err := elsewhere.Listen(true)
	require.ErrorContains(t, err, "--http 192.0.2.1:0: listen tcp 192.0.2.1:0: ")
}

func TestAFailedListenLeavesNothingOpen(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := Addr(free)
	require.NoError(t, free.Close())
	_, err = Addresses{HTTP: addr, Admin: addr}.Listen(false)
	require.Error(t, err)
	require.NoError(t, Addresses{HTTP: addr}.CheckFree())
}

func TestWhatInsecureDoesIsSaid(t *testing.T) {
	for _, c := range []struct {
		opt  Options
		warn string
	}{
		{Options{}, ""},
		{Options{Insecure: true}, "whoever reaches this address"},
		{Options{Insecure: true, File: "access.json"}, "readable by anybody"},
		{Options{Insecure: true, File: "access.json", TLS: access.TLSFiles{Cert: "c", Key: "k"}}, ""},
	} {
		var out bytes.Buffer
		c.opt.WarnExposed(slog.New(slog.NewTextHandler(&out, nil)))
		if c.warn == "" {
			require.Empty(t, out.String())
			continue
		}
		require.Contains(t, out.String(), c.warn)
		require.True(t, c.opt.Exposable())
	}
}

// TestNobodyIsLetInBeforeItIsKnownWhoMayDoWhat: the server of the log listens
// before the read model is open.
func TestNobodyIsLetInBeforeItIsKnownWhoMayDoWhat(t *testing.T) {
	_, ok := (&Auth{opt: Options{File: "access.json"}}).Admit(streams.Credentials{})
	require.False(t, ok)
	a, err := Load(t.Context(), Options{}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Nil(t, a.Guard(), "access is not configured")
}

// A Workload API that does not answer is no fault of the configuration: its agent may start
// after the plane, and whoever supervises the plane is to start it again.
func TestAWorkloadAPIThatIsAwayMayComeLater(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := Load(ctx, Options{Workload: "unix://" + filepath.Join(t.TempDir(), "agent.sock")}, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "--spiffe-socket: ")
	require.NotErrorAs(t, err, new(*datadir.UnusableError))
}

func TestAFileThatCannotBeReadIsNamedWithItsFlag(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for flag, opt := range map[string]Options{
		"--access": {File: none}, "--tls-cert": {TLS: access.TLSFiles{Cert: none, Key: none}}, "--spiffe-socket": {Workload: "no address"},
	} {
		_, err := Load(t.Context(), opt, slog.New(slog.DiscardHandler))
		var unusable *datadir.UnusableError
		require.ErrorAs(t, err, &unusable, flag)
		require.Equal(t, flag, unusable.What)
	}
}
