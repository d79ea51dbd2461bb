package api

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// call is one request on its way through a route.
type call struct {
	w           *response
	r           *http.Request
	route       *Route
	correlation string // echoed; made here when the client gave none
	given       string // the client's own, empty when it gave none
	principal   string
	who         *access.Principal // nil: access is not configured
	key         string            // Idempotency-Key, empty when there is none
	digest      string            // of the body, where there are both a key and a body
	asked       string            // digest, once the key has given ids
	trace       streams.Trace     // of the request
	dry         bool              // nothing is written
	held        bool              // it waited for a quota, as it does once
	// admitted is what admission policies made of what the request writes.
	admitted *resource.AdmissionNote
}

// author is who writes, as the event will say; empty when it is unknown.
func (c *call) author() string {
	if c.principal == anonymous {
		return ""
	}
	return c.principal
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= policy.MaxCreatedBy
}

// json answers with a body, gzip-coded where the client takes that and it is large.
func (c *call) json(status int, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	c.coded(status, mediaJSON, append(b, '\n'))
	return nil
}

func (c *call) bytes(status int, media string, body []byte) {
	h := c.w.Header()
	h.Set("Content-Type", media)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	c.w.WriteHeader(status)
	_, _ = answering(c).Write(body) // the client may be gone
}

// headerWarning is in answers that are good and that somebody should look at.
const headerWarning = "Warning"

// warn tells something beside an answer that is good: a Warning header.
func (c *call) warn(format string, args ...any) {
	const long = 1024 // bytes; proxies bound headers
	c.w.Header().Add(headerWarning, "299 edict "+strconv.QuoteToASCII(shortened(fmt.Sprintf(format, args...), long)))
}

// anonymous writes when nobody said who does.
const anonymous = "anonymous"

// readHeaders takes the headers that every route accepts.
func (c *call) readHeaders() error {
	given := c.r.Header.Get(HeaderCorrelation)
	c.correlation = given
	if given == "" || !printable(given) {
		c.correlation = uuid.NewString()
	}
	c.w.Header().Set(HeaderCorrelation, c.correlation)
	c.given = given
	c.key = c.r.Header.Get(HeaderIdempotency)
	c.principal = c.r.Header.Get(HeaderPrincipal)
	if c.principal == "" {
		c.principal = anonymous
	}
	for _, h := range [...]struct{ name, value string }{
		{HeaderCorrelation, given}, {HeaderIdempotency, c.key}, {HeaderPrincipal, c.principal},
	} {
		if !printable(h.value) {
			return problem(http.StatusBadRequest, CodeBadHeader,
				"%s: want at most %d visible ASCII characters or spaces", h.name, policy.MaxCreatedBy)
		}
	}
	for _, name := range [...]string{HeaderIdempotency, HeaderPrincipal} {
		if n := len(c.r.Header.Values(name)); n > 1 {
			return problem(http.StatusBadRequest, CodeBadHeader, "%s: it stands %d times; send it once", name, n)
		}
	}
	if err := ownPages.Check(c.r); err != nil {
		return problem(http.StatusBadRequest, CodeBadHeader, "the request comes from a web page of another origin, which may not write here: %v", err)
	}
	return nil
}

// ownPages lets a browser write for no page but the plane's own: on loopback,
// and with a client certificate, it would lend every page what its user may do.
var ownPages http.CrossOriginProtection

// log is where to write what concerns this call.
func (c *call) log(to *slog.Logger) *slog.Logger {
	if c.trace.IsZero() {
		return to
	}
	return to.With("trace_id", c.trace.ID())
}
