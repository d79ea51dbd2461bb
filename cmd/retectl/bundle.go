package main

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/retectl/internal/authority"
	"github.com/edictdev/edict/cmd/retectl/internal/report"
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
			if err := r.lock(a.stderr); err != nil {
				return err
			}
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

// bundle writes the install root in steps that a crash leaves whole or undone: the
// files beside their place, the sign-events of what is new, and then the rename.
// A run after a crash goes on where the last one ended.
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
	ids, err := a.identities(r, view, o)
	if err != nil {
		return err
	}
	m, err := a.judgedWith(r, view, ids.events)
	if err != nil {
		return err
	}
	files := maps.Clone(ids.files)
	if files["ca.crt"], err = rete.ReadFile(r.root.FS(), string(m.Rete.Value.CA.Cert), maxGiven); err != nil {
		return err
	}
	if files[tree.PinFile], err = pin(m, o.node).JSON(); err != nil {
		return err
	}
	partial := partialOf(o.out)
	if err := writeBundle(partial, files); err != nil {
		return err
	}
	keep := func() error {
		if err := ids.keep(o.keys); err != nil {
			return err
		}
		if err := os.Rename(partial, o.out); err != nil {
			return err
		}
		return artifact.SyncDir(filepath.Dir(partial))
	}
	if err := a.record(r, keep, ids.events...); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s: %d files for node %s; they hold private keys, so carry them over a safe way\n", o.out, len(files), o.node)
	return err
}

// partialOf is where a bundle is written before it is whole.
func partialOf(out string) string {
	out = filepath.Clean(out)
	return filepath.Join(filepath.Dir(out), "."+filepath.Base(out)+".partial")
}

// judgedWith judges the repository as it will be with more sign-events. That others
// than those of the node are not enrolled yet does not matter: they come next.
func (a *app) judgedWith(r *repository, view *rete.View, events []rete.Enrollment) (*rete.Model, error) {
	m, faults := rete.ValidateWith(view, r.root.FS(), events)
	faults = slices.DeleteFunc(faults, func(f rete.Fault) bool { return f.Rule == "4" && f.Path != rete.EnrollmentLog })
	if len(rete.Violations(faults)) > 0 {
		return nil, a.tell(r, report.Text, faults)
	}
	return m, nil
}

// identities are the principals of a node.
type identities struct {
	files  map[string][]byte // certificate and key of each, by file name
	fresh  []string          // names of files that were made now, or by a run that was cut off
	events []rete.Enrollment // that they lack in the log
}

// identities finds or makes certificate and key of every principal of the node.
func (a *app) identities(r *repository, view *rete.View, o bundleOptions) (*identities, error) {
	by := issuer{}
	by.log, _ = rete.ReadEnrollments(r.root.FS()) // judgedWith tells the faults of both
	by.ca, _ = readCA(r, view)
	ids := &identities{files: map[string][]byte{}}
	for _, h := range view.Holders(o.node) {
		cert, key, err := kept(o.keys, h)
		switch {
		case err == nil:
			err = by.fits(h, cert, key)
		case errors.Is(err, fs.ErrNotExist) && o.caKey != "":
			cert, key, err = a.enrolled(r, view, by, h, o, ids)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.SPIFFE, err)
		}
		ids.files[h.Leaf+".crt"], ids.files[h.Leaf+".key"] = cert, key
	}
	return ids, nil
}

// enrolled is an identity that the log has already, of a run that was cut off, or a
// new one.
func (a *app) enrolled(r *repository, view *rete.View, by issuer, h rete.Holder, o bundleOptions, ids *identities) (cert, key []byte, err error) {
	ids.fresh = append(ids.fresh, h.Leaf+".crt", h.Leaf+".key")
	if cert, key, err = kept(partialOf(o.out), h); err == nil && by.fits(h, cert, key) == nil {
		return cert, key, nil
	}
	for _, name := range []string{h.Leaf + ".crt", h.Leaf + ".key"} {
		path := filepath.Join(o.keys, name)
		if _, err := os.Lstat(path); o.keys != "" && err == nil {
			return nil, nil, cli.Failed(cli.Differs, "%s is there without the other half of the identity; a key is never replaced: complete it with retectl ca sign, or move it away", path)
		}
	}
	cert, key, event, err := a.enroll(r, view, h, o)
	ids.events = append(ids.events, event)
	return cert, key, err
}

// keep writes what is new to the directory of keys, where one is named, so that the
// bundle of another node finds it there.
func (ids *identities) keep(dir string) error {
	if dir == "" || len(ids.fresh) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range ids.fresh {
		path := filepath.Join(dir, name)
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, ids.files[name]) {
			continue // of the run that was cut off
		}
		if err := authority.WritePrivate(path, ids.files[name]); err != nil {
			return err
		}
	}
	return nil
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

// issuer is what a certificate that was issued earlier is judged by.
type issuer struct {
	log *rete.Enrollments
	ca  *x509.Certificate // nil: there is none
}

// fits checks that certificate and key belong together, to the principal, are
// enrolled, and that the present CA signed the certificate.
func (i issuer) fits(h rete.Holder, certPEM, keyPEM []byte) error {
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
	if !i.log.LiveCertificate(h.SPIFFE, rete.Fingerprint(cert)) {
		return cli.Failed(cli.Differs, "the certificate %s has no sign-event that is not revoked", rete.Fingerprint(cert))
	}
	if i.ca != nil && cert.CheckSignatureFrom(i.ca) != nil {
		return cli.Failed(cli.Differs, "the certificate %s is not signed by the CA of the rete, whose certificate may be another by now; issue another with retectl ca sign", rete.Fingerprint(cert))
	}
	return nil
}

// enroll makes a key for a principal, its certificate, and the event that the log
// must have before either counts.
func (a *app) enroll(r *repository, view *rete.View, h rete.Holder, o bundleOptions) (certPEM, keyPEM []byte, event rete.Enrollment, err error) {
	ca, err := openCA(r, view, o.caKey)
	if err != nil {
		return nil, nil, event, err
	}
	who, err := operator(view, o.by)
	if err != nil {
		return nil, nil, event, err
	}
	key, err := artifact.GenerateSigner()
	if err != nil {
		return nil, nil, event, err
	}
	cert, err := ca.Issue(key.Crypto().Public(), h.Kind, h.SPIFFE, daysOf(view, h.Kind), time.Now())
	if err != nil {
		return nil, nil, event, err
	}
	event = rete.Enrollment{
		Event: rete.EventSign, Operator: who, SPIFFE: h.SPIFFE, Role: rolesOf(view, h.SPIFFE), Fingerprint: rete.Fingerprint(cert),
	}
	keyPEM, err = key.PEM()
	return authority.PEM(cert), keyPEM, event, err
}

// writeBundle writes files that only their owner may read, keys among them, anew, on
// disk when it returns.
func writeBundle(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := authority.WritePrivate(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	return errors.Join(artifact.SyncDir(dir), artifact.SyncDir(filepath.Dir(dir)))
}
