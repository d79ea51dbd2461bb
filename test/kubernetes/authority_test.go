package kubernetes

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"

	"github.com/edictdev/edict/internal/test/authority"
)

// issueServer makes NAME.crt and NAME.key for who listens on loopback.
func issueServer(ca *authority.Authority, name string) {
	ca.Issue(name, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// issueClient makes NAME.crt and NAME.key for a user of a group.
func issueClient(ca *authority.Authority, name, group string) {
	ca.Issue(name, &x509.Certificate{
		Subject:  pkix.Name{CommonName: name, Organization: []string{group}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}
