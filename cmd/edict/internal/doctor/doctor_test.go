package doctor

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/test/greeter"
)

// fake is a plane that says what a test has it say.
type fake struct {
	self   resource.Self
	denied int // status of whatever needs credentials; 0: allowed
	checks []resource.Check
	status resource.Status
	date   time.Time // zero: now
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.date.IsZero() {
		w.Header().Set("Date", f.date.UTC().Format(http.TimeFormat))
	}
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch {
	case r.URL.Path == "/livez":
	case r.URL.Path == "/readyz" && slices.ContainsFunc(f.checks, func(c resource.Check) bool { return c.Status == "failed" }):
		p := resource.NewProblem(http.StatusServiceUnavailable, "not_ready", "not ready")
		p.Checks = f.checks
		w.WriteHeader(p.Status)
		answer(p)
	case r.URL.Path == "/readyz":
		answer(resource.Readiness{Status: "ready", Checks: append([]resource.Check{}, f.checks...)})
	case r.URL.Path == "/metrics":
		_, _ = w.Write([]byte("# HELP edict_build_info x\nedict_build_info{goversion=\"go1\",version=\"v2\"} 1\n"))
	case f.denied > 0:
		w.WriteHeader(f.denied)
		answer(resource.NewProblem(f.denied, "unauthenticated", "who are you"))
	case r.URL.Path == "/v1/access/self":
		answer(f.self)
	case r.URL.Path == "/v1/status":
		answer(f.status)
	}
}

// patient is a plane behind a server, as its client sees it.
func patient(t *testing.T, server *httptest.Server) Patient {
	t.Helper()
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	web := server.Client()
	if web == nil {
		web = http.DefaultClient
	}
	c, err := client.New(server.URL, client.Options{HTTP: web, Patience: -1})
	require.NoError(t, err)
	return Patient{Client: c, HTTP: web, Server: u, Version: "v2"}
}

func serve(t *testing.T, f *fake) Patient {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return patient(t, server)
}

// of is the finding of a check.
func of(t *testing.T, all []Finding, check string) Finding {
	t.Helper()
	for _, f := range all {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("no finding of %s in %v", check, all)
	return Finding{}
}

func TestAHealthyPlaneHasNoFindings(t *testing.T) {
	all := Examine(t.Context(), serve(t, &fake{status: resource.Status{Durability: "strict", Convergence: &resource.Convergence{}}}))
	require.Equal(t, OK, Worst(all), "%v", all)
	for _, f := range all {
		require.Equal(t, OK, f.State, "%v", f)
		require.Empty(t, f.Next)
	}
}

func TestEachFindingSaysWhatToTypeNext(t *testing.T) {
	soon, room := 3.0*24*3600, uint64(1<<30)
	for name, c := range map[string]struct {
		plane fake
		check string
		state string
		next  string
	}{
		"who one is":          {fake{denied: http.StatusUnauthorized}, "credentials", Failed, "--token-file"},
		"what is not asked":   {fake{denied: http.StatusUnauthorized}, "plane", Skipped, ""},
		"what one may":        {fake{denied: http.StatusForbidden}, "status", Skipped, "edict access can-i read plane"},
		"a log that may lose": {fake{checks: []resource.Check{{Name: "settings", Status: "info", Detail: "max_age is 1h"}}}, "readiness", Warning, "nats stream edit EDICT_LOG"},
		"a server that is away": {
			fake{checks: []resource.Check{{Name: "replicas", Status: "info", Detail: "n2 cannot be heard"}, {Name: "durability", Status: "info", Detail: "strict"}}},
			"readiness", Warning, "nats stream info EDICT_LOG",
		},
		"a worker not ready":  {fake{checks: []resource.Check{{Name: "storage", Status: "failed", Detail: "full"}}}, "readiness", Failed, "df -h"},
		"a clock that is off": {fake{date: time.Now().Add(-time.Minute)}, "clock", Warning, "date -u"},
		"a clock ahead":       {fake{date: time.Now().Add(time.Minute)}, "clock", Warning, "date -u"},
		"a worker behind": {
			fake{status: resource.Status{Workers: []resource.Worker{{Name: "w1"}, {Name: "w2", Lag: 5000}}}},
			"workers", Warning, "edict worker describe w2 -w",
		},
		"two workers of one name": {
			fake{status: resource.Status{Workers: []resource.Worker{{Name: "w1"}, {Name: "w2", HTTP: "a:1"}, {Name: "w2", HTTP: "b:1"}}}},
			"workers", Warning, "--name",
		},
		"a worker that was killed and restarted": {
			fake{status: resource.Status{Workers: []resource.Worker{{Name: "w2"}, {Name: "w2", Started: time.Now()}}}},
			"workers", Skipped, "edict doctor",
		},
		"a partition of nobody":   {fake{status: resource.Status{Partitions: []resource.Partition{{ID: 1}}}}, "publishing", Failed, "edict worker list"},
		"a log without room":      {fake{status: resource.Status{Log: resource.LogStatus{RoomBytes: new(uint64)}}}, "disk", Failed, "df -h"},
		"a log that fills":        {fake{status: resource.Status{Log: resource.LogStatus{RoomBytes: &room, FullInSeconds: &soon}}}, "disk", Warning, "edict log compact"},
		"a disk that is trusted":  {fake{status: resource.Status{Durability: "relaxed"}}, "durability", Warning, "--durability strict"},
		"a disk that nobody sees": {fake{status: resource.Status{Durability: "unknown"}}, "durability", Skipped, ""},
		"events refused":          {fake{status: resource.Status{Rejected: 2}}, "rejected", OK, "edict status --rejected"},
		"a project over":          {fake{status: resource.Status{Shares: resource.Shares{Over: 1}}}, "projects", Warning, "edict project list"},
		"nodes that refuse": {
			fake{status: resource.Status{Convergence: &resource.Convergence{Desired: 2, NotApplied: resource.NotApplied{Refused: 1}}}},
			"nodes", Warning, "--state refused",
		},
		"nodes that never said anything": {
			fake{status: resource.Status{Convergence: &resource.Convergence{Desired: 2}}},
			"nodes", Skipped, "--state silent",
		},
		"nodes that lag": {
			fake{status: resource.Status{Convergence: &resource.Convergence{Desired: 2, Reported: 2, Applied: 1}}},
			"nodes", Warning, "--state lagging,silent",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := of(t, Examine(t.Context(), serve(t, &c.plane)), c.check)
			require.Equal(t, c.state, f.State, "%v", f)
			require.Contains(t, f.Next, c.next)
		})
	}
}

// What nobody can judge is not called good, and says why.
func TestWhatIsNotJudgedSaysWhy(t *testing.T) {
	p := serve(t, &fake{status: resource.Status{Durability: "unknown", Convergence: &resource.Convergence{Desired: 2}}})
	all := Examine(t.Context(), p)
	require.Contains(t, of(t, all, "nodes").Detail, "no node has reported yet")
	require.Contains(t, of(t, all, "durability").Detail, "sync_interval of NATS servers elsewhere")
	require.Contains(t, of(t, all, "durability").Detail, "deploy/README.md")
	p = serve(t, &fake{status: resource.Status{Convergence: &resource.Convergence{Desired: 2, Applied: 2}}})
	require.Equal(t, OK, of(t, Examine(t.Context(), p), "nodes").State, "nothing is asked of them")
}

// A remedy asks the plane that was asked, as whoever asked: typed as it stands, it does no other.
func TestRemediesRepeatTheFlagsThatWereTyped(t *testing.T) {
	typed := []Flag{{"server", "https://plane:8443"}, {"ca", "it's mine.pem"}}
	p := serve(t, &fake{status: resource.Status{Workers: []resource.Worker{{Name: "w2", Lag: 5000}}, Rejected: 1}})
	require.Equal(t, "edict status --rejected", of(t, Examine(t.Context(), p), "rejected").Next)
	p.Typed = typed
	all := Examine(t.Context(), p)
	require.Equal(t, `edict status --rejected --server https://plane:8443 --ca 'it'\''s mine.pem'`, of(t, all, "rejected").Next)
	require.Contains(t, of(t, all, "workers").Next, "edict worker describe w2 -w --server https://plane:8443 ")

	server := httptest.NewTLSServer(&fake{})
	server.Config.ErrorLog = nil
	defer server.Close()
	p = patient(t, server)
	p.HTTP, p.Typed = &http.Client{}, typed
	require.Contains(t, of(t, Examine(t.Context(), p), "tls").Next, "edict doctor --server https://plane:8443 --ca FILE, ", "not the authority that was typed")
	p = serve(t, &fake{})
	p.Server.Scheme, p.Typed = "https", typed
	require.Contains(t, of(t, Examine(t.Context(), p), "tls").Next, "edict doctor --ca 'it'\\''s mine.pem' --server http://127")
}

// What the plane does not say to somebody it does not know is one finding, not one a question.
func TestWrongCredentialsAreOneFinding(t *testing.T) {
	failed := 0
	for _, f := range Examine(t.Context(), serve(t, &fake{denied: http.StatusUnauthorized})) {
		if f.State == Failed {
			failed++
		}
	}
	require.Equal(t, 1, failed)
}

// systemd is named where it may run the plane: here, or on another machine.
func TestSystemdIsNamedWhereItMayRun(t *testing.T) {
	p := serve(t, &fake{date: time.Now().Add(-time.Minute), checks: []resource.Check{{Name: "log", Status: "failed", Detail: "away"}}})
	require.NotContains(t, of(t, Examine(t.Context(), p), "readiness").Next, "systemctl")
	p.Systemd = true
	all := Examine(t.Context(), p)
	require.Contains(t, of(t, all, "readiness").Next, "systemctl status nats-server")
	require.Contains(t, of(t, all, "clock").Next, "timedatectl")
	p.Systemd, p.Server.Host = false, "plane.example:8080"
	require.Contains(t, p.remedy("nats"), "systemctl")
}

func TestAnotherReleaseIsAWarning(t *testing.T) {
	p := serve(t, &fake{})
	p.Version = "v1"
	require.Equal(t, Warning, of(t, Examine(t.Context(), p), "version").State)
}

func TestCertificatesAreLookedAt(t *testing.T) {
	server := httptest.NewTLSServer(&fake{})
	server.Config.ErrorLog = nil
	defer server.Close()
	p := patient(t, server)
	ends := server.Certificate().NotAfter
	require.Equal(t, OK, of(t, Examine(t.Context(), p), "tls").State)
	p.Now = func() time.Time { return ends.Add(-24 * time.Hour) }
	require.Equal(t, Warning, of(t, Examine(t.Context(), p), "tls").State, "it ends tomorrow")

	p = patient(t, server)
	p.HTTP = &http.Client{}
	f := of(t, Examine(t.Context(), p), "tls")
	require.Equal(t, Failed, f.State, "nobody knows who signed it")
	require.Contains(t, f.Next, "--ca")
}

func TestWhatDoesNotAnswerIsAskedNothing(t *testing.T) {
	server := httptest.NewServer(&fake{})
	p := patient(t, server)
	server.Close()
	all := Examine(t.Context(), p)
	require.Equal(t, Failed, of(t, all, "address").State)
	require.Equal(t, Skipped, of(t, all, "plane").State)
	require.Equal(t, Failed, Worst(all))
	require.NotContains(t, of(t, all, "address").Next, "systemctl", "none runs here")
	p.Systemd = true
	require.Contains(t, of(t, Examine(t.Context(), p), "address").Next, "systemctl status edict")

	plain := serve(t, &fake{})
	plain.Server.Scheme = "https"
	require.Contains(t, of(t, Examine(t.Context(), plain), "tls").Next, "--server http://")
}

// An address of the plane that is not the API's is named, as other commands name it.
func TestANATSServerIsNamed(t *testing.T) {
	for _, greeting := range []string{"INFO {\"server_id\":\"N\"} \r\n", "SSH-2.0-OpenSSH_9.2\r\n"} {
		server := &httptest.Server{URL: "http://" + greeter.Start(t, greeting), Config: new(http.Server)}
		f := of(t, Examine(t.Context(), patient(t, server)), "address")
		require.Equal(t, Failed, f.State)
		require.Equal(t, strings.HasPrefix(greeting, "INFO"), strings.Contains(f.Detail, "that is a NATS server"), "%v", f)
		require.Equal(t, strings.HasPrefix(greeting, "INFO"), strings.HasPrefix(f.Next, "edict doctor --server"), "%v", f)
	}
}

func TestATokenOfOthersIsAWarning(t *testing.T) {
	p := serve(t, &fake{})
	p.TokenFile = filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(p.TokenFile, []byte("edt_x"), 0o644)) //nolint:gosec // that is what is found
	f := of(t, Examine(t.Context(), p), "token")
	require.Equal(t, Warning, f.State)
	require.True(t, strings.HasPrefix(f.Next, "chmod 600 "))
	require.NoError(t, os.Chmod(p.TokenFile, 0o600))
	require.Equal(t, OK, of(t, Examine(t.Context(), p), "token").State)
}
