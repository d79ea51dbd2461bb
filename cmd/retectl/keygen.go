package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/retectl/internal/authority"
	"github.com/edictdev/edict/internal/compiler/rete"
)

func (a *app) keygenCommand() *cobra.Command {
	var p principal
	var keyFile, csrFile, name string
	cmd := &cobra.Command{
		Use: "keygen", Short: "Make a private key and a request for its certificate", Args: cli.Args(0, 0),
		Long: `Make an ed25519 key in a file that only you may read, and a certificate request
for it, which retectl ca sign turns into a certificate. The key stays where it is
made; the request is sent to the CA.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Required(cmd, "out-key", "out-csr"); err != nil {
				return err
			}
			if err := outside(a.repo, keyFile); err != nil {
				return err
			}
			name, err := a.reteName(name)
			if err != nil {
				return err
			}
			id, err := p.id(cmd, name)
			if err != nil {
				return err
			}
			key, err := newKey(keyFile)
			if err != nil {
				return err
			}
			csr, err := authority.Request(key, id)
			if err == nil {
				err = authority.WriteNew(csrFile, csr)
			}
			if err != nil { // nobody has the key yet, and the next run makes its own under that name
				return errors.Join(err, os.Remove(keyFile))
			}
			_, err = fmt.Fprintln(a.stdout, id)
			return err
		},
	}
	a.repoFlag(cmd)
	p.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&name, "rete", "", "`name` of the rete (default: that of the repository)")
	f.StringVar(&keyFile, "out-key", "", "`file` of the new key")
	f.StringVar(&csrFile, "out-csr", "", "`file` of the request")
	return cmd
}

// reteName is the given name of a rete, or that of the repository.
func (a *app) reteName(given string) (string, error) {
	if given != "" {
		name, err := rete.ParseReteName(given)
		if err != nil {
			return "", cli.Failed(cli.BadUsage, "--rete: %v", err)
		}
		return string(name), nil
	}
	r, err := a.open()
	if err != nil {
		return "", err
	}
	defer r.close()
	view, err := a.named(r)
	if err != nil {
		return "", err
	}
	return string(view.Rete.Value.Name), nil
}

// newKey makes a key file, and never replaces one.
func newKey(path string) (*artifact.Signer, error) {
	key, err := artifact.CreateSigner(path)
	if errors.Is(err, fs.ErrExist) {
		return nil, cli.Failed(cli.Differs, "%s exists already; a key is never replaced, name another file", path)
	}
	return key, err
}
