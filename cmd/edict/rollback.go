package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// rollbackFlags are those of rollback.
type rollbackFlags struct {
	to, version uint64
	key, of     string
	dry         bool
}

func (a releaseCommands) rollbackCommand() *cobra.Command {
	var f rollbackFlags
	cmd := &cobra.Command{
		Use:   "rollback --to VERSION --signing-key FILE [NODE...]",
		Short: "Release what nodes held at an older version, under a new one",
		Long: `Read from the log the artifacts that nodes held at a version, sign them under a new
version, and release that: of all nodes of the rete, or of those that are named.
Nodes never go back to a lower version, so older content needs a new one. The plane
holds no signer's key, so this command signs, with the key of a signer of the rete.
Nodes that still hold that content get no message.

The older artifacts must authorize the signers of now: a rollback does not bring
back a signer that was retired.`,
		Example: `  edict rollback --to 41 --signing-key primary.key
  edict rollback --to 41 --signing-key primary.key alpha`,
		Args: cli.Args(0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.to == 0 {
				return cli.Usage(cmd, "say which version to go back to: --to VERSION, as edict release list shows it")
			}
			if f.key == "" {
				return cli.Usage(cmd, "say who signs: --signing-key FILE")
			}
			return a.rollback(cmd, f, args)
		},
	}
	a.releaseClient(cmd)
	cmd.Flags().Uint64Var(&f.to, "to", 0, "the version whose content is released again")
	cmd.Flags().StringVar(&f.key, "signing-key", "", "`file` of the private key of a signer of the rete, PKCS#8 PEM")
	cmd.Flags().StringVar(&f.of, "rete", "", "the rete, by `name`; needed only if the key is that of a signer of several")
	cmd.Flags().Uint64Var(&f.version, "version", 0, "the new version (default 1 + the highest of the rete)")
	dryRunFlag(cmd, &f.dry)
	return cmd
}

// rollback is one under way.
type rollback struct {
	c       *client.Client
	project uuid.UUID
	rete    resource.Rete
	signer  *artifact.Signer
	rollbackFlags
	problems []string
}

func (a releaseCommands) rollback(cmd *cobra.Command, f rollbackFlags, nodes []string) error {
	signer, err := artifact.LoadSigner(f.key)
	if err != nil {
		return cli.Failed(cli.Unreadable, "%v", err)
	}
	c, project, err := a.plane(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	r := rollback{c: c, project: project, rollbackFlags: f}
	if err := r.findSigner(ctx, signer); err != nil {
		return err
	}
	held, err := r.nodes(ctx, nodes)
	if err != nil {
		return err
	}
	var lines []resource.ReleaseLine
	unchanged := 0
	for _, h := range held {
		docs, err := r.older(ctx, h)
		switch {
		case err != nil:
			return err
		case docs == nil:
			unchanged++
		default:
			lines = append(lines, resource.ReleaseLine{NodeID: h.NodeID, Artifacts: docs})
		}
	}
	for _, p := range r.problems {
		fmt.Fprintln(a.stderr, p)
	}
	unchanged -= len(r.problems)
	result := resource.BatchResult{Rejected: []resource.RejectedLine{}}
	if len(lines) > 0 {
		if result, err = a.sendReleases(ctx, c, project, lines, dryCalls(f.dry)...); err != nil {
			return err
		}
	}
	result.Unchanged += unchanged
	if err := a.tellReleased(result, f.dry); err != nil {
		return err
	}
	if result.Applied > 0 && !f.dry {
		fmt.Fprintf(a.stderr, "version %d holds the content of version %d; the repository does not know it: compile next with --version %d --renew\n", r.version, r.to, r.version+1)
	}
	if len(result.Rejected)+len(r.problems) > 0 {
		return cli.Exit(cli.Differs)
	}
	return nil
}

// findSigner finds for which rete, and under which name, a key signs.
func (r *rollback) findSigner(ctx context.Context, key *artifact.Signer) error {
	retes, err := r.c.Releases.Retes(ctx, r.project)
	if err != nil {
		return err
	}
	public := base64.StdEncoding.EncodeToString(key.PublicKey())
	var found []string
	for _, t := range retes {
		i := slices.IndexFunc(t.Signers, func(s resource.Signer) bool { return s.Key == public })
		if i >= 0 && (r.of == "" || r.of == t.Name) {
			r.rete, r.signer = t, key.As(t.Signers[i].SPIFFE)
			found = append(found, t.Name)
		}
	}
	switch {
	case len(found) > 1:
		return cli.Failed(cli.BadUsage, "%s is the key of a signer of several retes: say which with --rete, one of %s", r.key, some(found))
	case len(found) == 0 && r.of != "":
		return cli.Failed(cli.Differs, "%s is the key of no signer of rete %s in this project", r.key, r.of)
	case len(found) == 0:
		return cli.Failed(cli.Differs, "%s is the key of no signer of a rete of this project", r.key)
	}
	return nil
}

// nodes are those of the rete, or the named ones, and settles the new version.
func (r *rollback) nodes(ctx context.Context, named []string) (held []resource.Release, err error) {
	var highest uint64
	for h, err := range r.c.Releases.All(ctx, r.project) {
		if err != nil {
			return nil, err
		}
		if h.Rete != r.rete.Name {
			continue
		}
		highest = max(highest, h.Version)
		if len(named) == 0 || slices.Contains(named, h.NodeID) {
			held = append(held, h)
		}
	}
	if r.to > highest { // else every node would count as one that still holds it
		return nil, cli.Failed(cli.NotFound, "no node of rete %s holds version %d or a higher one: the highest is %d, as edict release list shows it", r.rete.Name, r.to, highest)
	}
	for _, n := range named {
		if !slices.ContainsFunc(held, func(h resource.Release) bool { return h.NodeID == n }) {
			return nil, cli.Failed(cli.NotFound, "node %s holds no artifacts of rete %s", n, r.rete.Name)
		}
	}
	if r.version == 0 {
		r.version = highest + 1
	}
	return held, nil
}

// older is what a node held, under the new version; nil when nothing is to be
// released, of which problems says why unless the node holds it already.
func (r *rollback) older(ctx context.Context, h resource.Release) ([]string, error) {
	if h.Version <= r.to {
		return nil, nil
	}
	then, err := r.c.Releases.GetOf(ctx, r.project, r.rete.Name, h.NodeID, r.to)
	var p *client.Problem
	if errors.As(err, &p) && p.Status == http.StatusNotFound {
		r.problem(h, "it held nothing at version %d, and keeps what it holds", r.to)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	now, err := r.c.Releases.GetOf(ctx, r.project, r.rete.Name, h.NodeID, 0)
	if err != nil {
		return nil, err
	}
	if same, err := sameContent(then, now); same || err != nil {
		return nil, err
	}
	docs := make([]string, len(then))
	for i, x := range then {
		e, err := artifact.Parse([]byte(x.Document))
		if err != nil {
			return nil, err
		}
		if x.Kind == rete.ArtifactAgent && !r.sameSigners(e.Payload) {
			r.problem(h, "at version %d other signers were authorized than now: compile the older sources with today's signers instead", r.to)
			return nil, nil
		}
		e.Version = r.version
		doc, err := r.signer.SealDocument(e)
		if err != nil {
			return nil, err
		}
		docs[i] = string(doc)
	}
	return docs, nil
}

func (r *rollback) problem(h resource.Release, format string, args ...any) {
	r.problems = append(r.problems, "node/"+h.NodeID+": "+fmt.Sprintf(format, args...))
}

// sameSigners reports whether an agent artifact authorizes whom the rete trusts
// now.
func (r *rollback) sameSigners(payload []byte) bool {
	signers, err := projector.AuthorizedSigners(payload)
	return err == nil && slices.EqualFunc(signers, r.rete.Signers, func(a policy.TrustedSigner, b resource.Signer) bool {
		return a.SPIFFE == b.SPIFFE && base64.StdEncoding.EncodeToString(a.Key) == b.Key
	})
}

// sameContent reports whether two sets say the same, whatever their versions.
func sameContent(a, b []resource.Artifact) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		x, err := content(a[i])
		if err != nil {
			return false, err
		}
		y, err := content(b[i])
		if err != nil || a[i].Kind != b[i].Kind || a[i].Name != b[i].Name || !bytes.Equal(x, y) {
			return false, err
		}
	}
	return true, nil
}

func content(x resource.Artifact) ([]byte, error) {
	e, err := artifact.Parse([]byte(x.Document))
	if err != nil {
		return nil, err
	}
	return artifact.Canonical(e.Payload)
}
