package main

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/retectl/internal/authority"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// Validity of new certificates, in days, where the repository says nothing.
const (
	caDays     = 3650
	signerDays = 365
	leafDays   = 90
)

func (a *app) caCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ca", Short: "Issue and revoke certificates, and record it in the enrollment log", Args: cli.NoCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(a.caInitCommand(), a.caSignCommand(), a.caRevokeCommand())
	return cmd
}

// withView runs a command on a repository that need not be valid yet.
func (a *app) withView(f func(r *repository, v *rete.View) error) error {
	r, err := a.open()
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.lock(a.stderr); err != nil {
		return err
	}
	v, err := a.named(r)
	if err != nil {
		return err
	}
	return f(r, v)
}

func (a *app) operatorFlag(cmd *cobra.Command, to *string) {
	a.repoFlag(cmd)
	cmd.Flags().StringVar(to, "operator", "", "`user` who does this, for the log (default: the only one with the role operator)")
}

// operator is the SPIFFE ID of who acts: an operator of the repository, since what the log
// says is not taken back.
func operator(v *rete.View, given string) (string, error) {
	var all []string
	for _, u := range v.Users.All {
		if slices.Contains(u.Value.Roles, rete.RoleOperator) {
			all = append(all, u.Name)
		}
	}
	switch {
	case given != "" && !slices.Contains(all, given):
		return "", cli.Failed(cli.BadUsage, "--operator %q is no user with the role operator; those are %v", given, all)
	case given == "" && len(all) != 1:
		return "", cli.Failed(cli.BadUsage, "%d users have the role operator; say which one acts with --operator", len(all))
	case given == "":
		given = all[0]
	}
	return rete.SPIFFE(string(v.Rete.Value.Name), rete.PrincipalUser, given), nil
}

func days(given rete.Days, otherwise int) int {
	if given == 0 {
		return otherwise
	}
	return int(given)
}

func (a *app) caInitCommand() *cobra.Command {
	var keyFile, by string
	cmd := &cobra.Command{
		Use: "init", Short: "Make the CA of the repository's rete", Args: cli.Args(0, 0),
		Long: `Make the key of the CA, in a file that only you may read and that stays outside
the repository, and its certificate, where rete.ca.cert says.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Required(cmd, "out-key"); err != nil {
				return err
			}
			return a.withView(func(r *repository, v *rete.View) error {
				who, err := operator(v, by)
				if err != nil {
					return err
				}
				_, err = a.makeCA(r, v, keyFile, who)
				return err
			})
		},
	}
	a.operatorFlag(cmd, &by)
	cmd.Flags().StringVar(&keyFile, "out-key", "", "`file` of the new key")
	return cmd
}

func (a *app) makeCA(r *repository, v *rete.View, keyFile, who string) (*authority.CA, error) {
	block := v.Rete.Value
	path, err := r.inside(filepath.FromSlash(string(block.CA.Cert)))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err == nil {
		return nil, cli.Failed(cli.Differs, "%s exists already: the rete has a CA; every certificate would have to be issued again, so remove it first if that is meant", path)
	}
	if err := outside(r.dir, keyFile); err != nil {
		return nil, err
	}
	key, err := newKey(keyFile)
	if err != nil {
		return nil, err
	}
	ca, err := authority.New(string(block.Name), key, days(block.CA.ValidityDays, caDays), time.Now())
	if err != nil {
		return nil, err
	}
	signed := rete.Enrollment{
		Event: rete.EventSign, Operator: who, SPIFFE: rete.TrustDomain(string(block.Name)), Fingerprint: rete.Fingerprint(ca.Cert),
	}
	return ca, a.record(r, func() error { return a.putCertificate(path, ca.Cert) }, signed)
}

// record appends events of now to the log, all of them or none, keeps what they are about, and
// says so. The log comes first, so that there is no certificate that was not recorded; keep may
// be nil.
func (a *app) record(r *repository, keep func() error, events ...rete.Enrollment) error {
	for i := range events {
		events[i].Time = authority.At(time.Now())
	}
	if len(events) > 0 {
		if err := authority.Append(r.root, events...); err != nil {
			return err
		}
	}
	if keep != nil {
		if err := keep(); err != nil {
			return err
		}
	}
	for _, e := range events {
		if _, err := fmt.Fprintf(cli.Broken(a.stdout), "%s %s %s\n", e.Event, e.SPIFFE, e.Fingerprint); err != nil {
			return err
		}
	}
	return nil
}

// putCertificate writes a certificate, with the directories above it.
func (a *app) putCertificate(path string, cert *x509.Certificate) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return authority.WriteNew(path, authority.PEM(cert))
}

func (a *app) caSignCommand() *cobra.Command {
	var p principal
	var csrFile, keyFile, out, by string
	cmd := &cobra.Command{
		Use: "sign", Short: "Issue the certificate that a request asks for", Args: cli.Args(0, 0),
		Long: `Issue a certificate for the principal that --kind, --name and --scope mean. The
request must ask for exactly that SPIFFE ID. A signer's certificate is written
where the repository expects it, others where --out says.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Required(cmd, "csr", "ca-key"); err != nil {
				return err
			}
			return a.withView(func(r *repository, v *rete.View) error {
				id, err := p.id(cmd, string(v.Rete.Value.Name))
				if err != nil {
					return err
				}
				if out == "" && p.kind == rete.PrincipalMgmt {
					if out, err = r.inside(signerPath(v, p.name)); err != nil {
						return err
					}
				}
				if err := cli.Required(cmd, "out"); err != nil && out == "" {
					return err
				}
				text, err := readGiven(csrFile)
				if err != nil {
					return err
				}
				public, err := authority.ParseRequest(text, id)
				if err != nil {
					return cli.Failed(cli.Differs, "%s: %v", csrFile, err)
				}
				ca, err := openCA(r, v, keyFile)
				if err != nil {
					return err
				}
				who, err := operator(v, by)
				if err != nil {
					return err
				}
				cert, err := ca.Issue(public, p.kind, id, daysOf(v, p.kind), time.Now())
				if err != nil {
					return err
				}
				return a.issued(r, v, cert, who, id, out)
			})
		},
	}
	a.operatorFlag(cmd, &by)
	p.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&csrFile, "csr", "", "`file` of the request")
	f.StringVar(&keyFile, "ca-key", "", "`file` of the CA's private key")
	f.StringVar(&out, "out", "", "`file` of the certificate")
	return cmd
}

// issued records and keeps a new certificate.
func (a *app) issued(r *repository, v *rete.View, cert *x509.Certificate, who, id, out string) error {
	if _, err := os.Lstat(out); err == nil {
		return cli.Failed(cli.Differs, "%s exists already; remove it first if it is to be replaced", out)
	}
	signed := rete.Enrollment{
		Event: rete.EventSign, Operator: who, SPIFFE: id, Role: rolesOf(v, id), Fingerprint: rete.Fingerprint(cert),
	}
	return a.record(r, func() error { return a.putCertificate(out, cert) }, signed)
}

// signerPath is where the repository expects the certificate of a signer.
func signerPath(v *rete.View, name string) string {
	for _, k := range v.Rete.Value.Signers.Mgmt.Keys {
		if k.Name == name {
			return filepath.FromSlash(string(k.Cert))
		}
	}
	return filepath.Join("certs", "management-planes", name+".crt")
}

func daysOf(v *rete.View, kind string) int {
	if kind == rete.PrincipalMgmt || kind == rete.PrincipalCtrl {
		return days(v.Rete.Value.Signers.Mgmt.ValidityDays, signerDays)
	}
	return days(v.Rete.Value.TLSPrincipals.ValidityDays, leafDays)
}

// rolesOf are the roles of a user or service, for the log.
func rolesOf(v *rete.View, id string) string {
	path := strings.Split(strings.TrimPrefix(id, rete.TrustDomain(string(v.Rete.Value.Name))+"/"), "/")
	name := path[len(path)-1]
	switch path[0] {
	case rete.PrincipalUser:
		if u := v.Users.Get(name); u != nil {
			return strings.Join(u.Value.Roles, ",")
		}
	case rete.PrincipalService:
		if s := v.Services.Get(name); s != nil {
			return strings.Join(s.Value.Roles, ",")
		}
	case rete.PrincipalNode:
		return rete.RoleNode
	}
	return ""
}

// readCA reads the CA's certificate of the repository.
func readCA(r *repository, v *rete.View) (*x509.Certificate, error) {
	path := string(v.Rete.Value.CA.Cert)
	text, err := rete.ReadFile(r.root.FS(), path, maxGiven)
	if err != nil {
		return nil, cli.Failed(cli.Unreadable, "the CA's certificate %s: %v; make one with retectl ca init", filepath.Join(r.dir, path), bare(err))
	}
	cert, err := rete.ParseCertificate(text)
	if err != nil {
		return nil, cli.Failed(cli.Unreadable, "%s: %v", filepath.Join(r.dir, path), err)
	}
	return cert, nil
}

// openCA pairs the certificate of the repository with a key.
func openCA(r *repository, v *rete.View, keyFile string) (*authority.CA, error) {
	cert, err := readCA(r, v)
	if err != nil {
		return nil, err
	}
	log, _ := rete.ReadEnrollments(r.root.FS()) // Append refuses a broken one
	if err := rete.CheckNotRevoked(log, cert, string(v.Rete.Value.Name)); err != nil {
		return nil, cli.Failed(cli.Differs, "%s: %v", filepath.Join(r.dir, string(v.Rete.Value.CA.Cert)), err)
	}
	key, err := artifact.LoadSigner(keyFile)
	if err != nil {
		return nil, cli.Failed(cli.Unreadable, "%v", err)
	}
	ca, err := authority.Open(cert, key)
	if err != nil {
		return nil, cli.Failed(cli.Differs, "%s: %v", keyFile, err)
	}
	return ca, nil
}

func (a *app) caRevokeCommand() *cobra.Command {
	var fingerprint, by string
	cmd := &cobra.Command{
		Use: "revoke", Short: "Record that a certificate counts no more", Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Required(cmd, "fingerprint"); err != nil {
				return err
			}
			return a.withView(func(r *repository, v *rete.View) error {
				who, err := operator(v, by)
				if err != nil {
					return err
				}
				log, _ := rete.ReadEnrollments(r.root.FS()) // Append refuses a broken one
				id := log.Principal(fingerprint)
				if id == "" {
					return cli.Failed(cli.Differs, "%s is the fingerprint of no certificate in %s that is not revoked; see sign-events there", fingerprint, rete.EnrollmentLog)
				}
				return a.record(r, nil, rete.Enrollment{Event: rete.EventRevoke, Operator: who, SPIFFE: id, Fingerprint: fingerprint})
			})
		},
	}
	a.operatorFlag(cmd, &by)
	cmd.Flags().StringVar(&fingerprint, "fingerprint", "", "sha256:… of the certificate, as the log has it")
	return cmd
}
