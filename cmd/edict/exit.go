package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"syscall"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/archive"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/disk"
	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/keyring"
	"github.com/edictdev/edict/internal/listener"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/node"
)

// exit tells the error, if there is one, and returns its exit code. With -o json it is a
// JSON object.
func (a *console) exit(err error) int {
	if !a.forPrograms() || err == nil || err.Error() == "" || errors.Is(err, context.Canceled) {
		return cli.Report(a.stderr, "edict", err, explain, codeOf)
	}
	code := exitCode(err)
	f := failure{Message: explain(err), Exit: code}
	var p *client.Problem
	if errors.As(err, &p) {
		f.Code, f.Status, f.CorrelationID, f.Errors = p.Code, p.Status, p.CorrelationID, p.Errors
	}
	if err == error(p) { //nolint:errorlint // wrapped it says more: of what, or of when
		f.Message = p.Detail
	}
	a.tellFailure(f)
	return code
}

// exitCode is the exit code of an error, its own or that of what went wrong.
func exitCode(err error) int { return cli.Report(io.Discard, "edict", err, explain, codeOf) }

// failure is what ended a command, as programs read it: one line of standard error.
type failure struct {
	Message       string           `json:"message"`
	Exit          int              `json:"exit"` // the command's exit code
	Code          string           `json:"code,omitempty"`
	Status        int              `json:"status,omitempty"`
	CorrelationID string           `json:"correlation_id,omitempty"`
	Errors        []resource.Fault `json:"errors,omitempty"` // of a request
	Faults        []fileFault      `json:"faults,omitempty"` // of files
}

// fileFault is a fault of a file, and where in it that is.
type fileFault struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Pointer string `json:"pointer,omitempty"` // into the document
	Code    string `json:"code,omitempty"`
	Message string `json:"message"` // with both, as people read it
}

func (a *console) tellFailure(f failure) {
	out := json.NewEncoder(cli.Whole(a.stderr))
	out.SetEscapeHTML(false)
	_ = out.Encode(map[string]failure{"error": f}) // there is nobody else to say so to
}

// printable is what explain says, with what a terminal would obey written out: a plane may
// have written it.
func printable(err error) string { return cli.Escaped(explain(err), "\n\t") }

// explain is an error as a person reads it.
func explain(err error) string {
	var p *client.Problem
	if errors.As(err, &p) && p.Code == "" {
		return fmt.Sprintf("%v; is an edict plane at that address?", err)
	}
	if errors.As(err, &p) && p.Code == api.CodeUnauthenticated {
		return fmt.Sprintf("%v (--token-file, --cert and --key, or a context)", err)
	}
	if errors.As(err, new(*node.NATSAccessError)) {
		return fmt.Sprintf("%v (--nats-creds FILE; at a plane's own server --token-file FILE)", err)
	}
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		flag := "--ca"
		if errors.As(err, new(*streams.ConnectError)) { // of serve; commands that read a log say it themselves
			flag = "--nats-ca"
		}
		return fmt.Sprintf("%v; give its certificate's authority with %s FILE", err, flag)
	}
	if errors.As(err, &p) && p.Code == api.CodeRouteNotFound {
		return fmt.Sprintf("%v; --admin-server names an address of operators' routes", err)
	}
	if errors.As(err, &p) && !errors.As(err, new(*absentThenError)) {
		if cure := unsaidCure(p); cure != "" {
			return fmt.Sprintf("%v; %s", err, cure)
		}
	}
	said := strings.TrimSpace(err.Error())
	var at *fs.PathError
	if errors.Is(err, syscall.ENOSPC) && errors.As(err, &at) && strings.Contains(at.Path, scratchName) {
		return said + "; free some there, or have TMPDIR name a directory elsewhere"
	}
	var fault *archive.FaultError
	if errors.As(err, &fault) && !fault.Final {
		return said + "; use another copy of it"
	}
	return said
}

// codeOf maps what went wrong to an exit code.
func codeOf(err error) int {
	var p *client.Problem
	var status *node.StatusError
	switch {
	case errors.As(err, &p) && p.Policy != nil:
		return cli.Differs // refused by policy
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
	var exposed *listener.ExposedError
	var address *listener.AddressError
	var locked *projector.LockedError
	var used *datadir.InUseError
	var schema *projector.SchemaError
	var other *projector.OtherLogError
	var key *keyring.OtherKeyError
	var config *streams.ConfigError
	var unusable *datadir.UnusableError
	var full *disk.FullError
	var unreached *streams.ConnectError
	var kept *node.StateFileError
	var damaged *streams.DamagedError
	var restored *integrity.RestoredError
	var overtaken *integrity.OvertakenError
	var compacted *streams.CompactedError
	var corrupt *projector.CorruptError
	var bucket *archive.BucketError
	switch {
	case errors.As(err, &exposed), errors.As(err, &address):
		return cli.BadUsage
	case errors.As(err, &schema), errors.As(err, &kept), errors.As(err, &unusable), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return cli.Unreadable
	case errors.Is(err, archive.ErrEmpty), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EROFS):
		return cli.Unreadable
	case errors.As(err, new(*streams.ExistsError)), errors.As(err, new(*streams.UnfinishedError)):
		return cli.Conflict
	case errors.Is(err, integrity.ErrNoLog):
		return cli.NotFound
	case errors.As(err, &overtaken):
		return cli.Unavailable
	case errors.As(err, &compacted):
		return cli.NotFound
	case errors.As(err, &other), errors.As(err, &damaged), errors.As(err, &key), errors.As(err, &config), errors.Is(err, snapshot.ErrNotEmpty),
		errors.Is(err, integrity.ErrWitnessInUse):
		return cli.Conflict
	case errors.As(err, &bucket), errors.As(err, &away), errors.As(err, &locked), errors.As(err, &used), errors.As(err, &full), errors.As(err, &unreached), errors.As(err, new(*streams.UnfitError)), errors.As(err, &restored),
		errors.As(err, &corrupt), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EWOULDBLOCK),
		errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, streams.ErrStorage),
		errors.Is(err, streams.ErrBusy), errors.Is(err, streams.ErrNoAnswer), errors.Is(err, streams.ErrUnknown):
		return cli.Unavailable
	}
	return cli.Differs
}

func codeOfStatus(status int) int {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return cli.NotAllowed
	case http.StatusNotFound, http.StatusGone:
		return cli.NotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return cli.Conflict
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return cli.Unavailable
	}
	if status >= http.StatusInternalServerError {
		return cli.Unavailable
	}
	return cli.Differs
}
