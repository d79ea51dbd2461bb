//go:build unix

package streams

import (
	"os"
	"syscall"
)

// dirLock keeps a second server from a store directory: nats-server itself
// would open it and damage it. The kernel drops it when the process dies.
type dirLock struct{ f *os.File }

func lockDir(path string) (*dirLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return &dirLock{f: f}, nil
}

func (l *dirLock) release() { l.f.Close() }
