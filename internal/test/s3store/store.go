// Package s3store gives tests a store that speaks S3: one in this process that can be
// made to fail, and one of other authors where the machine has it.
package s3store

import (
	"bufio"
	"bytes"
	"crypto/md5" //nolint:gosec // what an ETag is
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Name is the bucket that every store of this package has.
const Name = "history"

// Secret is the secret key of whoever asks: nothing may show it.
const Secret = "secret-of-the-bucket"

// Env is the environment of clients of a store at an address.
func Env(url string) map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "edict", "AWS_SECRET_ACCESS_KEY": Secret,
		"AWS_ENDPOINT_URL_S3": "", "AWS_SESSION_TOKEN": "",
	}
}

// Store is the one in this process. It checks no signature, and lists no more than a
// thousand objects.
type Store struct {
	mu      sync.Mutex
	objects map[string][]byte
	before  func(r *http.Request) bool
	cut     int // bytes of each GET that are sent; 0: all
}

// New is an empty one.
func New() *Store { return &Store{objects: map[string][]byte{}} }

// Start starts one until the test ends, and has this process ask it.
func Start(t *testing.T) *Store {
	s := New()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	use(t, server.URL)
	return s
}

func use(t *testing.T, url string) {
	for name, value := range Env(url) {
		t.Setenv(name, value)
	}
}

// Lose has the store do what requests ask that lose says, and break the connection in
// place of an answer.
func (s *Store) Lose(lose func(r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = lose
}

// Cut has every answer with an object end after so many bytes of it; 0: none.
func (s *Store) Cut(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = bytes
}

// Names are those of its objects, in order.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Change changes an object.
func (s *Store) Change(name string, change func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[name] = change(s.objects[name])
}

// ServeHTTP implements http.Handler.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, object := strings.CutPrefix(r.URL.Path, "/"+Name+"/")
	if !object && strings.Trim(r.URL.Path, "/") != Name {
		fail(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	var lost http.ResponseWriter = w
	lose := s.before != nil && s.before(r)
	if lose {
		lost = httptest.NewRecorder()
	}
	switch {
	case r.Method == http.MethodHead:
	case name == "":
		s.list(lost, r.URL.Query().Get("prefix"))
	case r.Method == http.MethodGet:
		s.get(lost, r, name)
	case r.Method == http.MethodPut:
		s.put(lost, r, name)
	default:
		fail(lost, http.StatusNotImplemented, "NotImplemented")
	}
	if lose {
		panic(http.ErrAbortHandler)
	}
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}

func (s *Store) list(w http.ResponseWriter, prefix string) {
	type entry struct {
		Key  string
		ETag string
		Size int
	}
	var out struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []entry
	}
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(name, prefix) {
			out.Contents = append(out.Contents, entry{name, etag(s.objects[name]), len(s.objects[name])})
		}
	}
	_ = xml.NewEncoder(w).Encode(out) // to a reader that may have left
}

func etag(body []byte) string { return fmt.Sprintf(`"%x"`, md5.Sum(body)) } //nolint:gosec // as above

func (s *Store) get(w http.ResponseWriter, r *http.Request, name string) {
	body, ok := s.objects[name]
	if !ok {
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	from := 0
	if n, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); n != 1 || err != nil {
		from = 0
	}
	rest := body[from:]
	w.Header().Set("ETag", etag(body))
	w.Header().Set("Last-Modified", "Wed, 25 Nov 2026 00:00:00 GMT")
	w.Header().Set("Content-Length", strconv.Itoa(len(rest)))
	if from > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(body)-1, len(body)))
		w.WriteHeader(http.StatusPartialContent)
	}
	if s.cut > 0 && len(rest) > s.cut {
		_, _ = w.Write(rest[:s.cut]) // as above
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(rest) // as above
}

func (s *Store) put(w http.ResponseWriter, r *http.Request, name string) {
	body, err := io.ReadAll(r.Body)
	if err == nil && strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		body, err = unchunked(body)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "InvalidRequest")
		return
	}
	if _, taken := s.objects[name]; taken && r.Header.Get("If-None-Match") == "*" {
		fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	s.objects[name] = body
	w.Header().Set("ETag", etag(body))
}

// unchunked takes a body apart whose chunks are signed.
func unchunked(body []byte) (whole []byte, err error) {
	r := bufio.NewReader(bytes.NewReader(body))
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		digits, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(digits, 16, 32)
		if err != nil || n == 0 {
			return whole, err
		}
		chunk := make([]byte, n+2) // with its end of line
		if _, err := io.ReadFull(r, chunk); err != nil {
			return nil, err
		}
		whole = append(whole, chunk[:n]...)
	}
}
