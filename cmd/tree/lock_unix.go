//go:build unix

package tree

import (
	"errors"
	"os"
	"syscall"
)

// Lock waits until nobody else has locked the directory, in this process or another, and
// keeps others waiting until unlock, or the end of this process. waiting is called if there is
// somebody. Where directories cannot be locked, nobody waits.
func Lock(dir string, waiting func()) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if errors.Is(flock(f, syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		waiting()
		_ = flock(f, 0)
	}
	return func() { _ = f.Close() }, nil
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
