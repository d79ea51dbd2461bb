package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
)

func TestALabelIsPutUponWhatOthersWroteMeanwhile(t *testing.T) {
	now := resource.Node{ID: "web-1", Labels: map[string]string{"env": "dev"}, Addresses: []string{"10.0.0.7"}, Version: 1}
	puts := 0
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			if puts++; puts == 1 { // somebody else comes first
				now.Labels["canary"], now.Version = "", 2
			}
			if r.Header.Get("If-Match") != fmt.Sprintf("%q", fmt.Sprint(now.Version)) {
				w.WriteHeader(http.StatusPreconditionFailed)
				_ = json.NewEncoder(w).Encode(resource.NewProblem(http.StatusPreconditionFailed, "precondition_failed", "no"))
				return
			}
			var facts resource.Facts
			_ = json.NewDecoder(r.Body).Decode(&facts)
			now.Labels, now.Addresses, now.Version = facts.Labels, facts.Addresses, now.Version+1
		}
		_ = json.NewEncoder(w).Encode(now)
	}))
	defer h.Close()
	c, err := client.New(h.URL, client.Options{HTTP: h.Client()})
	require.NoError(t, err)
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	prod := "prod"

	outcome, err := changeLabels(cmd, c, uuid.Nil, "web-1", labelChange{"env": &prod, "absent": nil})

	require.NoError(t, err)
	require.Equal(t, "labeled", outcome)
	require.Equal(t, map[string]string{"env": "prod", "canary": ""}, now.Labels, "what the other wrote stays")
	require.Equal(t, []string{"10.0.0.7"}, now.Addresses)
	require.Equal(t, 2, puts)
}
