package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/edict/demodata"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/issuer"
)

// TestTheConsoleOfAnOperatorInABrowser meets what views meet beside their subject: tabs that are hidden, a plane that
// does not answer, others who write at the same time. ui/test/operator.mjs has the steps.
func TestTheConsoleOfAnOperatorInABrowser(t *testing.T) {
	if !*consoleLong {
		return // make test-console has it
	}
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	browser := aBrowser(t, root)
	w := &shownWorld{process: guardedPlane(t, "--rate", "0"), issuer: issuer.New(t).ByName()}
	nodes := w.seedOperated()
	operator := strings.TrimSpace(w.ok("access", "token", "create", "operator"))
	w.ok("access", "grant", "operator", "project:"+defaultProject+"#operator")
	given := w.given(browser)
	given["first"], given["guestProject"] = nodes[0], guestProject
	w.drive(filepath.Join(root, "ui"), "test/operator.mjs", given, map[string]func(string) string{
		"rootlink":     func(string) string { return w.link(w.token) },
		"operatorlink": func(string) string { return w.link(operator) },
	})
}

// seedOperated has policies, more nodes than a page that all refuse them, a node of another project, and a key that
// another one follows.
func (w *shownWorld) seedOperated() (ids []string) {
	w.ok("policy", "apply", "-f", w.file("policies.yaml", demodata.Policies))
	var nodes bytes.Buffer
	for i := range 70 {
		id := fmt.Sprintf("db-%02d", i)
		ids = append(ids, id)
		require.NoError(w.t, json.NewEncoder(&nodes).Encode(map[string]any{
			"id": id, "labels": map[string]string{"env": "prod", "role": "db", "team": "shop", "only": id}, "addresses": []string{fmt.Sprintf("10.16.0.%d", i+1)},
		}))
	}
	w.ok("node", "import", "-f", w.file("nodes.ndjson", nodes.Bytes()))
	w.reported(ids, func(int) bool { return true })
	w.policy = w.idOf("shop-app-to-db")
	w.do("PUT", "/v1/projects/"+guestProject+"/nodes/guest-1", json.RawMessage(`{"labels":{"role":"guest"},"addresses":["192.0.2.1"]}`), 201)
	require.Contains(w.t, strings.ToLower(w.ok("key", "rotate")), "key")
	return ids
}
