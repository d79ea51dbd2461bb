package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/backoff"
)

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
	patience, turn := time.Now().Add(c.opt.Patience), time.Now().Add(c.opt.Turn)
	var least backoff.Backoff // whatever the server advises, it is not asked without a pause
	for {
		res, err := c.opt.HTTP.Do(req)
		if err != nil {
			return nil, c.unanswered(ctx, err)
		}
		if res.StatusCode < 400 {
			return res, nil
		}
		p, err := readProblem(res)
		if err != nil {
			return nil, &UnavailableError{c.Address(), err}
		}
		wait := max(backoff.AtLeast(retryAfter(res)), least.Next())
		until := patience
		if tooFast(p) {
			until = turn
		} else if q.method != http.MethodGet || q.once || p.Status != http.StatusServiceUnavailable {
			return nil, p
		}
		if time.Now().Add(wait).After(until) || !rewind(req) {
			return nil, p
		}
		if c.opt.Waits != nil && tooFast(p) {
			c.opt.Waits(wait)
		}
		if err := backoff.Sleep(ctx, wait); err != nil {
			return nil, errors.Join(p, err)
		}
	}
}

// tooFast reports whether a request came too soon behind others, or may have: a quota that
// bounds what there is advises to wait for longer than anybody has patience.
func tooFast(p *Problem) bool {
	return p.Status == http.StatusTooManyRequests && (p.Code == "too_many_requests" || p.Code == "quota_exceeded")
}

// rewind makes a request ready to be sent again, if its body can be read again.
func rewind(req *http.Request) bool {
	if req.Body == nil {
		return true
	}
	if req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	req.Body = body
	return err == nil
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
	if text := err.Error(); strings.Contains(text, "malformed HTTP") && strings.Contains(text, "server_id") {
		err = ErrSpeaksNATS
	} else if strings.Contains(text, spokeFirst) && greetsAsNATS(ctx, c.base.Host) {
		err = ErrSpeaksNATS
	} else if strings.Contains(text, inTLS) {
		err = ErrSpeaksHTTP
	}
	return &UnavailableError{c.Address(), err}
}

// spokeFirst is what Go's client says of a server whose bytes came before the request was sent.
const spokeFirst = "readLoopPeekFailLocked"

// greetsAsNATS reports whether a server begins as NATS servers do.
func greetsAsNATS(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		return false
	}
	defer conn.Close()
	until, _ := ctx.Deadline()
	begin := make([]byte, len("INFO {"))
	if conn.SetReadDeadline(until) != nil {
		return false
	}
	_, err = io.ReadFull(conn, begin)
	return err == nil && string(begin) == "INFO {"
}

// inTLS is what Go's client says of a server that answers TLS with plain HTTP.
const inTLS = "server gave HTTP response to HTTPS client"

// inTheClear is what Go's servers answer to plain HTTP where they speak TLS.
const inTheClear = "Client sent an HTTP request to an HTTPS server"

// maxProblem bounds what is read of an error: a proxy's page may be long.
const maxProblem = 4 << 20

// readProblem turns any answer into a problem; one that is none, from
// something between, gets its status. An error says what a server cannot be asked so.
func readProblem(res *http.Response) (*Problem, error) {
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	p := new(Problem)
	if json.Unmarshal(body, p) != nil || p.Code == "" {
		if res.StatusCode == http.StatusBadRequest && bytes.Contains(body, []byte(inTheClear)) {
			return nil, ErrSpeaksTLS
		}
		return resource.NewProblem(res.StatusCode, "", "the server answered %s", res.Status), nil
	}
	return p, nil
}

// retryAfter is what a 503 advises, in whole seconds; a second when it does not.
func retryAfter(res *http.Response) time.Duration {
	n, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 31) // a Duration holds so many seconds
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		n = 1
	}
	return time.Duration(n) * time.Second
}

// do sends a request and reads a JSON answer into out, when that is not nil.
// A plane has 204 for what is deleted or would change something, and a body for what is read or
// changed: another success comes from something between, such as a page to sign in, and nothing
// was done or found.
func (c *Client) do(ctx context.Context, q request, out any) (*http.Response, error) {
	res, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if out == nil {
		if q.method == http.MethodDelete && res.StatusCode != http.StatusNoContent {
			return res, c.unlike(res)
		}
		return res, nil
	}
	if res.StatusCode == http.StatusNoContent && res.Request.URL.Query().Has(dryRun) {
		return res, nil
	}
	body, err := c.read(ctx, res)
	if err != nil {
		return res, err
	}
	if err := decode(body, out); err != nil {
		return res, c.unfit(ctx, res, err)
	}
	return res, nil
}

// get reads one resource.
func get[T any](ctx context.Context, c *Client, query url.Values, path ...string) (T, error) {
	var out T
	_, err := c.do(ctx, request{method: http.MethodGet, path: path, query: query}, &out)
	return out, err
}

// items reads a list that is no longer than a page.
func items[T any](ctx context.Context, c *Client, path ...string) ([]T, error) {
	out, err := get[resource.Items[T]](ctx, c, nil, path...)
	return out.Items, err
}

// put sends one document and reads the resource it became.
func put[T any](ctx context.Context, c *Client, method string, in any, calls []Call, path ...string) (out T, err error) {
	_, err = c.doc(ctx, method, in, calls, &out, path...)
	return out, err
}

// doc sends one document, and reads a JSON answer into out, when that is not nil.
func (c *Client) doc(ctx context.Context, method string, in any, calls []Call, out any, path ...string) (*http.Response, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	return c.do(ctx, request{
		method: method, path: path, media: "application/json", body: bytes.NewReader(body), calls: calls,
	}, out)
}

// batch streams lines of any number, and says what became of them.
func batch(ctx context.Context, c *Client, lines io.Reader, calls []Call, path ...string) (out resource.BatchResult, err error) {
	_, err = c.do(ctx, request{
		method: http.MethodPost, path: path, media: "application/x-ndjson", body: lines, calls: calls,
	}, &out)
	return out, err
}

// remove deletes a resource.
func remove(ctx context.Context, c *Client, query url.Values, calls []Call, path ...string) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: path, query: query, calls: calls}, nil)
	return err
}

// maxState bounds a state: 1024 rules of each of a thousand policies.
const maxState = 256 << 20

// bounded reads as far as answers go, and fails behind: what is cut off must not pass for the
// whole.
func (c *Client) bounded(r io.Reader) io.Reader { return &boundedReader{r, c.largest, c.largest} }

type boundedReader struct {
	r             io.Reader
	largest, left int64 // bytes
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	if int64(n) > b.left {
		return int(b.left), fmt.Errorf("it is larger than %d MiB, which no plane answers", b.largest>>20)
	}
	b.left -= int64(n)
	return n, err
}

// state asks for a state; the answer's body is the caller's to close.
func (c *Client) state(ctx context.Context, ask StateQuery, query url.Values, header http.Header, path ...string) (*http.Response, error) {
	q := request{method: http.MethodGet, path: path, query: query, header: http.Header{}}
	maps.Copy(q.header, header)
	if ask.MinSeq > 0 {
		q.query.Set("min_seq", strconv.FormatUint(ask.MinSeq, 10))
	}
	if ask.At != "" {
		q.query.Set("at", ask.At)
	}
	if ask.ETag != "" {
		q.header["If-None-Match"] = []string{ask.ETag}
	}
	res, err := c.send(ctx, q)
	if err == nil && res.StatusCode == http.StatusNotModified && ask.ETag == "" {
		res.Body.Close()
		return nil, &UnavailableError{c.Address(), errUnasked}
	}
	return res, err
}
