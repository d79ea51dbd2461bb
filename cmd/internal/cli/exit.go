package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes (docs/design.md#commands).
const (
	Fine        = 0
	Differs     = 1 // differs, invalid by the rules, or refused by policy
	BadUsage    = 2
	Unreadable  = 3 // input cannot be read
	NotAllowed  = 4
	NotFound    = 5
	Conflict    = 6
	Unavailable = 7

	interrupted = 130 // as shells have it
)

// Error is an error that knows its exit code. An empty text: everything was
// printed already.
type Error struct {
	Code int
	Text string
}

func (e *Error) Error() string { return e.Text }

// Exit ends a command whose faults were printed.
func Exit(code int) error { return &Error{Code: code} }

// Failed is an error with an exit code.
func Failed(code int, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// Usage is a command line that makes no sense.
func Usage(cmd *cobra.Command, format string, args ...any) error {
	return Failed(BadUsage, "%s\nSee '%s --help'.", fmt.Sprintf(format, args...), cmd.CommandPath())
}

// Report prints what ended a command, where there is something to print, as
// explain has it, and returns the exit code: an Error's own, else that of codeOf.
func Report(stderr io.Writer, program string, err error, explain func(error) string, codeOf func(error) int) int {
	if err == nil {
		return Fine
	}
	if errors.Is(err, context.Canceled) {
		return interrupted
	}
	if err.Error() != "" {
		fmt.Fprintln(Messages(stderr), program+": "+Escaped(explain(err), "\n\t"))
	}
	var own *Error
	if errors.As(err, &own) {
		return own.Code
	}
	return codeOf(err)
}
