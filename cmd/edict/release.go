package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/projector"
)

// compiledDir is where retectl compile leaves the tree in a repository.
var compiledDir = filepath.Join(".flor", "compiled")

// releaseFlags are those of release.
type releaseFlags struct {
	repo  string
	trust []string
	prune bool
	dry   bool
}

// releaseCommands release signed artifacts, and go back to earlier ones.
type releaseCommands struct{ *app }

func (a releaseCommands) releaseCommand() *cobra.Command {
	var f releaseFlags
	cmd := &cobra.Command{
		Use:   "release [TREE]",
		Short: "Give nodes the signed artifacts of a compiled repository",
		Long: `Put the artifacts that retectl compile signed into the log: those of a repository
(--repo), or of a compiled tree. A node of the rete is the node of that id here, and
may be of other retes of the project, too. Nodes that hold these artifacts already get
no message.

The first release of a rete pins whose signatures count for it (--trust): the
certificate of a signer, the trust.json of a bundle, or spiffe://ID=BASE64. From
then on the signers are those that the released agent artifacts authorize, so a
signer announces its successor itself.`,
		Example: `  edict release --repo . --trust certs/management-planes/primary.crt
  edict release --repo .`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.release(cmd, f, args) },
	}
	a.releaseClient(cmd)
	cmd.Flags().StringVar(&f.repo, "repo", "", "`directory` of the repository (default the current one)")
	cmd.Flags().StringArrayVar(&f.trust, "trust", nil, "pin a signer of a rete that has none: a certificate, trust.json or spiffe://ID=BASE64; may be repeated")
	cmd.Flags().BoolVar(&f.prune, "prune", false, "withdraw the artifacts of nodes of the rete that the tree does not have")
	dryRunFlag(cmd, &f.dry)
	cmd.AddCommand(a.releaseListCommand(), a.releaseGetCommand())
	return cmd
}

// releaseClient gives a command the flags of those who handle releases.
func (a releaseCommands) releaseClient(cmd *cobra.Command) *cobra.Command {
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	a.outputFlag(cmd)
	return cmd
}

func (a releaseCommands) release(cmd *cobra.Command, f releaseFlags, args []string) error {
	dir := filepath.Join(f.repo, compiledDir)
	if len(args) == 1 {
		if dir = args[0]; f.repo != "" {
			return cli.Usage(cmd, "--repo names a repository and TREE a compiled tree: give one")
		}
	}
	c, project, err := a.plane(cmd)
	if err != nil {
		return err
	}
	pins, err := readPins(f.trust)
	if err != nil {
		return err
	}
	nodes, err := readCompiled(dir)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if err := a.noteIdlePins(ctx, c, project, pins); err != nil {
		return err
	}
	lines := make([]resource.ReleaseLine, 0, len(nodes.Nodes))
	for _, node := range slices.Sorted(maps.Keys(nodes.Nodes)) {
		lines = append(lines, releaseLine(nodes, node, pins))
	}
	result, err := a.sendReleases(ctx, c, project, lines, dryCalls(f.dry)...)
	if err != nil {
		return err
	}
	if err := a.tellReleased(result, f.dry); err != nil {
		return err
	}
	absent, err := a.tellWaiting(ctx, c, project, nodes)
	if err == nil {
		err = a.withdrawAbsent(ctx, c, project, absent, f)
	}
	if err == nil && len(result.Rejected) > 0 {
		err = cli.Exit(cli.Differs)
	}
	return err
}

// readCompiled reads a compiled tree that has something in it.
func readCompiled(dir string) (*tree.Tree, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Failed(cli.Unreadable, "there is no compiled tree at %s: run retectl compile first, or name the tree", dir)
	}
	var t *tree.Tree
	err := tree.Steady(dir, func(fsys fs.FS) (err error) {
		t, err = tree.Read(fsys)
		return err
	})
	if err != nil {
		return nil, cli.Failed(cli.Unreadable, "%v", err)
	}
	if len(t.Nodes) == 0 {
		return nil, cli.Failed(cli.Unreadable, "%s holds no artifacts: run retectl compile first", dir)
	}
	return t, nil
}

func releaseLine(t *tree.Tree, node string, pins []resource.Signer) resource.ReleaseLine {
	l := resource.ReleaseLine{NodeID: node, Trust: pins}
	for _, f := range t.Nodes[node] {
		l.Artifacts = append(l.Artifacts, asCompiled(t.Bytes[f.Path]))
	}
	return l
}

// asCompiled is the text of an artifact with the ends of lines that compile writes. A
// checkout may have others; compile keeps such a file, since white space is not signed, and
// a string in JSON holds no bare end of a line.
func asCompiled(text []byte) string {
	return string(bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))) + "\n"
}

// sendReleases streams the lines, and shows how far it is.
func (a releaseCommands) sendReleases(ctx context.Context, c *client.Client, project uuid.UUID, lines []resource.ReleaseLine, calls ...client.Call) (resource.BatchResult, error) {
	bar := progress.Start(a.stderr, "releasing", "nodes", int64(len(lines)))
	defer bar.Stop()
	r, w := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		var err error
		for i := 0; i < len(lines) && err == nil; i++ {
			err = enc.Encode(lines[i])
			bar.Set(int64(i + 1))
		}
		_ = w.CloseWithError(err) // never fails
	}()
	result, err := c.Releases.Create(ctx, project, r, calls...)
	_ = r.Close() // the writer ends, whatever the answer was
	<-written
	return result, err
}

func (a releaseCommands) tellReleased(result resource.BatchResult, dry bool) error {
	for _, r := range result.Rejected {
		fmt.Fprintf(a.stderr, "node/%s: %s (%s)\n", r.ID, r.Detail, r.Code)
	}
	return a.print(result, func(w io.Writer) {
		fmt.Fprintf(w, "%s released, %d unchanged, %d refused%s\n", cli.Counted(result.Applied, "node"), result.Unchanged, len(result.Rejected), dryNote(dry))
	})
}

// retesOf are the retes that a tree is signed for: one, but for a tree that somebody
// put together.
func retesOf(t *tree.Tree) map[string]bool {
	retes := map[string]bool{}
	for _, files := range t.Nodes {
		for _, f := range files {
			if rete, ok := projector.ReteOf(f.Envelope.Signature.KeyID); ok {
				retes[rete] = true
			}
		}
	}
	return retes
}

// tellWaiting names the nodes of a tree that are not registered, and returns
// what was released for nodes of its retes that it does not have.
func (a releaseCommands) tellWaiting(ctx context.Context, c *client.Client, project uuid.UUID, t *tree.Tree) (absent []resource.Release, err error) {
	retes := retesOf(t)
	var all []resource.Release
	for r, err := range c.Releases.All(ctx, project) {
		if err != nil {
			return nil, err
		}
		if retes[r.Rete] { // a node may be of others, too
			all = append(all, r)
		}
	}
	var waiting []string
	for _, r := range all {
		switch here := t.Nodes[r.NodeID] != nil; {
		case here && !r.Registered:
			waiting = append(waiting, r.NodeID)
		case !here:
			absent = append(absent, r)
		}
	}
	if len(waiting) > 0 {
		fmt.Fprintf(a.stderr, "not registered yet; they get it once they are (edict node apply): %s\n", some(waiting))
	}
	return absent, nil
}

// some names a few of many.
func some(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// withdrawAbsent takes their artifacts from nodes that the tree does not have,
// or says that they keep them.
func (a releaseCommands) withdrawAbsent(ctx context.Context, c *client.Client, project uuid.UUID, absent []resource.Release, f releaseFlags) error {
	if len(absent) == 0 {
		return nil
	}
	names := make([]string, len(absent))
	for i, r := range absent {
		names[i] = r.NodeID
		if !f.prune {
			continue
		}
		for _, x := range r.Artifacts {
			if err := c.Releases.WithdrawOf(ctx, project, r.Rete, r.NodeID, x.Kind, x.Name, dryCalls(f.dry)...); err != nil {
				return err
			}
		}
	}
	if f.prune {
		fmt.Fprintf(a.stderr, "withdrawn from nodes that the tree does not have: %s%s\n", some(names), dryNote(f.dry))
	} else {
		fmt.Fprintf(a.stderr, "the tree does not have these nodes of the rete, which keep what they hold (--prune withdraws it): %s\n", some(names))
	}
	return nil
}

func (a releaseCommands) releaseListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List what was released, by node", Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			all, err := collect(c.Releases.All(cmd.Context(), project))
			if err != nil {
				return err
			}
			return printList(&a.console, releaseListing, all)
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	a.listFlags(cmd, releaseListing.headers)
	return cmd
}

var releaseListing = listing[resource.Release]{
	kind: "release", name: func(r resource.Release) string { return r.NodeID },
	columns: []column[resource.Release]{
		{"node", func(r resource.Release) string { return r.NodeID }, false},
		{"rete", func(r resource.Release) string { return r.Rete }, false},
		{"version", func(r resource.Release) string { return fmt.Sprint(r.Version) }, false},
		{"artifacts", func(r resource.Release) string { return fmt.Sprint(len(r.Artifacts)) }, false},
		{"registered", func(r resource.Release) string {
			if r.Registered {
				return "yes"
			}
			return "no"
		}, false},
		{"released", func(r resource.Release) string { return stamp(r.ReleasedAt) }, false},
	},
}

func (a releaseCommands) releaseGetCommand() *cobra.Command {
	var version uint64
	var rete string
	cmd := &cobra.Command{
		Use: "get NODE", Short: "Show a node's artifacts, now or at an older version", Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			all, err := c.Releases.GetOf(cmd.Context(), project, rete, args[0], version)
			if err != nil {
				return err
			}
			return a.print(all, func(w io.Writer) {
				for _, x := range all {
					fmt.Fprint(w, x.Document)
				}
			})
		},
	}
	a.releaseClient(cmd)
	cmd.Flags().StringVar(&rete, "rete", "", "show the artifacts of this rete `name` alone, of a node of several; with --version and without this, those of its first")
	cmd.Flags().Uint64Var(&version, "version", 0, "the newest release whose version is at most this (default what the node holds)")
	return cmd
}
