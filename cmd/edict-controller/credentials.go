package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// http is a client that shows the token to the plane and to nobody else.
func (a *app) http(cmd *cobra.Command) (*http.Client, error) {
	u, err := url.Parse(a.server)
	if err != nil {
		return nil, cli.Usage(cmd, "--server %q: %v", a.server, err)
	}
	if a.tokenFile != "" && u.Scheme != "https" && !local(u.Hostname()) {
		return nil, cli.Usage(cmd, "refusing to send a token to %s in the clear; use https://", u.Host)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: a.patience / 2, PingTimeout: a.patience / 4}
	if a.ca != "" {
		text, err := os.ReadFile(a.ca)
		if err != nil {
			return nil, cli.Failed(cli.Unreadable, "--ca: %v", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, cli.Failed(cli.Unreadable, "--ca %s: no certificate in it", a.ca)
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}
	}
	var token *cli.TokenFile
	if a.tokenFile != "" {
		if token, err = cli.OpenTokenFile(a.tokenFile); err != nil {
			return nil, err
		}
	}
	return &http.Client{Transport: &bearer{transport, origin(u), token}, Timeout: a.patience}, nil
}

func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// origin is an address without its path.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// bearer adds a token to what goes to an origin. A Secret that is changed is another token from
// then on.
type bearer struct {
	next   http.RoundTripper
	origin string
	token  *cli.TokenFile
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if origin(r.URL) == b.origin {
		if token := b.token.Now(); token != "" {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+token)
		}
	}
	return b.next.RoundTrip(r)
}
