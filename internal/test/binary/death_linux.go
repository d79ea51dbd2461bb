package binary

import "syscall"

// goesWithTheTest has the system kill a program when what runs the test is killed.
func goesWithTheTest() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
