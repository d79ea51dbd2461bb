//go:build !linux

package main

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/internal/agent"
)

// enforceFlags adds none: only Linux has nftables.
func (a agentCommands) enforceFlags(*cobra.Command, *agentFlags) {}

// enforcer is nil: there is no flag that would ask for one.
func (f agentFlags) enforcer(*cobra.Command, agent.Options, *client.Client, *http.Client) (enforcer, error) {
	return nil, nil
}
