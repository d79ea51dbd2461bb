package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// ErrUnknownNode means that the plane has no such node (404 with the code node_not_found).
// It is final: a worker that is behind the log answers 503.
var ErrUnknownNode = errors.New("the plane knows no such node")

// StatusError is an answer that is not 200.
type StatusError struct {
	Status     int
	Code       string // of the problem document, if it was one
	Detail     string
	RetryAfter time.Duration // 0: the server sent none
}

// Error has the status, and what the server wrote about it.
func (e *StatusError) Error() string {
	s := fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Code != "" {
		s += " (" + e.Code + ")"
	}
	return s
}

// Is makes a plane's 404 about the node ErrUnknownNode. That of a proxy, or of another
// server, says nothing of nodes.
func (e *StatusError) Is(target error) bool {
	return target == ErrUnknownNode && e.Status == http.StatusNotFound && e.Code == wire.ReplayUnknown
}

// NATSAccessError means that a NATS server lets nobody in with these credentials, or does not
// let them follow the node. A [Follower] tries again: the server may come to know them, and
// their file is read at each connect.
type NATSAccessError struct {
	Node string
	Err  error // of the NATS client
}

// natsAccess makes a *NATSAccessError of an error that is one.
func natsAccess(id policy.NodeID, err error) error {
	for _, refused := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrPermissionViolation} {
		if errors.Is(err, refused) {
			return &NATSAccessError{string(id), err}
		}
	}
	return err
}

// Error says what is not good: that there are credentials, or what they are for.
func (e *NATSAccessError) Error() string {
	if errors.Is(e.Err, nats.ErrPermissionViolation) {
		return fmt.Sprintf("%v; the credentials do not allow to follow node %s", e.Err, e.Node)
	}
	return fmt.Sprintf("%v; the server asks for credentials, and these, or none, are not good there", e.Err)
}

// Unwrap is the client's reason.
func (e *NATSAccessError) Unwrap() error { return e.Err }

// final reports whether asking again cannot help.
func (e *StatusError) final() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.Status >= 400 && e.Status < 500
}

func newStatusError(resp *http.Response) *StatusError {
	e := &StatusError{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	const most = 64 << 10
	body, _ := io.ReadAll(io.LimitReader(resp.Body, most))
	var problem struct{ Code, Detail string }
	if json.Unmarshal(body, &problem) == nil {
		const shown = 4 << 10 // it is logged at every try
		brief := func(text string) string { return strings.ToValidUTF8(text[:min(len(text), shown)], "") }
		e.Code, e.Detail = brief(problem.Code), brief(problem.Detail)
	}
	return e
}

// retryAfter reads the header's two forms, seconds and a date (RFC 9110,
// section 10.2.3).
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

func readBounded(r io.Reader, most int) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(body) > most {
		err = fmt.Errorf("the answer is larger than %d bytes", most)
	}
	return body, err
}
