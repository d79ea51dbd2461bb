//go:build linux

package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/edictdev/edict/cmd/edict/internal/agent"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// TestOneAgentEnforcesInANetworkNamespace: whichever install roots two agents have.
func TestOneAgentEnforcesInANetworkNamespace(t *testing.T) {
	name := fmt.Sprintf("@edict-test-%d", os.Getpid())
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	unlock, err := lockKernel(name, log)
	require.NoError(t, err)
	_, err = lockKernel(name, log)
	require.ErrorContains(t, err, fmt.Sprintf("another edict agent enforces in this network namespace (process %d", os.Getpid()))
	var failed *cli.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, cli.Unavailable, failed.Code)
	unlock()
	again, err := lockKernel(name, log)
	require.NoError(t, err)
	again()
	require.Empty(t, said.String())
}

// TestAnAgentThatEndsLeavesTheLockToTheNext: between two looks at it the lock may have come
// free, and who goes on without it would not keep a third one away.
func TestAnAgentThatEndsLeavesTheLockToTheNext(t *testing.T) {
	name := fmt.Sprintf("@edict-test-ends-%d", os.Getpid())
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: name})) // and nobody answers there
	log := slog.New(slog.DiscardHandler)
	time.AfterFunc(20*time.Millisecond, func() { _ = unix.Close(fd) }) // whenever it is, the lock is to be had
	unlock, err := lockKernel(name, log)
	require.NoError(t, err)
	defer unlock()
	_, err = lockKernel(name, log)
	require.ErrorContains(t, err, "another edict agent enforces")
}

// TestWhoCannotChangeRulesHoldsNoAgentUp: anybody may take the name of the lock.
func TestWhoCannotChangeRulesHoldsNoAgentUp(t *testing.T) {
	other := uint32(os.Geteuid()) + 12345
	require.True(t, mayEnforce(&unix.Ucred{Uid: 0}))
	require.True(t, mayEnforce(&unix.Ucred{Uid: uint32(os.Geteuid())}))
	require.False(t, mayEnforce(&unix.Ucred{Uid: other}), "a process of another container")
	own := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	require.NoError(t, unix.Capget(&own, &has[0]))
	may := has[0].Effective&(1<<unix.CAP_NET_ADMIN) != 0
	require.Equal(t, may, mayEnforce(&unix.Ucred{Uid: other, Pid: int32(os.Getpid())}), "a process of another user, by its capabilities")
}

// What a plane wrote cannot say what the agent did not, nor tell the terminal what to do.
func TestTheErrorOfAnAgentStaysInItsPlace(t *testing.T) {
	var out bytes.Buffer
	a := agentCommands{&app{console: console{stdout: &out, format: formatTable}}}
	require.Error(t, a.writeAgentStatus(agent.Status{State: agent.StatePolling, Error: "\x1b[2Jno\nState:        current"}))
	require.Contains(t, out.String(), "Error:        \\x1b[2Jno\n              State:        current\n")
}
