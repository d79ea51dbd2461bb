package cli

import (
	"errors"
	"io"
	"sync/atomic"
	"syscall"
)

// Output is standard output that remembers what kept it from being written: most of what is
// printed is printed without a look at that, and a file on a full disk must not end with "fine".
type Output struct {
	io.Writer
	failed atomic.Pointer[error]
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil && !errors.Is(err, syscall.EPIPE) { // else who reads has seen enough
		o.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// Failed is why not all was written; nil: it was, as far as anybody read it.
func (o *Output) Failed() error {
	if err := o.failed.Load(); err != nil {
		return Failed(Unavailable, "not all was written to standard output: %v", *err)
	}
	return nil
}

// Remembering is stdout as a program writes to it, with its Output; a terminal is written to as
// it is.
func Remembering(stdout io.Writer) (io.Writer, *Output) {
	o := &Output{Writer: stdout}
	if Width(stdout) > 0 {
		return stdout, o
	}
	return o, o
}
