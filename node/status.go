package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// ErrUnknownNode means that the plane has no such node (404). It is final: a worker
// that is behind the log answers 503.
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

// Is makes a 404 ErrUnknownNode.
func (e *StatusError) Is(target error) bool {
	return target == ErrUnknownNode && e.Status == http.StatusNotFound
}

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
		e.Code, e.Detail = problem.Code, problem.Detail
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
