package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// failing takes nothing.
type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }

func TestWhatCannotBePrintedIsNotFine(t *testing.T) {
	for name, c := range map[string]struct {
		to   io.Writer
		want string
	}{
		"all was written":             {new(bytes.Buffer), ""},
		"the disk is full":            {failing{syscall.ENOSPC}, "not all was written to standard output: no space left on device"},
		"nobody reads on, as in head": {failing{fmt.Errorf("write: %w", syscall.EPIPE)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, output := Remembering(c.to)
			fmt.Fprintln(w, "one")
			fmt.Fprintln(w, "two")
			err := output.Failed()
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			var e *Error
			require.True(t, errors.As(err, &e))
			require.Equal(t, Unavailable, e.Code)
			require.EqualError(t, err, c.want)
		})
	}
}
