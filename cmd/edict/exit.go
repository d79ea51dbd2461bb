package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api"
	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/internal/plane"
	"github.com/edictdev/edict/disk"
	"github.com/edictdev/edict/keyring"
	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/snapshot"
	"github.com/edictdev/edict/streams"
)

// Exit codes (docs/design.md#commands).
const (
	exitFine        = 0
	exitDiffers     = 1 // differs, invalid by the rules, or refused by policy
	exitUsage       = 2
	exitUnreadable  = 3 // input cannot be read
	exitNotAllowed  = 4
	exitNotFound    = 5
	exitConflict    = 6
	exitUnavailable = 7
)

// exitError is an error that knows its exit code. An empty text: everything
// was said already.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

// said ends a command whose faults were printed.
func said(code int) error { return &exitError{code: code} }

// failed is an error with an exit code.
func failed(code int, format string, args ...any) error {
	return &exitError{code, fmt.Sprintf(format, args...)}
}

// usage is a command line that makes no sense.
func usage(cmd *cobra.Command, format string, args ...any) error {
	return failed(exitUsage, "%s\nSee '%s --help'.", fmt.Sprintf(format, args...), cmd.CommandPath())
}

// exit tells the error, if there is one, and returns its exit code.
func (a *app) exit(err error) int {
	if err == nil {
		return exitFine
	}
	if errors.Is(err, context.Canceled) {
		const interrupted = 130
		return interrupted
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(a.stderr, "edict: "+explain(err))
	}
	return codeOf(err)
}

// explain is an error as a person reads it.
func explain(err error) string {
	var p *client.Problem
	if errors.As(err, &p) && p.Code == "" {
		return fmt.Sprintf("%v; is an edict plane at that address?", err)
	}
	return strings.TrimSpace(err.Error())
}

// codeOf maps what went wrong to an exit code.
func codeOf(err error) int {
	var own *exitError
	var p *client.Problem
	var status *node.StatusError
	switch {
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &p) && p.Policy != nil:
		return exitDiffers // refused by policy
	case errors.As(err, &p):
		return codeOfStatus(p.Status)
	case errors.As(err, &status):
		return codeOfStatus(status.Status)
	}
	return codeOfKind(err)
}

// codeOfKind maps errors of the plane's parts.
func codeOfKind(err error) int {
	var away *client.UnavailableError
	var exposed *api.ExposedError
	var address *plane.AddressError
	var locked *projector.LockedError
	var used *plane.InUseError
	var schema *projector.SchemaError
	var other *projector.OtherLogError
	var key *keyring.OtherKeyError
	var config *streams.ConfigError
	var unusable *plane.UnusableError
	var full *disk.FullError
	var unreached *streams.ConnectError
	var kept *node.StateFileError
	var damaged *streams.DamagedError
	var restored *plane.RestoredError
	var corrupt *projector.CorruptError
	switch {
	case errors.As(err, &exposed), errors.As(err, &address):
		return exitUsage
	case errors.As(err, &schema), errors.As(err, &kept), errors.As(err, &unusable), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return exitUnreadable
	case errors.As(err, &other), errors.As(err, &damaged), errors.As(err, &key), errors.As(err, &config), errors.Is(err, snapshot.ErrNotEmpty):
		return exitConflict
	case errors.As(err, &away), errors.As(err, &locked), errors.As(err, &used), errors.As(err, &full), errors.As(err, &unreached), errors.As(err, &restored),
		errors.As(err, &corrupt), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EWOULDBLOCK):
		return exitUnavailable
	}
	return exitDiffers
}

func codeOfStatus(status int) int {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitNotAllowed
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return exitConflict
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return exitUnavailable
	}
	if status >= http.StatusInternalServerError {
		return exitUnavailable
	}
	return exitDiffers
}
