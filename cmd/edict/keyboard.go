package main

import (
	"context"
	"io"
	"os"
)

// awaited is a terminal that a person types at, or a pipe whose other end may never write. Who
// waits for it goes on when ctx is over.
type awaited struct {
	*os.File
	ctx context.Context //nolint:containedctx // that of the whole command
}

// errLeft is why there is no line: its text is for people, and it counts as what ended ctx.
type errLeft struct{ error }

func (errLeft) Error() string   { return "interrupted" }
func (e errLeft) Unwrap() error { return e.error }

// until is in, until ctx is over where a Read may wait for ever.
func until(ctx context.Context, in io.Reader) io.Reader {
	f, ok := in.(*os.File)
	if !ok {
		return in
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return in
	}
	return awaited{f, ctx}
}

func (k awaited) Read(p []byte) (int, error) {
	type line struct {
		text []byte
		err  error
	}
	if k.ctx.Err() != nil { // what has no end also has a line at once
		return 0, errLeft{k.ctx.Err()}
	}
	const most = 64 << 10 // of what is made anew for each Read
	came := make(chan line, 1)
	go func() { // left behind in a Read that nothing ends: p is not its to write to
		text := make([]byte, min(len(p), most))
		n, err := k.File.Read(text)
		came <- line{text[:n], err}
	}()
	select {
	case l := <-came:
		return copy(p, l.text), l.err
	case <-k.ctx.Done():
		return 0, errLeft{k.ctx.Err()}
	}
}
