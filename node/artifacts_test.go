package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

const toldVertex = `{"node_id":"n1","kind":"vertex","name":"flor","version":4,"fingerprint":"","document":"{}"}`

func TestAnArtifactIsToldUnderOneNameOverBothTransports(t *testing.T) {
	env := artifact.Envelope{Plane: artifact.PlanePolicy, Kind: "vertex", Name: "flor", Node: "n1", Version: 9, Payload: json.RawMessage(toldVertex)}
	e, name, err := decodeEnvelope(self, 7, env)
	require.NoError(t, err)
	require.Equal(t, TypeArtifactUpdated, e.Type)
	require.Nil(t, e.Policy)
	require.Equal(t, "artifact.vertex.flor", name)

	other := env
	other.Payload = json.RawMessage(`{"node_id":"n2","kind":"vertex","name":"flor"}`)
	_, _, err = decodeEnvelope(self, 7, other)
	require.ErrorContains(t, err, "n2")
	other.Payload = json.RawMessage(`{"node_id":"n1","kind":"agent","name":"agent"}`)
	_, _, err = decodeEnvelope(self, 7, other)
	require.ErrorContains(t, err, "its payload is about agent agent")
}

func TestAnArtifactOfAFurtherReteIsAnother(t *testing.T) {
	payload := json.RawMessage(`{"node_id":"n1","kind":"vertex","name":"flor","rete":"demo.example","version":4,"fingerprint":"","document":"{}"}`)
	env := artifact.Envelope{Plane: artifact.PlanePolicy, Kind: "vertex", Name: "flor.demo.example", Node: "n1", Version: 9, Payload: payload}
	_, name, err := decodeEnvelope(self, 7, env)
	require.NoError(t, err)
	require.Equal(t, "artifact.vertex.flor.demo.example", name)
	for _, wrong := range []string{"flor", "flor.demo", "flor.other.example"} {
		env.Name = wrong
		_, _, err = decodeEnvelope(self, 7, env)
		require.ErrorContains(t, err, "flor.demo.example", wrong)
	}
	r, err := decodeReleased(self, payload)
	require.NoError(t, err)
	require.False(t, covers(Artifacts{Items: []Artifact{{Kind: "vertex", Name: "flor", Version: 9}}}, r), "it is the first rete's")
	require.True(t, covers(Artifacts{Items: []Artifact{{Kind: "vertex", Name: "flor", Version: 1}, {Kind: "vertex", Name: "flor", Rete: "demo.example", Version: 4}}}, r))
}

// held is a plane that holds artifacts at a version, and announces 4.
func held(t *testing.T, version func(pull int64) int, answer func(w http.ResponseWriter)) string {
	t.Helper()
	p, _ := newPlane(t)
	var pulls atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/keys", p.keys)
	mux.HandleFunc("GET /v1/nodes/n1/artifacts", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Edict-Event-Id", "1")
		if n := pulls.Add(1); answer == nil {
			fmt.Fprintf(w, `{"items":[{"kind":"vertex","name":"flor","version":%d,"fingerprint":"","document":"{}"}]}`, version(n))
		} else {
			answer(w)
		}
	})
	mux.HandleFunc("GET /v1/nodes/n1/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ":hello\n\n")
		if r.Header.Get("Last-Event-ID") == "1" {
			n := artifact.Notice{ID: "n1.flor.2", Type: TypeArtifactUpdated, Scope: "node:n1", IssuedAt: time.Now(), Payload: json.RawMessage(toldVertex)}
			fmt.Fprintf(w, "id: 2\nevent: x\ndata: %s\n\n", p.sign(n))
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// takes follows until n sets were taken, and returns the versions.
func takes(t *testing.T, url string, n int, fail func(taken int) error) (versions []uint64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	taken := 0
	require.NoError(t, FollowArtifacts(ctx, url, self, Options{MinWait: time.Millisecond, MaxWait: time.Millisecond}, func(set Artifacts) error {
		taken++
		if fail != nil && fail(taken) != nil {
			return fail(taken)
		}
		versions = append(versions, set.Items[0].Version)
		if len(versions) == n {
			cancel()
		}
		return nil
	}))
	return versions
}

func TestTheSetIsTakenAtFirstAndWhenItIsSaidToHaveChanged(t *testing.T) {
	url := held(t, func(pull int64) int { return 2 + 2*int(min(pull-1, 1)) }, nil)
	require.Equal(t, []uint64{2, 4}, takes(t, url, 2, nil))
}

func TestASetIsTakenWhenItIsSaidOverNATSToHaveChanged(t *testing.T) {
	p := newNATSPlane(t)
	mux := http.NewServeMux()
	var pulls atomic.Int64
	mux.HandleFunc("GET /v1/keys", p.keys)
	mux.HandleFunc("GET /v1/nodes/n1/artifacts", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Edict-Event-Id", origin.String())
		fmt.Fprintf(w, `{"items":[{"kind":"vertex","name":"flor","version":%d,"fingerprint":"","document":"{}"}]}`, 2+2*min(pulls.Add(1)-1, 1))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var versions []uint64
	var why error
	opt := Options{NATS: p.server.ClientURL(), MinWait: time.Millisecond, MaxWait: time.Millisecond, AskEvery: time.Hour}
	opt.Trouble = func(err error, _ time.Duration) { why = err; cancel() }
	opt.Connected = func() {
		p.set(func() {
			p.head++
			p.tellAs(wire.PrefixNode+"n1.artifact.vertex.flor", p.headers(p.next(0), p.prev), p.sealed(p.signer, artifact.Envelope{
				Kind: "vertex", Name: "flor", Node: "n1", Version: p.head, Payload: json.RawMessage(toldVertex),
			}))
		})
	}
	require.NoError(t, FollowArtifacts(ctx, server.URL, self, opt, func(set Artifacts) error {
		if versions = append(versions, set.Items[0].Version); len(versions) == 2 {
			cancel()
		}
		return nil
	}))
	require.NoError(t, why)
	require.Equal(t, []uint64{2, 4}, versions)
}

// A set that could not be taken is taken again over NATS, too, where nothing else happens.
func TestASetThatCouldNotBeTakenIsTakenAgainOverNATS(t *testing.T) {
	p := newNATSPlane(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/keys", p.keys)
	mux.HandleFunc("GET /v1/nodes/n1/artifacts", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Edict-Event-Id", origin.String())
		fmt.Fprint(w, `{"items":[{"kind":"vertex","name":"flor","version":4,"fingerprint":"","document":"{}"}]}`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	opt := Options{NATS: p.server.ClientURL(), MinWait: time.Millisecond, MaxWait: time.Millisecond, AskEvery: time.Hour}
	opt.Connected = sync.OnceFunc(func() {
		p.set(func() {
			p.head++
			p.artifact = &nats.Msg{Header: p.headers(p.next(0), p.prev), Data: p.sealed(p.signer, artifact.Envelope{
				Kind: "vertex", Name: "flor", Node: "n1", Version: p.head, Payload: json.RawMessage(toldVertex),
			})}
			p.tellAs(wire.PrefixNode+"n1.artifact.vertex.flor", p.artifact.Header, p.artifact.Data)
		})
	})
	taken := 0
	require.NoError(t, FollowArtifacts(ctx, server.URL, self, opt, func(Artifacts) error {
		switch taken++; taken {
		case 2, 3: // live, and in the answer that follows
			return errors.New("no room on the disk")
		case 4:
			cancel()
		}
		return nil
	}))
	require.Equal(t, 4, taken)
}

// With NATS alone there is nowhere to pull a set from.
func TestASetIsPulledFromAServer(t *testing.T) {
	p := newNATSPlane(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	trust := artifact.NewTrustSet()
	require.NoError(t, trust.Add(artifact.PlanePolicy, p.signer.KeyID(), p.signer.PublicKey(), time.Time{}))
	opt := Options{NATS: p.server.ClientURL(), Trust: trust, AskEvery: time.Hour, Connected: cancel}
	err := FollowArtifacts(ctx, "", self, opt, func(Artifacts) error { return nil })
	require.ErrorContains(t, err, "name a server")
}

func TestASetOlderThanWhatWasAnnouncedIsAskedForAgain(t *testing.T) {
	url := held(t, func(pull int64) int {
		if pull > 3 { // the first, and twice from a server that is behind
			return 4
		}
		return 2
	}, nil)
	require.Equal(t, []uint64{2, 4}, takes(t, url, 2, nil))
}

// answers is a transport that answers itself.
type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// TestAServerThatIsBehindHasTimeToCatchUp: what it was asked for is asked again after 10 ms at
// least, and each time after twice as long, up to the last.
func TestAServerThatIsBehindHasTimeToCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		f := NewFollower("http://plane", self, Options{HTTP: &http.Client{Transport: answers(func(*http.Request) *http.Response {
			at = append(at, time.Now())
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Edict-Event-Id": {"1"}}, Body: io.NopCloser(strings.NewReader(`{"items":[]}`))}
		})}})
		f.hint = &wire.ArtifactUpdated{Kind: "vertex", Name: "flor", Version: 4}
		_, err := f.pullArtifacts(t.Context())
		require.NoError(t, err)
		require.Len(t, at, hintTries)
		for i, least := 1, 10*time.Millisecond; i < len(at); i, least = i+1, 2*least {
			require.GreaterOrEqual(t, at[i].Sub(at[i-1]), least, "pull %d", i+1)
			require.LessOrEqual(t, at[i].Sub(at[i-1]), 2*least, "pull %d", i+1)
		}
		require.Equal(t, at[len(at)-1], time.Now(), "nothing is waited for after the last")
	})
}

func TestASetThatCouldNotBeTakenIsTakenAgain(t *testing.T) {
	url := held(t, func(int64) int { return 4 }, nil)
	fail := func(taken int) error {
		if taken == 1 || taken == 3 {
			return errors.New("no room on the disk")
		}
		return nil
	}
	require.Equal(t, []uint64{4, 4}, takes(t, url, 2, fail))
}

func TestAnAnswerThatIsNoSetIsTold(t *testing.T) {
	for text, says := range map[string]string{`{"items":[`: "unexpected end", `{"items":3}`: "cannot unmarshal"} {
		url := held(t, nil, func(w http.ResponseWriter) { fmt.Fprint(w, text) })
		ctx, cancel := context.WithCancel(t.Context())
		var why error
		opt := Options{MinWait: time.Millisecond, MaxWait: time.Millisecond, Trouble: func(err error, _ time.Duration) { why = err; cancel() }}
		require.NoError(t, FollowArtifacts(ctx, url, self, opt, func(Artifacts) error { t.Error("taken"); return nil }))
		require.ErrorContains(t, why, says)
	}
}

// TestASetIsTakenAtFirstByWhoGoesOn: a state file, or a place to begin after, holds no artifacts.
func TestASetIsTakenAtFirstByWhoGoesOn(t *testing.T) {
	url := held(t, func(int64) int { return 4 }, nil)
	from := policy.EventID(1)
	kept := Options{State: filepath.Join(t.TempDir(), "state.json")}
	for i, opt := range []Options{kept, kept, {From: &from}} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		takes := 0
		opt.Connected = cancel // the stream is opened after the first set
		require.NoError(t, FollowArtifacts(ctx, url, self, opt, func(set Artifacts) error {
			takes++
			require.Equal(t, uint64(4), set.Items[0].Version)
			return nil
		}))
		require.Equal(t, 1, takes, "follower %d", i)
	}
}

// TestAStateFileIsOfPoliciesOrOfArtifacts: the one has no rows, and written in the place of the other it would have a
// node apply none.
func TestAStateFileIsOfPoliciesOrOfArtifacts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p, url := newPlane(t)
	p.add(msg{5, web, rulesA})
	opt := hasty(0)
	opt.State = filepath.Join(t.TempDir(), "policies.json")
	require.Len(t, follow(t, NewFollower(url, self, opt), 1), 1)
	before, err := os.ReadFile(opt.State)
	require.NoError(t, err)
	holder := held(t, func(int64) int { return 4 }, nil)
	refused := func(err error, path string) {
		t.Helper()
		var file *StateFileError
		require.ErrorAs(t, err, &file)
		require.Equal(t, path, file.Path)
		require.ErrorContains(t, file, "name another file")
	}
	refused(FollowArtifacts(ctx, holder, self, opt, func(Artifacts) error { t.Error("taken"); return nil }), opt.State)
	after, err := os.ReadFile(opt.State)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))

	opt.State = filepath.Join(t.TempDir(), "artifacts.json")
	first, stop := context.WithCancel(ctx)
	defer stop()
	opt.Connected = stop
	require.NoError(t, FollowArtifacts(first, holder, self, opt, func(Artifacts) error { return nil }))
	refused(NewFollower(url, self, opt).Run(ctx, func(Event) error { return nil }), opt.State)
}

// TestWhatTakeSaysOfAnotherServerIsNoAnswerOfThePlane: a set is taken again after any error of the caller's.
func TestWhatTakeSaysOfAnotherServerIsNoAnswerOfThePlane(t *testing.T) {
	for _, err := range []error{&StatusError{Status: http.StatusNotFound}, &AddressError{"x", "y"}, &StateFileError{"x", io.EOF}} {
		require.Equal(t, []uint64{4}, takes(t, held(t, func(int64) int { return 4 }, nil), 1, func(taken int) error {
			if taken == 1 {
				return fmt.Errorf("the caller's: %w", err)
			}
			return nil
		}))
	}
}
