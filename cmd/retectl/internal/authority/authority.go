// Package authority issues the certificates of a rete: its CA's, its signers'
// and those of its principals, each for one SPIFFE ID, and records in the
// enrollment log whom it issued and revoked.
package authority

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// day is what validity is counted in.
const day = 24 * time.Hour

// Kinds are those a certificate is issued for.
var Kinds = []string{
	rete.PrincipalUser, rete.PrincipalService, rete.PrincipalNode, rete.PrincipalVertex,
	rete.PrincipalMgmt, rete.PrincipalCtrl,
}

// CA can issue certificates.
type CA struct {
	Cert *x509.Certificate
	key  crypto.Signer
}

// New makes the CA of a rete, valid for so many days from now.
func New(name string, key *artifact.Signer, days int, now time.Time) (*CA, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	id, err := url.Parse(rete.TrustDomain(name))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name + " Root CA"},
		NotBefore: now.UTC(), NotAfter: now.UTC().Add(time.Duration(days) * day),
		URIs: []*url.URL{id}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	cert, err := create(template, template, key.Crypto().Public(), key.Crypto())
	return &CA{cert, key.Crypto()}, err
}

// Open pairs a CA's certificate with its key. A key of another certificate is
// refused.
func Open(cert *x509.Certificate, key *artifact.Signer) (*CA, error) {
	public, err := rete.PublicKey(cert)
	if err != nil {
		return nil, err
	}
	if !public.Equal(key.Crypto().Public()) {
		return nil, errors.New("the key is not that of the CA's certificate")
	}
	return &CA{cert, key.Crypto()}, nil
}

// Issue makes a certificate for the key of a principal: one for TLS, or, for
// kinds that sign only, without any other use.
func (ca *CA) Issue(public crypto.PublicKey, kind, id string, days int, now time.Time) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	uri, err := url.Parse(id)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: now.UTC(), NotAfter: now.UTC().Add(time.Duration(days) * day),
		URIs: []*url.URL{uri}, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if !slices.Contains([]string{rete.PrincipalMgmt, rete.PrincipalCtrl}, kind) {
		template.KeyUsage |= x509.KeyUsageKeyEncipherment
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	return create(template, ca.Cert, public, ca.key)
}

func create(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

func newSerial() (*big.Int, error) {
	const bits = 127 // positive in 16 bytes
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), bits))
}

// PEM is a certificate as a file.
func PEM(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// Request makes a CSR, as PEM, by which the holder of a key asks for a
// certificate of that SPIFFE ID.
func Request(key *artifact.Signer, id string) ([]byte, error) {
	uri, err := url.Parse(id)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{uri}}, key.Crypto())
	if err != nil {
		return nil, fmt.Errorf("make CSR: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// ParseRequest reads a CSR and returns its key. It must ask for exactly that
// SPIFFE ID, and be signed by its own key.
func ParseRequest(text []byte, id string) (crypto.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("not a PEM certificate request; make one with retectl keygen")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("not a certificate request: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("not signed by its own key: %w", err)
	}
	names := slices.Concat(csr.DNSNames, csr.EmailAddresses)
	for _, u := range csr.URIs {
		names = append(names, u.String())
	}
	if len(names) != 1 || len(csr.IPAddresses) > 0 || names[0] != id {
		return nil, fmt.Errorf("it asks for %q; want exactly the URI %s, as --kind, --name and --scope say", names, id)
	}
	if csr.PublicKeyAlgorithm != x509.Ed25519 {
		return nil, fmt.Errorf("its key is %v; want ed25519", csr.PublicKeyAlgorithm)
	}
	return csr.PublicKey, nil
}
