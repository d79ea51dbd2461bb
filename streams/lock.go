package streams

// LockFile locks a file for this process, and makes it first where it is
// missing. The error is syscall.EWOULDBLOCK when another process has the lock; a
// process that dies loses it. On systems without flock nobody is kept out.
func LockFile(path string) (release func(), err error) {
	l, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	return l.release, nil
}
