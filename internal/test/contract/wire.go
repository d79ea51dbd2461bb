package contract

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/edictdev/edict/internal/wire/dcz"
)

// sentKept is how much of a request is kept to be judged; a longer one is not.
const sentKept = 1 << 20

// Handler judges every answer of next, after it is given, and tells of those
// that are not as described.
func (c *Contract) Handler(next http.Handler, report func(error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := &head{}
		if r.Body != nil {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, sent), r.Body}
		}
		t := &tee{ResponseWriter: w}
		next.ServeHTTP(t, r)
		if t.Header().Get("Content-Encoding") == dcz.Coding {
			return // only who has the dictionary can read it
		}
		res := &http.Response{StatusCode: t.status, Header: t.Header(), Request: r}
		if t.status == 0 {
			res.StatusCode = http.StatusOK
		}
		if err := c.Check(r, sent.whole(), res, t.text()); err != nil {
			report(err)
		}
	})
}

// tee keeps what is answered.
type tee struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// text is the body without its coding, as far as it can be read.
func (t *tee) text() []byte {
	var from io.Reader
	var err error
	switch t.Header().Get("Content-Encoding") {
	case "gzip":
		from, err = gzip.NewReader(&t.body)
	case "zstd":
		from, err = zstd.NewReader(&t.body, zstd.WithDecoderConcurrency(1))
	default:
		return t.body.Bytes()
	}
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(from)
	return text
}

func (t *tee) WriteHeader(status int) {
	if t.status == 0 {
		t.status = status
	}
	t.ResponseWriter.WriteHeader(status)
}

func (t *tee) Write(b []byte) (int, error) {
	if t.status == 0 {
		t.status = http.StatusOK
	}
	t.body.Write(b)
	return t.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (t *tee) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// head keeps the beginning of what is written.
type head struct {
	bytes.Buffer
	cut bool
}

func (h *head) Write(b []byte) (int, error) {
	if h.Len()+len(b) > sentKept {
		h.cut = true
	}
	if !h.cut {
		h.Buffer.Write(b)
	}
	return len(b), nil
}

func (h *head) whole() []byte {
	if h.cut {
		return nil
	}
	return h.Bytes()
}

// Transport judges every answer that a client gets from planes, by the document
// that the first of them serves at /openapi.json. What is not as described is an
// error of the request and is kept for Faults.
type Transport struct {
	Next http.RoundTripper // nil: http.DefaultTransport as it is at the first request

	mu       sync.Mutex
	contract *Contract
	faults   []error
}

// RoundTrip sends a request and judges the answer: before it is handed on, or
// of a stream event by event as it is read.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c, err := t.load(r)
	if err != nil {
		return nil, err
	}
	res, err := t.Next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		if err := c.Check(r, nil, res, nil); err != nil {
			res.Body.Close()
			return nil, t.fault(err)
		}
		res.Body = &judged{ReadCloser: res.Body, check: func(frame []byte) error {
			return t.fault(c.Check(r, nil, res, frame))
		}}
		return res, nil
	}
	body, err := io.ReadAll(res.Body)
	if closed := res.Body.Close(); err != nil || closed != nil {
		res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
		return res, nil // cut off: the client's to notice
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, t.fault(c.Check(r, nil, res, body))
}

// load fetches the document from the plane that r goes to.
func (t *Transport) load(r *http.Request) (*Contract, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.contract != nil {
		return t.contract, nil
	}
	u := *r.URL
	u.Path, u.RawPath, u.RawQuery = "/openapi.json", "", ""
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	res, err := t.Next.RoundTrip(ask)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	doc, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", &u, res.Status)
	}
	t.contract, err = New(doc)
	return t.contract, err
}

func (t *Transport) fault(err error) error {
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.faults = append(t.faults, err)
	}
	return err
}

// Faults are all answers so far that were not as described.
func (t *Transport) Faults() []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.faults
}

// judged is a stream of events, each checked once it is whole.
type judged struct {
	io.ReadCloser
	check func(frame []byte) error
	frame []byte
}

func (j *judged) Read(b []byte) (int, error) {
	n, err := j.ReadCloser.Read(b)
	j.frame = append(j.frame, b[:n]...)
	for {
		end := bytes.Index(j.frame, []byte("\n\n"))
		if end < 0 {
			return n, err
		}
		if fault := j.check(j.frame[:end+2]); fault != nil {
			return 0, fault
		}
		j.frame = j.frame[end+2:]
	}
}

// failing is the end of a body that was cut off.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.ErrUnexpectedEOF
	}
	return 0, f.err
}
