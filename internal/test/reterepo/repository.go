// Package reterepo makes repositories for tests and benches of retectl: the
// one that the specification's examples come from, and large ones. Keys and
// certificates follow from names, so equal repositories have equal bytes.
package reterepo

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing/fstest"
	"time"

	"github.com/edictdev/edict/internal/compiler/rete"
)

// From and Until bound the validity of certificates.
var (
	From  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	Until = time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Key is the private key that a name stands for.
func Key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("repository of tests: " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// KeyPEM is the key in PKCS#8 PEM.
func KeyPEM(name string) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(Key(name))
	must(err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("reterepo: %v", err)) // what is made here is sound
	}
}

// CA is the certificate of a rete's CA, whose key is that of caName.
func CA(name, caName string) *x509.Certificate {
	key := Key(caName)
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name + " Root CA"}, NotBefore: From, NotAfter: Until,
		URIs: []*url.URL{uri(rete.TrustDomain(name))}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return Issue(t, t, key.Public(), key)
}

func uri(text string) *url.URL {
	u, err := url.Parse(text)
	must(err)
	return u
}

// SignerTemplate is what a signer's certificate says.
func SignerTemplate(id string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: From, NotAfter: Until, URIs: []*url.URL{uri(id)},
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

// Issue makes a certificate.
func Issue(template, parent *x509.Certificate, public any, key ed25519.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(nil, template, parent, public, key)
	must(err)
	cert, err := x509.ParseCertificate(der)
	must(err)
	return cert
}

// PEM is a certificate as a file.
func PEM(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// Operator is who enrolled everybody.
const Operator = "bob"

// Event is a line of the enrollment log.
func Event(kind, name, spiffe, fingerprint string) string {
	b, err := json.Marshal(rete.Enrollment{
		Event: kind, Time: "2026-04-20T10:00:00Z", Operator: rete.SPIFFE(name, rete.PrincipalUser, Operator),
		SPIFFE: spiffe, Fingerprint: fingerprint,
	})
	must(err)
	return string(b) + "\n"
}

// Fingerprint is that of a certificate that only the log knows.
func Fingerprint(spiffe string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(spiffe)))
}

// Enroll adds to a repository whose YAML is sound its CA, its signers and the
// sign-events of everybody in it.
func Enroll(repo fstest.MapFS) {
	names, faults := rete.Discover(repo)
	view, more := rete.Load(repo, names)
	if faults = append(faults, more...); len(faults) > 0 {
		panic(fmt.Sprintf("reterepo: %v", faults))
	}
	name := string(view.Rete.Value.Name)
	ca := CA(name, "ca")
	repo[string(view.Rete.Value.CA.Cert)] = &fstest.MapFile{Data: PEM(ca)}
	var log bytes.Buffer
	log.WriteString(Event(rete.EventSign, name, rete.TrustDomain(name), rete.Fingerprint(ca)))
	for _, k := range view.Rete.Value.Signers.Mgmt.Keys {
		id := rete.SPIFFE(name, rete.PrincipalMgmt, k.Name)
		cert := Issue(SignerTemplate(id), ca, Key(k.Name).Public(), Key("ca"))
		repo[string(k.Cert)] = &fstest.MapFile{Data: PEM(cert)}
		log.WriteString(Event(rete.EventSign, name, id, rete.Fingerprint(cert)))
	}
	ids := map[string]bool{}
	for _, n := range view.Nodes.All {
		ids[rete.SPIFFE(name, rete.PrincipalNode, n.Name)] = true
	}
	for _, u := range view.Users.All {
		ids[rete.SPIFFE(name, rete.PrincipalUser, u.Name)] = true
	}
	for _, s := range view.Services.All {
		segments := []string{rete.PrincipalService, s.Name}
		if s.Value.Scope == rete.ScopeNode {
			segments = []string{rete.PrincipalService, s.Value.At, s.Name}
		}
		ids[rete.SPIFFE(name, segments...)] = true
	}
	sorted := make([]string, 0, len(ids))
	for id := range ids {
		sorted = append(sorted, id)
	}
	slices.Sort(sorted)
	for _, id := range sorted {
		log.WriteString(Event(rete.EventSign, name, id, Fingerprint(id)))
	}
	repo[rete.EnrollmentLog] = &fstest.MapFile{Data: log.Bytes()}
}

// Write puts a repository on disk.
func Write(repo fstest.MapFS, dir string) error {
	return fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err != nil || d.IsDir() {
			return os.MkdirAll(path, 0o755)
		}
		return os.WriteFile(path, repo[name].Data, 0o644)
	})
}
