package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

// workloadPatience is how long a Workload API may take to say who this process
// is: one that does not know it says nothing.
const workloadPatience = 10 * time.Second

// Workload is the certificate of this process and the authorities of its trust
// domain, as a SPIFFE Workload API gives and renews them.
type Workload struct{ source *workloadapi.X509Source }

// OpenWorkload asks the Workload API at addr, unix:///path or tcp://ip:port, for
// the first of this process's identities. Close it.
func OpenWorkload(ctx context.Context, addr string) (*Workload, error) {
	ctx, cancel := context.WithTimeout(ctx, workloadPatience)
	defer cancel()
	source, err := workloadapi.NewX509Source(ctx, workloadapi.WithClientOptions(workloadapi.WithAddr(addr)))
	if err != nil {
		return nil, fmt.Errorf("the Workload API at %s did not say who this process is; is its agent running, and does an entry select it: %w", addr, err)
	}
	return &Workload{source}, nil
}

// ServerTLS is TLS 1.3 with the identity that is current at each connection, as
// the function of the same name has it of files. Clients may show a certificate
// of the same trust domain.
func (w *Workload) ServerTLS() *tls.Config {
	base := serverTLS()
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		svid, err := w.source.GetX509SVID()
		if err != nil {
			return nil, err
		}
		bundle, err := w.source.GetX509BundleForTrustDomain(svid.ID.TrustDomain())
		if err != nil {
			return nil, err
		}
		pair := tls.Certificate{PrivateKey: svid.PrivateKey, Leaf: svid.Certificates[0]}
		for _, c := range svid.Certificates {
			pair.Certificate = append(pair.Certificate, c.Raw)
		}
		c := serverTLS(pair)
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		for _, a := range bundle.X509Authorities() {
			c.ClientCAs.AddCert(a)
		}
		return c, nil
	}
	return base
}

// ClientTLS shows the identity to a server that proves to be the one named, in
// the trust domain of its ID.
func (w *Workload) ClientTLS(server string) (*tls.Config, error) {
	id, err := spiffeid.FromString(server)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", server, err)
	}
	c := tlsconfig.MTLSClientConfig(w.source, w.source, tlsconfig.AuthorizeID(id))
	c.MinVersion = tls.VersionTLS13
	return c, nil
}

// Show has c show the identity to a server that is checked as c says.
func (w *Workload) Show(c *tls.Config) {
	c.GetClientCertificate = tlsconfig.GetClientCertificate(w.source)
}

// Close ends the watch. What it gave is good for no new connection.
func (w *Workload) Close() error { return w.source.Close() }
