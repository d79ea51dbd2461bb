//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// kernelLock is an abstract socket, which is as the tables are: each network namespace
// has one, whichever directories and containers its processes see.
const kernelLock = "@edict-agent-nftables"

// lockKernel keeps other agents from the tables of this network namespace. Two of them
// would each undo what the other put in force. A process that dies loses the lock.
func lockKernel(name string, log *slog.Logger) (unlock func(), err error) {
	const tries = 20
	var who *unix.Ucred
	for try := range tries {
		var l net.Listener
		if l, err = net.Listen("unix", name); err == nil {
			go turnAway(l)
			return func() { _ = l.Close() }, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			log.Warn("it cannot be made sure that no other agent enforces here", "error", err)
			return func() {}, nil
		}
		if who, err = lockHolder(name); !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		time.Sleep(time.Duration(try) * 10 * time.Millisecond) // it begins just now, or ends
	}
	var pid int32
	if err == nil {
		pid = who.Pid
	}
	if err == nil && mayEnforce(who) {
		return nil, cli.Failed(cli.Unavailable, "another edict agent enforces in this network namespace (process %d, 0: of another container); stop it first", pid)
	}
	// Anybody may take the name. Who cannot change the rules must not keep them from being changed.
	log.Warn("a process that is no agent has taken the agents' lock; it is passed over", "lock", name, "process", pid, "error", err)
	return func() {}, nil
}

// turnAway takes the connections of those who ask who has the lock: with too many of
// them waiting nobody would be answered any more.
func turnAway(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(time.Second) // there are too many open files
			continue
		}
		_ = c.Close()
	}
}

// alone is an enforcer that has the lock for as long as it runs.
type alone struct {
	running
	unlock func()
}

// Run implements running.
func (a alone) Run(ctx context.Context) error {
	defer a.unlock()
	return a.running.Run(ctx)
}

// lockHolder is the process that has the lock.
func lockHolder(name string) (who *unix.Ucred, err error) {
	const patience = 5 * time.Second
	c, err := net.DialTimeout("unix", name, patience)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) {
		who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return who, errors.Join(failed, err)
}

// mayEnforce reports whether a process may change the kernel's rules: it is root's or
// of this user, or has CAP_NET_ADMIN. One that hides that is not believed.
func mayEnforce(who *unix.Ucred) bool {
	if who.Uid == 0 || int(who.Uid) == os.Geteuid() {
		return true
	}
	text, err := fs.ReadFile(os.DirFS("/proc"), fmt.Sprintf("%d/status", who.Pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(text), "\nCapEff:")
	line, _, _ := strings.Cut(after, "\n")
	effective, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err == nil && effective&(1<<unix.CAP_NET_ADMIN) != 0
}
