package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/access"
)

// credentials are what a client command shows of who runs it. Secrets come from
// files alone: a command line is everybody's to read.
type credentials struct {
	tokenFile string
	ca        string
	cert, key string
	nats      string // file, for NATS servers in operator mode
	admin     string // address of operators' routes; empty: the server has them
	// dial is how connections are made; nil: as ever.
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	spiffe   string           // address of a Workload API
	server   string           // SPIFFE ID of the plane
	workload *access.Workload // opened on first use, until the process ends
}

// credentialFlags gives a command the flags of those who must say who they are.
func (a *connection) credentialFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.creds.tokenFile, "token-file", "", "`file` with a bearer token (EDICT_TOKEN_FILE)")
	f.StringVar(&a.creds.ca, "ca", "", "authorities that the plane's certificate is checked against, PEM (default the system's) (EDICT_CA)")
	f.StringVar(&a.creds.cert, "cert", "", "client certificate, PEM (EDICT_CERT)")
	f.StringVar(&a.creds.key, "key", "", "its private key, PEM (EDICT_KEY)")
	f.StringVar(&a.creds.spiffe, "spiffe-socket", "", "`address` of a SPIFFE Workload API that gives a client certificate, unix:///path (EDICT_SPIFFE_SOCKET)")
	f.StringVar(&a.creds.server, "server-id", "", "SPIFFE `ID` that the plane must prove, with --spiffe-socket (EDICT_SERVER_ID)")
	for _, name := range []string{"token-file", "ca", "cert", "key", "spiffe-socket", "server-id"} {
		fromEnvironment(cmd, name)
	}
}

// natsCredsFlag gives a command the flag of those who speak to NATS servers that
// Edict does not embed.
func (a *connection) natsCredsFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.creds.nats, "nats-creds", "", "`file` of credentials for the NATS server, as edict nats creds makes them (EDICT_NATS_CREDS)")
	fromEnvironment(cmd, "nats-creds")
}

// natsFile is the file of credentials for NATS servers; "" without one.
func (c credentials) natsFile() (string, error) {
	if c.nats == "" {
		return "", nil
	}
	if err := access.CheckNATSCreds(c.nats); err != nil {
		return "", cli.Failed(cli.Unreadable, "--nats-creds: %v", err)
	}
	return c.nats, nil
}

// token is what the file holds; nil without one.
func (c credentials) token() (*cli.TokenFile, error) {
	if c.tokenFile == "" {
		return nil, nil
	}
	return cli.OpenTokenFile(c.tokenFile)
}

// natsToken is what NATS servers are shown, at the URLs that a client connects to. config is
// what they are asked for TLS with; nil: those ask for it whose URL says so.
func (c credentials) natsToken(urls string, config *tls.Config) (*cli.TokenFile, error) {
	token, err := c.token()
	if err != nil || token == nil || config != nil || urls == "" {
		return token, err
	}
	var open *url.URL
	for address := range strings.SplitSeq(urls, ",") {
		if address = strings.TrimSpace(address); !strings.Contains(address, "://") {
			address = "nats://" + address
		}
		u, err := url.Parse(address)
		if err != nil {
			return nil, cli.Failed(cli.BadUsage, "--nats: want addresses such as tls://nats.example:4222") // the error may have a password
		}
		switch {
		case u.Scheme == "tls" || u.Scheme == "wss":
			return token, nil // the client asks all of them for it
		case !local(u.Hostname()):
			open = u
		}
	}
	if open != nil {
		return nil, cli.Failed(cli.BadUsage, "refusing to send a token to %s in the clear; use tls://", open.Host)
	}
	return token, nil
}

// tls is how the plane is checked, and what it is shown; nil: as ever.
func (c *credentials) tls(ctx context.Context) (*tls.Config, error) {
	if c.ca == "" && c.cert == "" && c.key == "" && c.spiffe == "" && c.server == "" {
		return nil, nil
	}
	if (c.cert == "") != (c.key == "") {
		return nil, cli.Failed(cli.BadUsage, "--cert and --key go together")
	}
	if c.spiffe != "" || c.server != "" {
		return c.spiffeTLS(ctx)
	}
	out := &tls.Config{MinVersion: tls.VersionTLS13}
	var err error
	if c.ca != "" {
		if out.RootCAs, err = access.ReadCA(c.ca); err != nil {
			return nil, cli.Failed(cli.Unreadable, "--ca: %v", err)
		}
	}
	if c.cert != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, cli.Failed(cli.Unreadable, "--cert, --key: %v", err)
		}
		out.GetClientCertificate = (&shownPair{cert: c.cert, key: c.key, last: pair}).show
	}
	return out, nil
}

// spiffeTLS shows what a Workload API gives to a plane that proves its ID, or
// whose certificate --ca has signed.
func (c *credentials) spiffeTLS(ctx context.Context) (*tls.Config, error) {
	switch {
	case c.spiffe == "":
		return nil, cli.Failed(cli.BadUsage, "--server-id needs --spiffe-socket: who may be believed comes from there")
	case c.cert != "":
		return nil, cli.Failed(cli.BadUsage, "--spiffe-socket gives what --cert and --key name; leave either out")
	case (c.ca == "") == (c.server == ""):
		return nil, cli.Failed(cli.BadUsage, "--spiffe-socket: say who the plane must be, by --server-id ID or by --ca FILE")
	}
	var err error
	if c.workload == nil {
		if c.workload, err = access.OpenWorkload(ctx, c.spiffe); err != nil {
			return nil, cli.Failed(cli.Unavailable, "--spiffe-socket: %v", err)
		}
	}
	if c.server != "" {
		out, err := c.workload.ClientTLS(c.server)
		if err != nil {
			return nil, cli.Failed(cli.BadUsage, "--server-id: %v", err)
		}
		return out, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS13}
	if out.RootCAs, err = access.ReadCA(c.ca); err != nil {
		return nil, cli.Failed(cli.Unreadable, "--ca: %v", err)
	}
	c.workload.Show(out)
	return out, nil
}

// http is a client that shows the credentials to the server and to nobody else;
// nil when there are none.
func (c *credentials) http(cmd *cobra.Command, server string) (*http.Client, error) {
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	config, err := c.tls(cmd.Context())
	if err != nil || config == nil && token == nil && c.dial == nil && c.admin == "" {
		return nil, err
	}
	u, err := shownTo(cmd, "server", server, token)
	if err != nil {
		return nil, err
	}
	admin, err := shownTo(cmd, "admin-server", withScheme(c.admin), token)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	// All requests of HTTP/2 go by one connection. One to a host that is gone would be used
	// for a quarter of an hour, also by a watch that knows that it is silent.
	const silence = 30 * time.Second
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: silence / 2}
	if c.dial != nil {
		transport.DialContext = c.dial
	}
	shown := &bearer{transport, []string{origin(u), origin(admin)}, token}
	if admin.Host == "" {
		return &http.Client{Transport: shown}, nil
	}
	return &http.Client{Transport: &elsewhere{shown, u.Host, admin}}, nil
}

// shownTo is an address that a token may be shown to.
func shownTo(cmd *cobra.Command, flag, address string, token *cli.TokenFile) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, cli.Usage(cmd, "--%s %.200q: want http://host:port", flag, shownAddress(address)) // err may have a password
	}
	if token != nil && u.Host != "" && u.Scheme != "https" && !local(u.Hostname()) {
		return nil, cli.Usage(cmd, "refusing to send a token to %s in the clear; use https://", u.Host)
	}
	return u, nil
}

func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// origin is an address without its path: what a redirection leads to is the plane's where that is the same.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// bearer adds a token to what goes to the plane's origins.
type bearer struct {
	next    http.RoundTripper
	origins []string
	token   *cli.TokenFile
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if slices.Contains(b.origins, origin(r.URL)) {
		if token := b.token.Now(); token != "" {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+token)
		}
	}
	return b.next.RoundTrip(r)
}
