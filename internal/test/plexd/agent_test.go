package plexd

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func replaced(t *testing.T, text, from, to string) string {
	t.Helper()
	require.Contains(t, text, from)
	return strings.Replace(text, from, to, 1)
}

// brisk are the times of tests that wait for pauses to end.
var brisk = Periods{BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond}

func TestAnAgentRegistersInItsDialect(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for d, c := range map[Dialect]struct {
		members       []string
		authorization string
		bearer        string
	}{
		Current: {
			[]string{`"bootstrap_token":"psb_x_y_node_z"`, `"project_id":"p"`, `"resource_handle":"web-1"`, `"nonce":"`, `"public_key":"`},
			"",
			// 16 bytes of the id and 32 of the secret, without padding.
			"nsk_plexd_AZChsgAAcACAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		},
		Legacy: {[]string{`"token":"psb_x_y_node_z"`, `"hostname":"web-1"`, `"public_key":"`}, "Bearer psb_x_y_node_z", "as it was given"},
	} {
		t.Run(string(d), func(t *testing.T) {
			f := newFake(t)
			f.register = fmt.Sprintf(`{"node_id":%q,"mesh_ip":"10.99.0.2","signing_public_key":%q,"signing_key_id":%q,"nsk":%q,"node_secret_key":"as it was given","peer_snapshot":[],"peers":[]}`,
				node, base64.StdEncoding.EncodeToString(public()), keyID, secret)
			dir := t.TempDir()
			a := f.lives(Options{Dialect: d, DataDir: dir, Registration: Registration{Token: "psb_x_y_node_z", Project: "p", Resource: "web-1", Hostname: "web-1"}})
			f.await(a, func(c Counters) bool { return c.Connects() == 1 && c.Pulls > 0 && c.Heartbeats == 1 })
			require.Equal(t, 1, a.Counters().Registrations)
			asked := f.to("/v1/register")[0]
			for _, m := range c.members {
				require.Contains(t, asked.body, m)
			}
			require.Equal(t, c.authorization, asked.header.Get("Authorization"))
			for _, path := range []string{"events", "state", "heartbeat"} {
				require.Equal(t, "Bearer "+c.bearer, f.to(path)[0].header.Get("Authorization"), path)
			}
			for _, name := range []string{"identity.json", "private_key", "node_secret_key", "signing_public_key"} {
				info, err := os.Stat(filepath.Join(dir, name))
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), info.Mode())
			}
			again := f.lives(Options{Dialect: d, DataDir: dir})
			f.await(again, func(c Counters) bool { return c.Connects() == 1 })
			require.Len(t, f.to("/v1/register"), 1, "who is known does not register")
			require.Equal(t, a.Identity(), again.Identity())
		})
	}
}

func TestARegistrationThatCannotBeUsedIsAnError(t *testing.T) {
	for name, answer := range map[string]string{
		"a key of DER":        `{"node_id":"` + node + `","signing_public_key":"MCowBQYDK2VwAyEA","nsk":"AAAA"}`,
		"an id that is no id": `{"node_id":"web-1","signing_public_key":"` + base64.StdEncoding.EncodeToString(public()) + `","nsk":"` + strings.Repeat("A", 43) + `="}`,
		"a short secret":      `{"node_id":"` + node + `","signing_public_key":"` + base64.StdEncoding.EncodeToString(public()) + `","nsk":"AAAA"}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.register = answer
			a, err := New(Options{Base: func() string { return f.url }, Registration: Registration{Token: "t"}})
			require.NoError(t, err)
			require.Error(t, a.Run(t.Context()))
		})
	}
}

// The stream is cut by the agent's own timeout, and comes back at once with the
// place where it was, as often as it takes.
func TestAnAgentCutsItsOwnStreamAndResumes(t *testing.T) {
	f := newFake(t)
	f.stream = func(n int, w http.ResponseWriter, r *http.Request) {
		says(framed(fmt.Sprint(100+n), sealed(Current, "policy_updated", `{}`, time.Now(), "")))(n, w, r)
	}
	a := f.lives(Options{Periods: Periods{Stream: 30 * time.Millisecond}})
	f.await(a, func(c Counters) bool { return c.Connects() >= 3 })
	c := a.Counters()
	require.Zero(t, c.Refused(), "%+v", c)
	require.GreaterOrEqual(t, c.OwnCuts, 2)
	streams := f.to("events")
	require.Empty(t, streams[0].header.Values("Last-Event-ID"), "an agent that has just begun knows no place")
	require.Equal(t, "100", streams[1].header.Get("Last-Event-ID"))
	require.Equal(t, "101", streams[2].header.Get("Last-Event-ID"))
}

// A line of 64 KiB ends a stream that comes back at once, for ever; the same
// event in shorter lines comes through.
func TestALongLineTrapsAnAgentAndShortOnesDoNot(t *testing.T) {
	long := `{"rules":["` + strings.Repeat("a", 60_000) + `","` + strings.Repeat("b", 60_000) + `"]}`
	event := sealed(Current, "policy_updated", long, time.Now(), "")

	f := newFake(t)
	f.stream = says(framed("7", event))
	a := f.lives(Options{})
	f.await(a, func(c Counters) bool { return c.LongLines >= 20 })
	require.Zero(t, a.Counters().Dispatched)
	require.Empty(t, f.to("events")[10].header.Values("Last-Event-ID"), "it learns no place")

	f = newFake(t)
	f.stream = says(framed("7", strings.Replace(event, `","bbb`, "\",\ndata: \"bbb", 1)))
	a = f.lives(Options{})
	f.await(a, func(c Counters) bool { return c.Dispatched == 1 })
	require.Equal(t, 1, a.Counters().Connects())
	require.Zero(t, a.Counters().Refused())
}

func TestHowAStreamIsRead(t *testing.T) {
	event := sealed(Current, "policy_updated", `{}`, time.Now(), "")
	for name, c := range map[string]struct {
		text   string
		good   int
		cursor string
	}{
		"comments and retry mean nothing":        {":keep-alive\n\nretry: 1\n\n" + framed("7", event), 1, "7"},
		"lines may end as in mail":               {strings.ReplaceAll(framed("7", event), "\n", "\r\n"), 1, "7"},
		"an id without data is forgotten":        {framed("7", event) + "id: 8\n\n", 1, "7"},
		"data without an id keep the place":      {framed("7", event) + "data: " + event + "\n\n", 2, "7"},
		"a bad event moves the place":            {framed("7", event) + framed("8", "{}"), 1, "8"},
		"a forged one, too":                      {framed("7", event) + framed("8", replaced(t, event, `{}`, `[]`)), 1, "8"},
		"a frame that is not finished is nobody": {framed("7", event) + "id: 8\ndata: " + event + "\n", 1, "7"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.stream = func(n int, w http.ResponseWriter, r *http.Request) {
				if n > 0 {
					says("")(n, w, r)
					return
				}
				opens(w)
				fmt.Fprint(w, c.text)
			}
			a := f.lives(Options{})
			f.await(a, func(c Counters) bool { return c.Connects() == 2 })
			require.Equal(t, c.good, a.Counters().Dispatched)
			require.Equal(t, c.cursor, f.to("events")[1].header.Get("Last-Event-ID"))
		})
	}
}

// What each status makes of an agent. Answers come in turn, the last one again
// and again.
func TestWhatAStatusMeans(t *testing.T) {
	type answer struct {
		status int
		code   string
	}
	const unprovisioned = "signed_event_bus_not_provisioned"
	for name, c := range map[string]struct {
		dialect Dialect
		answers []answer
		mode    Mode
		tries   int // at least
	}{
		"401 ends the stream for good":             {Current, []answer{{401, ""}}, Deaf, 1},
		"403, too":                                 {Current, []answer{{403, ""}}, Deaf, 1},
		"404, too":                                 {Legacy, []answer{{404, ""}}, Deaf, 1},
		"400 is tried again":                       {Current, []answer{{400, ""}, {400, ""}, {200, ""}}, Streaming, 3},
		"503 is tried again":                       {Legacy, []answer{{503, ""}, {503, ""}, {200, ""}}, Streaming, 3},
		"429 without a time is tried again":        {Current, []answer{{429, ""}, {200, ""}}, Streaming, 2},
		"501 of a plane without streams ends them": {Current, []answer{{501, unprovisioned}}, PullOnly, 1},
		"and is a fault to the legacy dialect":     {Legacy, []answer{{501, unprovisioned}, {200, ""}}, Streaming, 2},
		"501 of another kind is a fault":           {Current, []answer{{501, "x"}, {200, ""}}, Streaming, 2},
		"faults that last make it poll":            {Current, []answer{{503, ""}}, Polling, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.stream = func(n int, w http.ResponseWriter, r *http.Request) {
				a := c.answers[min(n, len(c.answers)-1)]
				if a.status == 200 {
					says("")(n, w, r)
					return
				}
				w.WriteHeader(a.status)
				fmt.Fprintf(w, `{"code":%q}`, a.code)
			}
			p := brisk
			if c.mode == Polling {
				p.Poll = time.Millisecond
			}
			a := f.lives(Options{Dialect: c.dialect, Periods: p})
			f.await(a, func(n Counters) bool {
				return n.Mode == c.mode && n.Attempts >= c.tries && (c.mode != Streaming || n.Connects() > 0)
			})
			pulls := a.Counters().Pulls
			a.pullSoon()
			f.await(a, func(n Counters) bool { return n.Pulls > pulls })
			if c.mode == Deaf || c.mode == PullOnly {
				require.Len(t, f.to("events"), 1, "it does not ask again")
			}
		})
	}
}

func TestAPlaceThatIsRefusedIsForgotten(t *testing.T) {
	for d, want := range map[Dialect][]string{Current: nil, Legacy: {"x"}} {
		f := newFake(t)
		f.stream = func(n int, w http.ResponseWriter, r *http.Request) {
			switch n {
			case 0:
				opens(w)
				fmt.Fprint(w, framed("x", "{}"))
			case 1:
				w.WriteHeader(http.StatusBadRequest)
			default:
				says("")(n, w, r)
			}
		}
		a := f.lives(Options{Dialect: d, Periods: brisk})
		f.await(a, func(c Counters) bool { return c.Connects() == 2 })
		require.Equal(t, want, f.to("events")[2].header.Values("Last-Event-ID"), d)
	}
}

func TestA429IsWaitedFor(t *testing.T) {
	f := newFake(t)
	f.stream = func(n int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	a := f.lives(Options{Periods: brisk})
	f.await(a, func(c Counters) bool { return c.Answers[429] == 1 && c.Heartbeats == 1 && c.Pulls >= 1 })
	require.Equal(t, 1, a.Counters().Attempts)
}

// A silent stream is a fault, after a while.
func TestASilentStreamIsBroken(t *testing.T) {
	f := newFake(t)
	p := brisk
	p.Idle = 20 * time.Millisecond
	a := f.lives(Options{Periods: p})
	f.await(a, func(c Counters) bool { return c.Idles >= 2 })
}

// Events, heartbeats and the clock make an agent pull; what is in place changes
// with the fingerprint and nothing else.
func TestWhatMakesAnAgentPullAndApply(t *testing.T) {
	const first = `{"revision_id":"r1","fingerprint":"f1","rules":[{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":80,"to":90}}]}`
	f := newFake(t)
	send := make(chan string)
	f.stream = func(_ int, w http.ResponseWriter, r *http.Request) {
		opens(w)
		for {
			select {
			case text := <-send:
				fmt.Fprint(w, text)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
	a := f.lives(Options{})
	f.await(a, func(c Counters) bool { return c.Pulls >= 2 }) // the first one, and that of the connection
	require.Equal(t, []string{"deny any 0.0.0.0/0 0.0.0.0/0"}, words(a), "nothing is allowed before somebody says so")
	step := func(state, kind string) {
		f.mu.Lock()
		f.state = stateWith(state)
		f.mu.Unlock()
		pulls := a.Counters().Pulls
		send <- framed("7", sealed(Current, kind, `{}`, time.Now(), ""))
		f.await(a, func(c Counters) bool { return c.Pulls > pulls })
	}
	step(first, "policy_updated")
	want := []string{"allow tcp 10.0.0.0/8 10.1.0.0/16 80-90", "deny any 0.0.0.0/0 0.0.0.0/0"}
	require.Equal(t, want, words(a))
	step(replaced(t, first, `"from":80`, `"from":1`), "node_state_updated")
	require.Equal(t, want, words(a), "the same fingerprint is the same policy")
	step(replaced(t, first, `f1`, `f2`), "peer_registered")
	require.Equal(t, 2, a.Counters().Applied)
	step(replaced(t, replaced(t, first, `f1`, `f3`), `10.0.0.0/8`, `2001:db8::/32`), "policy_updated")
	require.Equal(t, want, words(a), "a set that cannot be translated leaves what is there")
	require.Equal(t, 1, a.Counters().Rejected)
	step(replaced(t, replaced(t, first, `f1`, `f3`), `10.0.0.0/8`, `2001:db8::/32`), "policy_updated")
	require.Equal(t, 2, a.Counters().Rejected, "and is tried again")
	step(`null`, "policy_updated")
	require.Equal(t, want[1:], words(a))
	step(`{"revision_id":"r","fingerprint":"","rules":[]}`, "policy_updated")
	applied := a.Counters().Applied
	step(`{"revision_id":"r","fingerprint":"","rules":[]}`, "policy_updated")
	require.Equal(t, applied+1, a.Counters().Applied, "without a fingerprint everything is new")
	f.await(a, func(c Counters) bool { return c.Reports >= 4 })
	require.JSONEq(t, `{"value":"f1"}`, f.to("state/reports/policy")[0].body)
	pulls := a.Counters().Pulls
	send <- framed("8", sealed(Current, "weather_changed", `{}`, time.Now(), ""))
	f.await(a, func(c Counters) bool { return c.Unknown == 1 })
	require.Equal(t, pulls, a.Counters().Pulls)
}

func words(a *Agent) (list []string) {
	for _, r := range a.Applied().Ruleset {
		list = append(list, r.String())
	}
	return list
}

// The legacy agent as it is installed hears of policies and does nothing; its
// heartbeats make it pull, and it reports what it found.
func TestALegacyAgentPullsWhenItsHeartbeatSaysSo(t *testing.T) {
	f := newFake(t)
	f.stream = says(framed("7", sealed(Legacy, "policy_updated", `{}`, time.Now(), "1")))
	a := f.lives(Options{Dialect: Legacy})
	f.await(a, func(c Counters) bool { return c.Dispatched == 1 && c.Pulls == 1 && c.Heartbeats == 1 })
	require.Empty(t, f.to("drift"), "nothing was different")
	require.Contains(t, f.to("heartbeat")[0].body, `"timestamp":"0001-01-01T00:00:00Z"`)

	f = newFake(t)
	f.heartbeat = `{"reconcile":true}`
	f.state = stateWith(`{"revision_id":"r1","fingerprint":"f1","rules":[]}`)
	a = f.lives(Options{Dialect: Legacy, Periods: Periods{Heartbeat: 5 * time.Millisecond}})
	f.await(a, func(c Counters) bool { return c.Hints >= 2 && c.Pulls >= 3 && c.Reports == 1 })
	require.Contains(t, f.to("drift")[0].body, `"type":"policy_added"`)
}

func TestLargeBodiesAreCompressed(t *testing.T) {
	f := newFake(t)
	a := f.lives(Options{})
	f.await(a, func(c Counters) bool { return c.Heartbeats == 1 })
	a.report(t.Context(), http.MethodPost, "metrics", observations("metrics", time.Now()))
	a.report(t.Context(), http.MethodPut, "capabilities", map[string]string{"x": strings.Repeat("x", 2000)})
	require.Equal(t, "gzip", f.to("metrics")[0].header.Get("Content-Encoding"))
	require.True(t, strings.HasPrefix(f.to("metrics")[0].body, `[{"data":`))
	require.Empty(t, f.to("capabilities")[0].header.Get("Content-Encoding"), "the current dialect compresses what is ingested alone")
	require.Empty(t, f.to("heartbeat")[0].header.Get("Content-Encoding"), "what is small is not")
}

func TestADeniedHeartbeatReadsTheCredentialsAgain(t *testing.T) {
	f := newFake(t)
	dir := t.TempDir()
	id := Identity{NodeID: node, Bearer: "old", SigningKeyID: keyID, SigningPublicKey: public(), PrivateKey: make([]byte, 32)}
	require.NoError(t, id.save(dir))
	a := f.lives(Options{DataDir: dir})
	f.await(a, func(c Counters) bool { return c.Heartbeats == 1 })
	id.Bearer = "new"
	require.NoError(t, id.save(dir))
	require.Equal(t, "old", a.Identity().Bearer)
	a.reload()
	require.Equal(t, "new", a.Identity().Bearer)
}
