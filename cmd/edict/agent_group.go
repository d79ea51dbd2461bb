//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// inGroup has the command and what it starts be one group of processes, so that
// its end is the end of all of them: SIGTERM when its context ends, and SIGKILL
// for what is left of them by end.
func inGroup(c *exec.Cmd) (end func()) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	signal := func(s syscall.Signal) error { return syscall.Kill(-c.Process.Pid, s) }
	c.Cancel = func() error { return signal(syscall.SIGTERM) }
	return func() {
		if c.Process != nil && !c.ProcessState.Success() {
			_ = signal(syscall.SIGKILL) // there may be none left
		}
	}
}
