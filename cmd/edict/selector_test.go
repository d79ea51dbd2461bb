package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

func TestASelectorMayBeWrittenAsForKubectl(t *testing.T) {
	for written, want := range map[string]string{
		"role==web,env = prod":                "role=web,env=prod",
		"role notin (web, app),!canary":       "role!=web,role!=app,!canary",
		"example.org/role notin(web)":         "example.org/role!=web",
		"role in (web,app),env notin ( dev )": "role in (app,web),env!=dev",
		"notin in (a)":                        "notin in (a)",
		"role notin ()":                       "role!=",
	} {
		e, err := policy.ParseExpr(selectorOf(written))
		require.Empty(t, err, written)
		require.Equal(t, want, e.String())
	}
	require.Empty(t, selectorOf(""))
}
