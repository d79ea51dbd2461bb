package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/tree"
)

func (a *app) verifyCommand() *cobra.Command {
	var trustFile, repo string
	cmd := &cobra.Command{
		Use: "verify DIR", Short: "Check the artifacts of a compiled tree or an install root, offline", Args: cli.Args(1, 1),
		Long: `Check every artifact below DIR, a compiled tree or the install root of one node:
signature, place, payload, and that the artifacts of a node are one set of one
version. Whom to trust is the pin of --trust, or the signers of the repository of
--repo, else what is in DIR: the signers that the node accepted since
(accepted.json), or its first pin (trust.json).`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := hasArtifacts(args[0]); err != nil {
				return err
			}
			p, err := a.pinOf(cmd, args[0], trustFile, repo)
			if err != nil {
				return err
			}
			return a.verify(args[0], p)
		},
	}
	cmd.Flags().StringVar(&repo, "repo", "", "`directory` of the repository whose signers are trusted")
	cmd.Flags().StringVar(&trustFile, "trust", "", "`file` of a trust pin, as retectl bundle writes it")
	return cmd
}

// pinOf finds whom to trust.
func (a *app) pinOf(cmd *cobra.Command, dir, trustFile, repo string) (artifact.Pin, error) {
	beside := filepath.Join(dir, tree.PinFile)
	switch {
	case trustFile != "" && repo != "":
		return artifact.Pin{}, cli.Usage(cmd, "--trust and --repo both say whom to trust; give one")
	case trustFile != "":
		return readPin(trustFile)
	case repo != "":
		a.repo = repo
		r, err := a.open()
		if err != nil {
			return artifact.Pin{}, err
		}
		defer r.close()
		m, err := a.judged(r)
		if err != nil {
			return artifact.Pin{}, err
		}
		return pin(m, ""), nil
	}
	if _, err := os.Stat(beside); errors.Is(err, fs.ErrNotExist) {
		return artifact.Pin{}, cli.Usage(cmd, "nothing says whom to trust: %s is not there; give --trust FILE or --repo DIR", beside)
	}
	return installed(dir)
}

// readPin reads a trust pin.
func readPin(trustFile string) (artifact.Pin, error) {
	text, err := readGiven(trustFile)
	if err != nil {
		return artifact.Pin{}, err
	}
	p, err := artifact.ParsePin(text)
	if err != nil {
		return p, cli.Failed(cli.Unreadable, "%s: %v", trustFile, err)
	}
	return p, nil
}

func (a *app) verify(dir string, p artifact.Pin) error {
	trusted, err := p.Trust()
	if err != nil {
		return err
	}
	var n int
	var faults []tree.Fault
	err = tree.Steady(dir, func(fsys fs.FS) error {
		n, faults = tree.Verify(treeIn(fsys, p.Node), trusted)
		return nil
	})
	if err != nil {
		return cli.Failed(cli.Unreadable, "%v", err)
	}
	for _, f := range faults {
		fmt.Fprintln(a.stderr, cli.Escaped(fmt.Sprintf("%s: %v", filepath.Join(dir, f.Path), f.Err), ""))
	}
	if len(faults) > 0 {
		return cli.Exit(cli.Differs)
	}
	_, err = fmt.Fprintf(a.stdout, "ok: %d artifacts\n", n)
	return err
}

// installed is whom the node of an install root trusts now: its first pin, or
// those who took over since.
func installed(dir string) (artifact.Pin, error) {
	p, err := readPin(filepath.Join(dir, tree.PinFile))
	if err != nil {
		return p, err
	}
	s, err := artifact.OpenStore(tree.Disk{}, filepath.Join(dir, tree.AcceptedFile), p)
	if err != nil {
		return p, cli.Failed(cli.Unreadable, "%v", err)
	}
	p.Signers = s.Signers()
	return p, nil
}

// hasArtifacts reports a place where none can be: no directory, or an install root
// as retectl bundle makes it.
func hasArtifacts(dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return cli.Failed(cli.Unreadable, "%s is no directory that can be read", dir)
	}
	if exists(filepath.Join(dir, tree.PinFile)) && !exists(filepath.Join(dir, "mgmt")) {
		return cli.Failed(cli.Differs, "%s is an install root that has no artifacts yet: edict agent installs what was released for the node", dir)
	}
	return nil
}

// treeIn is the tree at root. An install root is seen as a tree of its node.
func treeIn(root fs.FS, node string) fs.FS {
	if _, err := fs.Stat(root, "mgmt/agent.json"); err != nil {
		return root
	}
	return tree.InstallRoot(root, node)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
