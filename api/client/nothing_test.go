package client_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
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
