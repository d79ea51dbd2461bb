package rete

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// maxCertificate is the most bytes of a certificate's file.
const maxCertificate = 64 << 10

// signerDir is where certificates of signers lie.
const signerDir = "certs/management-planes/"

// Fingerprint names a certificate in the enrollment log: sha256: and the hex
// digits of the SHA-256 of its DER.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return fingerprintPrefix + hex.EncodeToString(sum[:])
}

// ParseCertificate reads a PEM file that holds one certificate and nothing
// else.
func ParseCertificate(text []byte) (*x509.Certificate, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("not a PEM certificate")
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("something follows the certificate; the file holds one")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("not an X.509 certificate: %w", err)
	}
	return cert, nil
}

func readCertificate(repo fs.FS, path Path) (*x509.Certificate, error) {
	text, err := ReadFile(repo, string(path), maxCertificate)
	if err != nil {
		return nil, bare(err)
	}
	return ParseCertificate(text)
}

// PublicKey is the ed25519 key of a certificate.
func PublicKey(cert *x509.Certificate) (ed25519.PublicKey, error) {
	key, ok := cert.PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("its key is %v; want ed25519", cert.PublicKeyAlgorithm)
	}
	return key, nil
}

// CheckSPIFFE checks that a certificate names one principal and nothing else.
func CheckSPIFFE(cert *x509.Certificate, id string) error {
	names := make([]string, 0, len(cert.URIs))
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	others := len(cert.DNSNames) + len(cert.EmailAddresses) + len(cert.IPAddresses)
	if len(names) != 1 || others > 0 || names[0] != id {
		names = append(append(names, cert.DNSNames...), cert.EmailAddresses...)
		return fmt.Errorf("its subject alternative names are %s; want the one URI %s", list(names), id)
	}
	return nil
}

// CheckCA checks that a certificate may sign those of a rete.
func CheckCA(cert *x509.Certificate, rete string) error {
	if _, err := PublicKey(cert); err != nil {
		return err
	}
	if !cert.BasicConstraintsValid || !cert.IsCA || cert.KeyUsage&x509.KeyUsageCertSign == 0 {
		return errors.New("it is not a CA's: it needs CA:TRUE and key usage keyCertSign; make one with retectl ca init")
	}
	if err := cert.CheckSignatureFrom(cert); err != nil {
		return fmt.Errorf("it did not sign itself, so it is no root: %w", err)
	}
	return CheckSPIFFE(cert, TrustDomain(rete))
}

// CheckNotRevoked checks that a CA's certificate still counts. Unlike the certificates of
// others, it counts without a sign-event.
func CheckNotRevoked(log *Enrollments, ca *x509.Certificate, rete string) error {
	if fingerprint := Fingerprint(ca); log.Revoked(TrustDomain(rete), fingerprint) {
		return fmt.Errorf("%s was revoked in %s; remove the file, make another with retectl ca init, and issue every certificate again", fingerprint, EnrollmentLog)
	}
	return nil
}

// CheckSigner checks that a certificate is that of a signer of the rete, issued
// by its CA for signing and nothing else. Whether it is enrolled is not in it.
func CheckSigner(cert, ca *x509.Certificate, rete, name string) []error {
	var faults []error
	if _, err := PublicKey(cert); err != nil {
		faults = append(faults, err)
	}
	if err := CheckSPIFFE(cert, SPIFFE(rete, PrincipalMgmt, name)); err != nil {
		faults = append(faults, err)
	}
	if ca != nil {
		if err := cert.CheckSignatureFrom(ca); err != nil {
			faults = append(faults, fmt.Errorf("it is not signed by the CA of the rete: %w", err))
		}
	}
	if cert.IsCA {
		faults = append(faults, errors.New("it is a CA's"))
	}
	if cert.KeyUsage != x509.KeyUsageDigitalSignature {
		faults = append(faults, errors.New("its key usage must be digitalSignature alone"))
	}
	if len(cert.ExtKeyUsage)+len(cert.UnknownExtKeyUsage) > 0 {
		faults = append(faults, errors.New("it has an extended key usage, so it is one for TLS; a signer only signs"))
	}
	return faults
}

// ruleSigners is rule 8a.
func (c *checker) ruleSigners() {
	rete := c.view.Rete
	ca := c.authority()
	keys := rete.Value.Signers.Mgmt.Keys
	if len(keys) == 0 {
		c.add("8a", rete.at("signers", "mgmt", "keys"), "rete", "rete.signers.mgmt.keys is empty, so nobody can sign what is compiled; "+
			"make a signer with retectl keygen and retectl ca sign, and list it")
	}
	seen := map[string]bool{}
	for i, key := range keys {
		at := rete.at("signers", "mgmt", "keys", i, "name")
		if seen[key.Name] {
			c.add("8a", at, key.Name, "signer %q is listed twice; give each a name of its own", key.Name)
		}
		seen[key.Name] = true
		if bad := BadName(key.Name); bad != "" {
			c.add("8a", at, key.Name, "signer %q %s", key.Name, bad)
		}
		c.signer(key, rete.at("signers", "mgmt", "keys", i, "cert"), ca)
	}
}

// authority is the CA's certificate; nil: there is none to judge others by.
func (c *checker) authority() *x509.Certificate {
	rete := c.view.Rete
	cert, err := readCertificate(c.repo, rete.Value.CA.Cert)
	if err == nil {
		err = cmp.Or(CheckCA(cert, string(rete.Value.Name)), CheckNotRevoked(c.enrolled, cert, string(rete.Value.Name)))
	}
	if err != nil {
		c.add("8a", rete.at("ca", "cert"), "rete", "%s is not the certificate of the rete's CA: %v", rete.Value.CA.Cert, err)
		return nil
	}
	return cert
}

func (c *checker) signer(key SignerKey, at place, ca *x509.Certificate) {
	if !strings.HasPrefix(string(key.Cert), signerDir) {
		c.add("8a", at, key.Name, "the certificate of signer %q is at %s; it belongs below %s", key.Name, key.Cert, signerDir)
	}
	cert, err := readCertificate(c.repo, key.Cert)
	if err != nil {
		c.add("8a", at, key.Name, "%s, the certificate of signer %q: %v", key.Cert, key.Name, err)
		return
	}
	rete := string(c.view.Rete.Value.Name)
	for _, err := range CheckSigner(cert, ca, rete, key.Name) {
		c.add("8a", at, key.Name, "%s, the certificate of signer %q: %v", key.Cert, key.Name, err)
	}
	id := SPIFFE(rete, PrincipalMgmt, key.Name)
	if !c.enrolled.LiveCertificate(id, Fingerprint(cert)) {
		c.add("8a", at, key.Name, "%s has no sign-event for %s of %s that is not revoked; issue it with retectl ca sign", EnrollmentLog, Fingerprint(cert), id)
	}
	if key, err := PublicKey(cert); err == nil {
		c.signers = append(c.signers, Signer{id, key})
	}
}
