//go:build !linux

package binary

import "syscall"

// goesWithTheTest has nothing to say: such a system does not know who started a program.
func goesWithTheTest() *syscall.SysProcAttr { return nil }
