// Package client is a client of a plane's HTTP API: every route of package api,
// with typed resources and problems. It is what the command line uses; the routes that
// it does not ask are here for other programs.
//
// Reads that a worker cannot answer yet (503) are tried again for as long as
// the context allows and the client has patience; writes never are, but by a
// caller who gives them a key.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/edictdev/edict/api/resource"
)

// Problem is what the plane answers when it cannot do what was asked. Find it
// with errors.As; Code is stable.
type Problem = resource.Problem

// Options has a useful zero value.
type Options struct {
	HTTP      *http.Client  // nil: one without a timeout, since streams last
	Principal string        // who writes; empty: anonymous
	Patience  time.Duration // how long a read is tried again on 503; 0 is 10 s, negative never
	UserAgent string        // empty: edict
}

// Client is a plane's API. It is safe for concurrent use.
type Client struct {
	base *url.URL
	opt  Options
}

// New makes a client of the plane at server, such as http://127.0.0.1:8080.
func New(server string, opt Options) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(server, "/"))
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}
	if base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("server address %q: want http://host:port", server)
	}
	if opt.HTTP == nil {
		opt.HTTP = &http.Client{}
	}
	if opt.Patience == 0 {
		opt.Patience = 10 * time.Second
	}
	if opt.UserAgent == "" {
		opt.UserAgent = "edict"
	}
	return &Client{base, opt}, nil
}

// Server is the address of the plane.
func (c *Client) Server() string { return c.base.String() }

// UnavailableError means that there was no answer at the plane's address, or no
// HTTP answer.
type UnavailableError struct {
	Server string
	Err    error
}

// Error says what to check.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("no answer from the plane at %s: %v; is it running, and is that its address?", e.Server, e.Err)
}

// Unwrap gives the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Call is what one write may add to its request.
type Call func(*http.Request)

// Key makes a write one write, however often it is sent: a retry under the
// same key, by the same principal, gets the answer of the first.
func Key(key string) Call {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
}

// Correlation names what the write belongs to; a revision keeps it.
func Correlation(id string) Call {
	return func(r *http.Request) { r.Header.Set("X-Correlation-Id", id) }
}

// Trace hands on a W3C traceparent.
func Trace(parent string) Call {
	return func(r *http.Request) { r.Header.Set("traceparent", parent) }
}

// request is one call of a route. Segments of the path are escaped.
type request struct {
	method string
	path   []string
	query  url.Values
	header http.Header
	media  string
	body   io.Reader
	calls  []Call
	once   bool // a 503 is an answer
}

// send returns the answer to a request, whose body is the caller's to close.
// Any status above 399 is an error: a *Problem.
func (c *Client) send(ctx context.Context, q request) (*http.Response, error) {
	req, err := c.build(ctx, q)
	if err != nil {
		return nil, err
	}
	patience := time.Now().Add(c.opt.Patience)
	for {
		res, err := c.opt.HTTP.Do(req)
		if err != nil {
			return nil, c.unanswered(ctx, err)
		}
		if res.StatusCode < 400 {
			return res, nil
		}
		p := readProblem(res)
		wait := retryAfter(res)
		again := q.method == http.MethodGet && !q.once && p.Status == http.StatusServiceUnavailable
		if !again || time.Now().Add(wait).After(patience) {
			return nil, p
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, errors.Join(p, err)
		}
	}
}

func (c *Client) build(ctx context.Context, q request) (*http.Request, error) {
	u := *c.base
	for _, segment := range q.path {
		u.RawPath = u.EscapedPath() + "/" + escape(segment)
		u.Path += "/" + segment
	}
	u.RawQuery = q.query.Encode()
	req, err := http.NewRequestWithContext(ctx, q.method, u.String(), q.body)
	if err != nil {
		return nil, err
	}
	for name, values := range q.header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", c.opt.UserAgent)
	if q.media != "" {
		req.Header.Set("Content-Type", q.media)
	}
	if c.opt.Principal != "" {
		req.Header.Set("X-Edict-Principal", c.opt.Principal)
	}
	for _, call := range q.calls {
		call(req)
	}
	return req, nil
}

// escape leaves no segment that a server or a proxy would take for a step up
// the path.
func escape(segment string) string {
	if segment == "." || segment == ".." {
		return strings.ReplaceAll(segment, ".", "%2E")
	}
	return url.PathEscape(segment)
}

func (c *Client) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the long address
	}
	return &UnavailableError{c.base.String(), err}
}

// maxProblem bounds what is read of an error: a proxy's page may be long.
const maxProblem = 4 << 20

// readProblem turns any answer into a problem; one that is none, from
// something between, gets its status.
func readProblem(res *http.Response) *Problem {
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	p := new(Problem)
	if json.Unmarshal(body, p) != nil || p.Code == "" {
		return resource.NewProblem(res.StatusCode, "", "the server answered %s", res.Status)
	}
	return p
}

// retryAfter is what a 503 advises, in whole seconds; a second when it does not.
func retryAfter(res *http.Response) time.Duration {
	n, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil || n < 0 {
		n = 1
	}
	return time.Duration(n) * time.Second
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// do sends a request and reads a JSON answer into out, when that is not nil.
func (c *Client) do(ctx context.Context, q request, out any) (*http.Response, error) {
	res, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if out == nil {
		return res, nil
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		if ctx.Err() != nil {
			return res, ctx.Err()
		}
		return res, &UnavailableError{c.base.String(), fmt.Errorf("answer of %s: %w", res.Request.URL.Path, err)}
	}
	return res, nil
}

// get reads one resource.
func get[T any](ctx context.Context, c *Client, query url.Values, path ...string) (T, error) {
	var out T
	_, err := c.do(ctx, request{method: http.MethodGet, path: path, query: query}, &out)
	return out, err
}

// put sends one document and reads the resource it became.
func put[T any](ctx context.Context, c *Client, method string, in any, calls []Call, path ...string) (T, int, error) {
	var out T
	body, err := json.Marshal(in)
	if err != nil {
		return out, 0, err
	}
	res, err := c.do(ctx, request{
		method: method, path: path, media: "application/json", body: bytes.NewReader(body), calls: calls,
	}, &out)
	if err != nil {
		return out, 0, err
	}
	return out, res.StatusCode, nil
}
