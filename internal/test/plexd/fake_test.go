package plexd

import (
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	node  = "0190a1b2-0000-7000-8000-000000000001"
	keyID = "did:web:plexsphere.com#key-2026-01"
)

// signer is the plane's key: the one of this seed.
var signer = ed25519.NewKeyFromSeed([]byte("an agent's tests sign with this."))

func public() ed25519.PublicKey { return signer.Public().(ed25519.PublicKey) }

// asked is one request that a fake plane got.
type asked struct {
	method, path string
	header       http.Header
	body         string
}

// fake is a plane as the description has it, as far as a test sets it up.
type fake struct {
	t   *testing.T
	url string

	mu        sync.Mutex
	asked     []asked
	state     string
	heartbeat string
	register  string
	// stream answers the n-th request for events, from 0; it returns to end the
	// stream.
	stream func(n int, w http.ResponseWriter, r *http.Request)
	opened int
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, state: stateWith("null"), heartbeat: `{"accepted_at":"2026-11-20T12:00:00Z","reconcile":false,"rotate_keys":false}`}
	server := httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

func stateWith(policy string) string {
	return `{"peers":[],"reachability":null,"policy":` + policy + `,"bridge":null,"state":null,"reports":null,"executions":[],"sessions":null}`
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	text, _ := io.ReadAll(body)
	f.mu.Lock()
	f.asked = append(f.asked, asked{r.Method, r.URL.Path, r.Header.Clone(), string(text)})
	state, beat, register, stream, n := f.state, f.heartbeat, f.register, f.stream, f.opened
	if r.URL.Path == "/v1/nodes/"+node+"/events" {
		f.opened++
	}
	f.mu.Unlock()
	switch r.URL.Path {
	case "/v1/register":
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, register)
	case "/v1/nodes/" + node + "/state":
		fmt.Fprint(w, state)
	case "/v1/nodes/" + node + "/heartbeat":
		fmt.Fprint(w, beat)
	case "/v1/nodes/" + node + "/events":
		if stream == nil {
			opens(w)
			<-r.Context().Done()
			return
		}
		stream(n, w, r)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// opens begins a stream.
func opens(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
}

// says opens a stream, sends text and keeps it open.
func says(text string) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, r *http.Request) {
		opens(w)
		fmt.Fprint(w, text)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// to lists the requests of a path.
func (f *fake) to(path string) (list []asked) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asked {
		if a.path == path || a.path == "/v1/nodes/"+node+"/"+path {
			list = append(list, a)
		}
	}
	return list
}

// lives starts an agent and ends it with the test.
func (f *fake) lives(opt Options) *Agent {
	f.t.Helper()
	opt.Base = func() string { return f.url }
	opt.Terse = true
	if opt.Identity == nil && opt.DataDir == "" && opt.Registration.Token == "" {
		opt.Identity = &Identity{NodeID: node, Bearer: "secret", SigningKeyID: keyID, SigningPublicKey: public()}
	}
	a, err := New(opt)
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		require.NoError(f.t, <-done)
	})
	return a
}

func (f *fake) await(a *Agent, wanted func(Counters) bool) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(f.t, a.Await(ctx, wanted), "%+v", a.Counters())
}

// sealed is an envelope of either dialect, signed now or at another time.
func sealed(d Dialect, kind, payload string, at time.Time, nonce string) string {
	var head string
	when, _ := json.Marshal(at.UTC())
	if d == Current {
		head = fmt.Sprintf(`{"id":"e1","type":%q,"scope":"node:%s","key_id":%q,"issued_at":%s,"payload":%s`, kind, node, keyID, when, payload)
	} else {
		head = fmt.Sprintf(`{"event_type":%q,"event_id":"e1","issued_at":%s,"nonce":%q,"payload":%s`, kind, when, nonce, payload)
	}
	return head + `,"signature":"` + signature(head+"}") + `"}`
}

func signature(signed string) string {
	return base64.StdEncoding.EncodeToString(ed25519.Sign(signer, []byte(signed)))
}

// framed is an event of a stream.
func framed(id, data string) string { return "id: " + id + "\nevent: x\ndata: " + data + "\n\n" }
