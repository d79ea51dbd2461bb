package client_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
)

func TestAPageOfSomethingBetweenIsNoDeletion(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		_, _ = w.Write([]byte("<html>sign in"))
	})
	var u *client.UnavailableError
	require.ErrorAs(t, s.Nodes.Delete(t.Context(), project, "n1"), &u)
	require.ErrorContains(t, u, "200 OK")
}

func TestNothingIsNoList(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.WriteHeader(http.StatusNoContent)
	})
	_, err := s.Projects.Get(t.Context(), project)
	var u *client.UnavailableError
	require.ErrorAs(t, err, &u)
	require.ErrorContains(t, u, "204 No Content")
}

func TestAPageOfSomethingBetweenIsNoTable(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		_, _ = w.Write([]byte("<html>sign in"))
	})
	_, err := s.Datapath.Table(t.Context(), "n1", client.TableQuery{})
	var u *client.UnavailableError
	require.ErrorAs(t, err, &u)
	require.ErrorContains(t, u, "no JSON")
}

// answering is a server that has one answer to everything, as what stands between may have.
func answering(t *testing.T, media, body string) *server {
	t.Helper()
	return newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", media)
		_, _ = w.Write([]byte(body))
	})
}

func TestAnAnswerWithoutWhatWasAskedForIsNone(t *testing.T) {
	for _, body := range []string{`{}`, `null`, `{"status":"fine"}`, `{"items":null,"peers":null}`, `[]`, `"ok"`, "ok"} {
		s := answering(t, "application/json", body)
		for name, ask := range map[string]func() error{
			"a list":   func() error { _, err := s.Policies.List(t.Context(), project, client.Page{}); return err },
			"all":      func() error { return over(s.Nodes.All(t.Context(), project, "")) },
			"items":    func() error { _, err := s.Keys.List(t.Context()); return err },
			"status":   func() error { _, err := s.Status(t.Context(), false); return err },
			"ready":    func() error { _, err := s.Ready(t.Context()); return err },
			"a node":   func() error { _, err := s.Nodes.Get(t.Context(), project, "n1"); return err },
			"a put":    func() error { _, _, err := s.Nodes.Put(t.Context(), project, "n1", resource.Facts{}); return err },
			"a batch":  func() error { _, err := s.Nodes.Import(t.Context(), project, strings.NewReader("{}")); return err },
			"a state":  func() error { _, err := s.Nodes.State(t.Context(), "n1", client.StateQuery{}); return err },
			"a table":  func() error { _, err := s.Datapath.Table(t.Context(), "n1", client.TableQuery{}); return err },
			"facts":    func() error { _, _, err := s.Facts(t.Context(), ""); return err },
			"numbers":  func() error { _, err := s.Nodes.Count(t.Context(), client.ReportQuery{}, "", 0); return err },
			"a stream": func() error { return over(s.Events(t.Context(), project, nil, 0)) },
			"samples":  func() error { return over(s.FleetEvents(t.Context())) },
			"decided":  func() error { _, err := s.Admission.DecisionEvents(t.Context(), nil, ""); return err },
			"frames":   func() error { _, err := s.Nodes.Events(t.Context(), "n1", ""); return err },
		} {
			var u *client.UnavailableError
			require.ErrorAs(t, ask(), &u, "%s: %s", name, body)
		}
	}
	s := answering(t, "application/json", `{"next_cursor":null}`)
	_, err := s.Projects.List(t.Context(), client.Page{})
	require.ErrorContains(t, err, `no "items"`)
	require.ErrorContains(t, err, "see what stands between")
}

func TestNoneOfSomethingIsAnAnswer(t *testing.T) {
	s := answering(t, "application/json", `{"items":[],"applied":0,"seq":0,"next_cursor":null}`)
	_, err := s.Policies.List(t.Context(), project, client.Page{})
	require.NoError(t, err)
	_, err = s.Nodes.Import(t.Context(), project, strings.NewReader(""))
	require.NoError(t, err)
	_, err = s.Nodes.Count(t.Context(), client.ReportQuery{}, "", 0)
	require.NoError(t, err)
	_, err = s.OpenSession(t.Context(), "code")
	require.NoError(t, err, "of a plane without sessions nothing is known")
}

func TestOnlyWhatWasAskedForMayBeNothing(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusNoContent) })
	var u *client.UnavailableError
	_, err := s.Datapath.Table(t.Context(), "n1", client.TableQuery{})
	require.ErrorAs(t, err, &u)
	table, err := s.Datapath.Table(t.Context(), "n1", client.TableQuery{Audit: true})
	require.NoError(t, err)
	require.True(t, table.None)
	_, err = s.Projects.Archive(t.Context(), project)
	require.ErrorAs(t, err, &u, "a change that nothing is said of was not made")
	_, err = s.Projects.Archive(t.Context(), project, client.DryRun)
	require.NoError(t, err, "it would be made")
	require.ErrorAs(t, s.Live(t.Context()), &u)
	require.NoError(t, s.Nodes.Delete(t.Context(), project, "n1"))
}

func TestAnAnswerThatIsCutIsNone(t *testing.T) {
	s := newServer(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.Header.Get("Accept") == "text/event-stream" {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		w.Header().Set("Content-Length", "4096")
		w.Header().Set("Edict-Log-Seq", "7")
		_, _ = w.Write([]byte(`{"kind":`))
	})
	var u *client.UnavailableError
	require.ErrorAs(t, over(s.Events(t.Context(), project, nil, 0)), &u)
	require.ErrorAs(t, over(s.FleetEvents(t.Context())), &u)
	_, err := s.Metrics(t.Context())
	require.ErrorAs(t, err, &u)
	half := newServer(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("event: log_event\ndata: {\"seq\":7,\"ti"))
	})
	require.ErrorAs(t, over(half.Events(t.Context(), project, nil, 0)), &u)
	require.ErrorAs(t, over(half.FleetEvents(t.Context())), &u)
}
