package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/policy"
)

// bootstrapFlags are the flags of `access bootstrap`.
type bootstrapFlags struct {
	node, resource string
	expires        time.Duration
	labels         []string
	dry            bool
}

func (a accessCommands) bootstrapCommand() *cobra.Command {
	var f bootstrapFlags
	cmd := &cobra.Command{
		Use: "bootstrap", Short: "Make a one-time token with which a node's agent registers", Args: cli.Args(0, 0),
		Long: `Make a token with which one agent, once, registers as a node of the project, and
print it. It is printed only now: the plane gets its hash and nothing else. A node
that does not exist is made, with the labels given; without --node it gets a new id.

Give the token to the agent (PLEXD_BOOTSTRAP_TOKEN, or its token file). An unused
token is revoked with "edict access token revoke NODE TOKEN".`,
		Example: `  edict access bootstrap --label role=web > web-1.bootstrap
  edict access bootstrap --node 0190a1b2-0000-7000-8000-00000000000c --expires 10m > again.bootstrap`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.bootstrap(cmd, f) },
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.node, "node", "", "the node's `id`, a UUID (default a new one)")
	fl.StringVar(&f.resource, "resource", "", "resource `handle` that the agent must name (default any)")
	fl.DurationVar(&f.expires, "expires", time.Hour, "how long the token is good")
	fl.StringArrayVarP(&f.labels, "label", "l", nil, "label of a node that is made, key=value; may be repeated")
	dryRunFlag(cmd, &f.dry)
	return cmd
}

func (a accessCommands) bootstrap(cmd *cobra.Command, f bootstrapFlags) error {
	c, project, err := a.plane(cmd)
	if err != nil {
		return err
	}
	if f.expires <= 0 {
		return cli.Usage(cmd, "--expires %v: want a time that is not over", f.expires)
	}
	labels, err := labelsOf(cmd, f.labels)
	if err != nil {
		return err
	}
	node, err := nodeUUID(f.node)
	if err != nil {
		return cli.Usage(cmd, "%v", err)
	}
	tokenID, err := uuid.NewV7()
	if err != nil {
		return err
	}
	if err := a.makeNode(cmd.Context(), c, project, node, labels, dryCalls(f.dry)...); err != nil {
		return err
	}
	text, kept := access.NewBootstrap(project)
	_, err = changePrincipal(cmd, c, node, string(policy.Agent), func(d *resource.PrincipalDocument) error {
		if d.Kind != string(policy.Agent) {
			return cli.Failed(cli.Differs, "principal %s is a %s; the principal of a node must be a node", node, d.Kind)
		}
		if len(d.Bootstrap) >= bootstrapsKept {
			d.Bootstrap = slices.DeleteFunc(d.Bootstrap, ended)
		}
		d.Bootstrap = append(d.Bootstrap, resource.Bootstrap{
			ID: tokenID.String(), SHA256: hex.EncodeToString(kept.Hash[:]), Project: project.String(),
			Resource: f.resource, Expires: time.Now().Add(f.expires).UTC().Truncate(time.Second),
		})
		return nil
	}, dryCalls(f.dry)...)
	if err != nil {
		return err
	}
	if f.dry {
		return a.tellDry("node/"+node, "given a bootstrap token")
	}
	fmt.Fprintf(a.stderr, "edict: bootstrap token %s of node %s, good for %v; it is not shown again\n", tokenID, node, f.expires)
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}

// bootstrapsKept is how many tokens of a node are left in its list, so that who
// uses an old one hears what became of it.
const bootstrapsKept = 16

func ended(t resource.Bootstrap) bool { return t.State != "" || time.Now().After(t.Expires) }

// nodeUUID is the node's id. It must be a UUID, because agents carry it as 16
// bytes.
func nodeUUID(given string) (string, error) {
	if given == "" {
		id, err := uuid.NewV7()
		return id.String(), err
	}
	id, err := uuid.Parse(given)
	if err != nil || id.String() != given || id == uuid.Nil {
		return "", fmt.Errorf("--node %q: the id of a node whose agent registers is a UUID, in lower case", given)
	}
	return given, nil
}

// makeNode makes a node that is not there; one that is keeps what it is. Where
// operators have a listener of their own, nodes are made at the other.
func (a accessCommands) makeNode(ctx context.Context, c *client.Client, project uuid.UUID, node string, labels map[string]string, calls ...client.Call) error {
	_, err := c.Nodes.Get(ctx, project, node)
	var problem *client.Problem
	switch {
	case errors.As(err, &problem) && problem.Code == api.CodeNodeNotFound:
		_, _, err = c.Nodes.Put(ctx, project, node, resource.Facts{Labels: labels}, calls...)
		return err
	case errors.As(err, &problem) && problem.Code == api.CodeRouteNotFound && len(labels) > 0:
		return cli.Failed(cli.NotFound, "this address serves operators alone: run edict node apply %s at the other one, then this without --label", node)
	case errors.As(err, &problem) && problem.Code == api.CodeRouteNotFound:
		fmt.Fprintf(a.stderr, "edict: this address serves operators alone; the node must be there before its agent registers: edict node apply %s --project %s\n", node, project)
		return nil
	case err == nil && len(labels) > 0:
		return cli.Failed(cli.Conflict, "node %s exists; give it labels with edict node apply", node)
	}
	return err
}

// labelsOf reads key=value flags.
func labelsOf(cmd *cobra.Command, flags []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, l := range eachLabel(flags) {
		key, value, found := strings.Cut(l, "=")
		if _, twice := labels[key]; !found || twice {
			return nil, cli.Usage(cmd, "--label %q: want key=value, each key once", l)
		}
		labels[key] = value
	}
	return labels, nil
}

// eachLabel are the labels of flags that hold one or, as selectors do, several with commas
// between them: no key or value has one.
func eachLabel(flags []string) (labels []string) {
	for _, f := range flags {
		labels = append(labels, strings.Split(f, ",")...)
	}
	return labels
}
