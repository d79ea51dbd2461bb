package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/retectl/internal/authority"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// template is the repository that init writes.
//
//go:embed template/*.yaml
var template embed.FS

// The rete's name as the template has it.
const templateName = "RETE-NAME"

func (a *app) initCommand() *cobra.Command {
	var name, keys string
	cmd := &cobra.Command{
		Use: "init DIR", Short: "Begin a repository: a small one that validates, compiles and signs", Args: cli.Args(1, 1),
		Long: `Write a small repository to DIR, with a CA, a signer, and a certificate for every
principal in it, and compile it. The private keys go to a directory beside it,
which is no part of the repository: keep it on the operator's machine.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := filepath.Clean(args[0])
			if keys == "" {
				var err error
				if keys, err = keysBeside(dir); err != nil {
					return err
				}
			}
			if err := notBelow(dir, keys); err != nil {
				return err
			}
			for _, d := range []string{dir, keys} {
				if left, err := os.ReadDir(d); !errors.Is(err, fs.ErrNotExist) && (err != nil || len(left) > 0) {
					return cli.Failed(cli.Differs, "%s exists already and is not empty; name a new directory", d)
				}
			}
			if _, err := rete.ParseReteName(name); err != nil {
				return cli.Usage(cmd, "--rete: %v", err)
			}
			undo := remember(dir, keys)
			err := a.begin(cmd.Context(), dir, keys, name)
			if err != nil {
				err = errors.Join(err, undo())
			}
			return err
		},
	}
	cmd.Flags().StringVar(&name, "rete", "demo-rete", "`name` of the rete, its SPIFFE trust domain")
	cmd.Flags().StringVar(&keys, "keys", "", "`directory` for private keys (default DIR-keys)")
	return cmd
}

// keysBeside is the directory for keys beside dir, which may be the one one is in.
func keysBeside(dir string) (string, error) {
	if base := filepath.Base(dir); base == "." || base == ".." {
		var err error
		if dir, err = filepath.Abs(dir); err != nil {
			return "", err
		}
	}
	return dir + "-keys", nil
}

// remember returns what removes all that comes into empty or missing directories
// from now on.
func remember(dirs ...string) (undo func() error) {
	there := map[string]bool{}
	for _, d := range dirs {
		_, err := os.Stat(d)
		there[d] = err == nil
	}
	return func() (err error) {
		for _, d := range dirs {
			if !there[d] {
				err = errors.Join(err, os.RemoveAll(d))
				continue
			}
			entries, failed := os.ReadDir(d)
			err = errors.Join(err, failed)
			for _, e := range entries {
				err = errors.Join(err, os.RemoveAll(filepath.Join(d, e.Name())))
			}
		}
		return err
	}
}

func (a *app) begin(ctx context.Context, dir, keys, name string) error {
	if err := writeTemplate(dir, name); err != nil {
		return err
	}
	if err := os.MkdirAll(keys, 0o700); err != nil {
		return err
	}
	a.repo = dir
	r, err := a.open()
	if err != nil {
		return err
	}
	defer r.close()
	view, err := a.named(r)
	if err != nil {
		return err
	}
	if err := a.enrollAll(r, view, keys); err != nil {
		return err
	}
	signer := view.Rete.Value.Signers.Mgmt.Keys[0].Name
	err = a.compile(ctx, r, compileOptions{key: filepath.Join(keys, signer+".key"), versioning: tree.Versioning{Asked: 1}}, time.Time{})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stderr, `
Next:
  edit the files in %[1]s, then
  retectl validate --repo %[1]s
  retectl compile --repo %[1]s --signing-key %[2]s
  retectl bundle laptop --repo %[1]s --keys %[3]s \
    --out %[4]s
`, dir, filepath.Join(keys, signer+".key"), keys, filepath.Join(filepath.Dir(dir), "laptop"))
	return err
}

func writeTemplate(dir, name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := fs.Sub(template, "template")
	if err != nil {
		return err
	}
	return fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		return authority.WriteNew(filepath.Join(dir, path), []byte(strings.ReplaceAll(string(text), templateName, name)))
	})
}

// enrollAll makes the CA, and key and certificate of everybody in the
// repository.
func (a *app) enrollAll(r *repository, view *rete.View, keys string) error {
	who, err := operator(view, "")
	if err != nil {
		return err
	}
	ca, err := a.makeCA(r, view, filepath.Join(keys, "ca.key"), who)
	if err != nil {
		return err
	}
	issue := func(h rete.Holder, certFile string) error {
		key, err := artifact.CreateSigner(filepath.Join(keys, h.Leaf+".key"))
		if err != nil {
			return err
		}
		cert, err := ca.Issue(key.Crypto().Public(), h.Kind, h.SPIFFE, daysOf(view, h.Kind), time.Now())
		if err != nil {
			return err
		}
		return a.issued(r, view, cert, who, h.SPIFFE, certFile)
	}
	for _, k := range view.Rete.Value.Signers.Mgmt.Keys {
		h := rete.Holder{Kind: rete.PrincipalMgmt, SPIFFE: rete.SPIFFE(string(view.Rete.Value.Name), rete.PrincipalMgmt, k.Name), Leaf: k.Name}
		if err := issue(h, filepath.Join(r.dir, filepath.FromSlash(string(k.Cert)))); err != nil {
			return err
		}
	}
	done := map[string]bool{}
	for _, n := range view.Nodes.All {
		for _, h := range view.Holders(n.Name) {
			if done[h.SPIFFE] {
				continue // a user of several nodes
			}
			done[h.SPIFFE] = true
			if err := issue(h, filepath.Join(keys, h.Leaf+".crt")); err != nil {
				return err
			}
		}
	}
	return nil
}
