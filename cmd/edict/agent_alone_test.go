//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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

// TestWithoutAnAgentNothingIsCurrent: what it wrote last is of another time, however short.
func TestWithoutAnAgentNothingIsCurrent(t *testing.T) {
	dir := t.TempDir()
	text, err := json.Marshal(agent.Status{Node: "web-1", State: agent.StateCurrent, Version: 7, ConfirmedAt: time.Now(), MaxAgeSeconds: 3600})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "status.json"), text, 0o600))
	unlock, err := lockAgent(dir)
	require.NoError(t, err)
	code, out, errs := edict(t, "agent", "status", "--dir", dir)
	require.Zero(t, code, errs)
	require.Contains(t, out, "State:        current\n")
	unlock()
	code, out, _ = edict(t, "agent", "status", "--dir", dir)
	require.Equal(t, cli.Differs, code)
	require.Contains(t, out, "State:        stale\n")
	require.Contains(t, out, "no agent runs")
	code, out, _ = edict(t, "agent", "status", "--dir", dir, "-o", "json")
	require.Equal(t, cli.Differs, code)
	require.Contains(t, out, "no agent runs")
	require.NoError(t, os.Remove(filepath.Join(dir, "agent.lock")))
	_, out, _ = edict(t, "agent", "status", "--dir", dir)
	require.Contains(t, out, "no agent runs")
}

// TestAnAgentThatWritesNoStatusIsThere, and who asks is told so.
func TestAnAgentThatWritesNoStatusIsThere(t *testing.T) {
	dir := t.TempDir()
	code, _, errs := edict(t, "agent", "status", "--dir", dir)
	require.Equal(t, cli.NotFound, code)
	require.Contains(t, errs, "no agent with --apply has kept")
	unlock, err := lockAgent(dir)
	require.NoError(t, err)
	defer unlock()
	code, _, errs = edict(t, "agent", "status", "--dir", dir)
	require.Equal(t, cli.Unreadable, code)
	require.Contains(t, errs, "has written no status")
}

// TestWhoAsksWhetherAnAgentRunsKeepsNoneFromStarting, though it has the lock for a moment.
func TestWhoAsksWhetherAnAgentRunsKeepsNoneFromStarting(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "agent.lock"))
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_SH))
	time.AfterFunc(20*time.Millisecond, func() { _ = f.Close() }) // whenever it is, the lock is to be had
	unlock, err := lockAgent(dir)
	require.NoError(t, err)
	unlock()
}
