package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/retectl/internal/authority"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// bundleOptions are the flags of bundle.
type bundleOptions struct{ node, out, keys, caKey, by string }

func (a *app) bundleCommand() *cobra.Command {
	var o bundleOptions
	cmd := &cobra.Command{
		Use: "bundle NODE", Short: "Put together what a node needs before it can accept artifacts", Args: cli.Args(1, 1),
		Long: `Write the install root of a node: the CA's certificate, certificate and key of the
node and of the users and services on it, and the node's first trust pin
(trust.json). They are taken from the directory of --keys; what is missing there
is made and issued when --ca-key is given.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Required(cmd, "out"); err != nil {
				return err
			}
			if o.keys == "" && o.caKey == "" {
				return cli.Usage(cmd, "give --keys, where keys and certificates are, or --ca-key, to make them, or both")
			}
			for _, place := range []string{o.out, o.keys} {
				if place == "" {
					continue
				}
				if err := outside(a.repo, place); err != nil {
					return err
				}
			}
			o.node = args[0]
			r, err := a.open()
			if err != nil {
				return err
			}
			defer r.close()
			return a.bundle(r, o)
		},
	}
	a.operatorFlag(cmd, &o.by)
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "`directory` to write, which must not exist")
	f.StringVar(&o.keys, "keys", "", "`directory` that has NAME.crt and NAME.key of principals")
	f.StringVar(&o.caKey, "ca-key", "", "`file` of the CA's private key")
	return cmd
}

func (a *app) bundle(r *repository, o bundleOptions) error {
	view, err := a.named(r)
	if err != nil {
		return err
	}
	if view.Nodes.Get(o.node) == nil {
		return cli.Failed(cli.Differs, "the repository has no node %q", o.node)
	}
	if _, err := os.Lstat(o.out); err == nil {
		return cli.Failed(cli.Differs, "%s exists already; name a new directory", o.out)
	}
	files, err := a.identities(r, view, o)
	if err != nil {
		return err
	}
	// With everybody enrolled the repository can be judged, and its signers
	// believed.
	m, err := a.judged(r)
	if err != nil {
		return err
	}
	if files["ca.crt"], err = rete.ReadFile(r.root.FS(), string(m.Rete.Value.CA.Cert), maxGiven); err != nil {
		return err
	}
	if files[tree.PinFile], err = pin(m, o.node).JSON(); err != nil {
		return err
	}
	if err := writeBundle(o.out, files); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s: %d files for node %s; they hold private keys, so carry them over a safe way\n", o.out, len(files), o.node)
	return err
}

// identities are certificate and key of every principal of the node, by file
// name.
func (a *app) identities(r *repository, view *rete.View, o bundleOptions) (map[string][]byte, error) {
	log, _ := rete.ReadEnrollments(r.root.FS()) // judged tells its faults
	files := map[string][]byte{}
	for _, h := range view.Holders(o.node) {
		cert, key, err := kept(o.keys, h)
		if errors.Is(err, fs.ErrNotExist) && o.caKey != "" {
			cert, key, err = a.enroll(r, view, h, o)
		} else if err == nil {
			err = fits(log, h, cert, key)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.SPIFFE, err)
		}
		files[h.Leaf+".crt"], files[h.Leaf+".key"] = cert, key
	}
	return files, nil
}

// kept reads what the directory of keys has of a principal.
func kept(dir string, h rete.Holder) (cert, key []byte, err error) {
	if dir == "" {
		return nil, nil, fs.ErrNotExist
	}
	path := filepath.Join(dir, h.Leaf)
	if cert, err = readGiven(path + ".crt"); err != nil {
		return nil, nil, err
	}
	s, err := artifact.LoadSigner(path + ".key")
	if err != nil {
		return nil, nil, err
	}
	key, err = s.PEM()
	return cert, key, err
}

// fits checks that certificate and key belong together, to the principal, and
// are enrolled.
func fits(log *rete.Enrollments, h rete.Holder, certPEM, keyPEM []byte) error {
	cert, err := rete.ParseCertificate(certPEM)
	if err != nil {
		return err
	}
	if err := rete.CheckSPIFFE(cert, h.SPIFFE); err != nil {
		return err
	}
	public, err := rete.PublicKey(cert)
	if err != nil {
		return err
	}
	key, err := artifact.ParseSigner(keyPEM)
	if err != nil {
		return err
	}
	if !public.Equal(key.Crypto().Public()) {
		return cli.Failed(cli.Differs, "the key is not that of the certificate")
	}
	if !log.LiveCertificate(h.SPIFFE, rete.Fingerprint(cert)) {
		return cli.Failed(cli.Differs, "the certificate %s has no sign-event that is not revoked", rete.Fingerprint(cert))
	}
	return nil
}

// enroll makes a key for a principal and issues its certificate.
func (a *app) enroll(r *repository, view *rete.View, h rete.Holder, o bundleOptions) (certPEM, keyPEM []byte, err error) {
	ca, err := openCA(r, view, o.caKey)
	if err != nil {
		return nil, nil, err
	}
	who, err := operator(view, o.by)
	if err != nil {
		return nil, nil, err
	}
	key, err := artifact.GenerateSigner()
	if err != nil {
		return nil, nil, err
	}
	cert, err := ca.Issue(key.Crypto().Public(), h.Kind, h.SPIFFE, daysOf(view, h.Kind), time.Now())
	if err != nil {
		return nil, nil, err
	}
	err = a.record(r, rete.Enrollment{
		Event: rete.EventSign, Operator: who, SPIFFE: h.SPIFFE, Role: rolesOf(view, h.SPIFFE), Fingerprint: rete.Fingerprint(cert),
	})
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = key.PEM()
	return authority.PEM(cert), keyPEM, err
}

// writeBundle writes files that only their owner may read, keys among them.
func writeBundle(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
