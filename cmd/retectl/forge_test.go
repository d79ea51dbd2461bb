package main

import (
	"crypto/x509"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// forge is "forge HOW": it replaces the signer's certificate by one that is
// wrong in one way, and enrolls it, so that nothing but that is wrong.
func forge(ts *testscript.TestScript, neg bool, args []string) {
	const name = "rete-lovers"
	id := rete.SPIFFE(name, rete.PrincipalMgmt, "primary")
	how := map[string]func(t *x509.Certificate) (caName string){
		"other-ca": func(*x509.Certificate) string { return "stranger" },
		"for-tls": func(t *x509.Certificate) string {
			t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
			return "ca"
		},
		"two-names": func(t *x509.Certificate) string { t.DNSNames = []string{"primary.example"}; return "ca" },
		"same":      func(*x509.Certificate) string { return "ca" },
		"a-ca":      func(t *x509.Certificate) string { t.IsCA = true; return "ca" },
	}
	if neg || len(args) != 1 || how[args[0]] == nil {
		ts.Fatalf("usage: forge other-ca|for-tls|two-names|a-ca|same")
	}
	template := reterepo.SignerTemplate(id)
	caName := how[args[0]](template)
	cert := reterepo.Issue(template, reterepo.CA(name, caName), reterepo.Key("primary").Public(), reterepo.Key(caName))
	ts.Check(os.WriteFile(ts.MkAbs("repo/certs/management-planes/primary.crt"), reterepo.PEM(cert), 0o644))
	log := ts.ReadFile("repo/enrollment.log") + reterepo.Event(rete.EventSign, name, id, rete.Fingerprint(cert))
	ts.Check(os.WriteFile(ts.MkAbs("repo/enrollment.log"), []byte(log), 0o644))
}
