package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/retectl/internal/authority"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// principal is whom a key or a certificate is for: the flags of keygen and ca
// sign.
type principal struct{ kind, name, scope string }

func (p *principal) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.kind, "kind", "", "kind of principal: "+strings.Join(authority.Kinds, ", "))
	f.StringVar(&p.name, "name", "", "name of the principal")
	f.StringVar(&p.scope, "scope", "", "the `node` of a service with scope: node, or of a vertex")
}

// id is the SPIFFE ID that the flags mean.
func (p *principal) id(cmd *cobra.Command, name string) (string, error) {
	if err := cli.Required(cmd, "kind", "name"); err != nil {
		return "", err
	}
	scoped := slices.Contains([]string{rete.PrincipalService, rete.PrincipalVertex}, p.kind)
	switch {
	case !slices.Contains(authority.Kinds, p.kind):
		return "", cli.Usage(cmd, "--kind %q: want one of %s", p.kind, strings.Join(authority.Kinds, ", "))
	case p.scope != "" && !scoped:
		return "", cli.Usage(cmd, "--scope is for services and vertices; a %s has none", p.kind)
	case p.scope == "" && p.kind == rete.PrincipalVertex:
		return "", cli.Usage(cmd, "a vertex is named with its node: give --scope NODE")
	}
	for _, flag := range []struct{ name, value string }{{"name", p.name}, {"scope", p.scope}} {
		if bad := rete.BadName(flag.value); bad != "" && (flag.value != "" || flag.name == "name") {
			return "", cli.Usage(cmd, "--%s %q %s", flag.name, flag.value, bad)
		}
	}
	if p.scope != "" {
		return rete.SPIFFE(name, p.kind, p.scope, p.name), nil
	}
	return rete.SPIFFE(name, p.kind, p.name), nil
}
