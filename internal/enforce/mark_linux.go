package enforce

import (
	"os"

	"golang.org/x/sys/unix"
)

func mark(fd uintptr) error {
	return os.NewSyscallError("setsockopt SO_MARK", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, AgentMark))
}
