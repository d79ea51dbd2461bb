package test

import (
	"go/ast"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRoutesAreRegisteredInOnePlace: a mux cannot be asked what it serves, so
// what is served is what is described because the table of api.Routes is the
// only thing that is ever registered.
func TestRoutesAreRegisteredInOnePlace(t *testing.T) {
	var places []string
	for _, s := range house(t) {
		if s.test() || s.room == "test" || s.room == "docs" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Handle", "HandleFunc"}, sel.Sel.Name) {
					places = append(places, s.path)
				}
			}
			return true
		})
	}
	require.Equal(t, []string{"internal/api/dispatch.go"}, slices.DeleteFunc(places, notThePlanes), "add a row to api.Routes instead, so that it is described")
}

// notThePlanes: the controller of Kubernetes and an agent have probes and metrics of their
// own, and no API.
func notThePlanes(path string) bool {
	return slices.Contains([]string{"cmd/edict-controller/app.go", "cmd/edict/agent_metrics.go"}, path)
}
