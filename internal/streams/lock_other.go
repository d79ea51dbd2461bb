//go:build !unix

package streams

import "os"

// dirLock is an open file only: where flock is unknown, two servers on one
// directory are distinguished by their addresses alone.
type dirLock struct{ f *os.File }

func lockDir(path string) (*dirLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &dirLock{f: f}, nil
}

func (l *dirLock) release() { l.f.Close() }

func locked(path string) (bool, error) {
	_, err := os.Stat(path)
	return false, err
}
