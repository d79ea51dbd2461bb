//go:build unix

package main

import (
	"os/exec"
	"syscall"
	"time"
)

// inGroup has the command and what it starts be one group of processes, so that
// its end is the end of all of them. SIGTERM, when its context ends, leaves each
// of them the command's WaitDelay to end in order; end waits for that, and what is
// left then gets SIGKILL. It gets that at once where the command failed by itself.
func inGroup(c *exec.Cmd) (end func()) {
	var late time.Time
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	signal := func(s syscall.Signal) error { return syscall.Kill(-c.Process.Pid, s) }
	c.Cancel = func() error {
		late = time.Now().Add(c.WaitDelay)
		return signal(syscall.SIGTERM)
	}
	return func() {
		if c.Process == nil || c.ProcessState.Success() {
			return
		}
		for signal(0) == nil && time.Now().Before(late) {
			time.Sleep(10 * time.Millisecond) // they are not ours to wait for: the command started them
		}
		_ = signal(syscall.SIGKILL) // there may be none left
	}
}
