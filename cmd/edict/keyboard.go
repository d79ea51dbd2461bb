package main

import (
	"context"
	"io"
	"os"
)

// keyboard is a terminal that a person types at. Who waits for a line goes on when ctx is over.
type keyboard struct {
	*os.File
	ctx context.Context //nolint:containedctx // that of the whole command
}

// errLeft is why there is no line: its text is for people, and it counts as what ended ctx.
type errLeft struct{ error }

func (errLeft) Error() string   { return "interrupted" }
func (e errLeft) Unwrap() error { return e.error }

// typedUntil is in, and if that is a terminal, until ctx is over.
func typedUntil(ctx context.Context, in io.Reader) io.Reader {
	if f, ok := in.(*os.File); ok && asksPeople(f) {
		return keyboard{f, ctx}
	}
	return in
}

func (k keyboard) Read(p []byte) (int, error) {
	type line struct {
		text []byte
		err  error
	}
	came := make(chan line, 1)
	go func() { // left behind in a Read that nothing ends: p is not its to write to
		text := make([]byte, len(p))
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
