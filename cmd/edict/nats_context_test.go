package main

import (
	"os/user"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/leftout"
)

// The nats command line keeps its contexts in the home that the account has, whatever HOME says.
func TestNATSContextsAreWhereNATSKeepsThem(t *testing.T) {
	account, err := user.Current()
	if err != nil || account.HomeDir == "" {
		leftout.Test(t, "who runs this has no home: %v", err)
	}
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", t.TempDir())
	_, err = readNATSContext("nowhere-at-all")
	require.ErrorContains(t, err, "no context \"nowhere-at-all\" (looked at "+account.HomeDir+"/.config/nats/context/nowhere-at-all.json)")
}
