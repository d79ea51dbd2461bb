package main

import (
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/listener"
	"github.com/edictdev/edict/internal/plane"
)

// accessFlags are those that say who may reach the plane.
func accessFlags(cmd *cobra.Command, o *listener.Options) {
	f := cmd.Flags()
	f.StringVar(&o.File, "access", "", "`file` of principals, the first administrator among them; turns access control on (default off: loopback alone)")
	f.StringVar(&o.TLS.Cert, "tls-cert", "", "certificate of the listeners, PEM; read again when it changes")
	f.StringVar(&o.TLS.Key, "tls-key", "", "its private key, PEM")
	f.StringVar(&o.TLS.ClientCA, "client-ca", "", "authorities whose client certificates are believed, PEM; their SPIFFE IDs name principals")
	f.StringVar(&o.Workload, "spiffe-socket", "", "`address` of a SPIFFE Workload API, unix:///path, in place of these three: its certificate, and clients of its trust domain")
	f.StringVar(&o.Issuer, "oidc-issuer", "", "`URL` of an OpenID Connect issuer whose identity tokens are believed")
	f.StringVar(&o.Audience, "oidc-audience", "", "audience that they must be for")
	f.StringVar(&o.Secret, "oidc-client-secret", "", "`file` with the secret of the issuer's client whose id is --oidc-audience, by which people sign in to the console (default: a public client)")
	f.StringVar(&o.Console, "console-url", "", "`URL` by which browsers reach the plane, to which the issuer sends them back (default the one that each asked)")
	f.StringVar(&o.Admin, "admin", "", "address of operators' routes, of the plane and its metrics (default with the rest; 127.0.0.1:8081 where --http leaves loopback without --access)")
	f.IntVar(&o.Rate, "rate", 200, "requests a second that each principal may send, twice as many at once; 0: any number")
	f.BoolVar(&o.Insecure, "insecure", false, "leave loopback without --access or without TLS; anybody there may read or write everything")
}

// natsFlags are what external NATS servers are shown, and must show.
func natsFlags(cmd *cobra.Command, o *plane.Options) {
	f := cmd.Flags()
	f.StringVar(&o.NATSCreds, "nats-creds", "", "`file` of credentials for the servers of --nats, such as worker.creds of edict nats bootstrap; read at each connect")
	f.StringVar(&o.NATSCA, "nats-ca", "", "authorities that the certificates of these servers are checked against, PEM (default the system's)")
}

// completeAccess checks these flags against each other.
func completeAccess(cmd *cobra.Command, o *listener.Options) error {
	switch {
	case (o.TLS.Cert == "") != (o.TLS.Key == ""):
		return cli.Usage(cmd, "--tls-cert and --tls-key go together")
	case o.Workload != "" && (o.TLS != access.TLSFiles{}):
		return cli.Usage(cmd, "--spiffe-socket gives what --tls-cert, --tls-key and --client-ca name; leave either out")
	case o.TLS.ClientCA != "" && (o.TLS.Cert == "" || o.File == ""):
		return cli.Usage(cmd, "--client-ca needs --tls-cert, --tls-key and --access")
	case (o.Issuer == "") != (o.Audience == ""):
		return cli.Usage(cmd, "--oidc-issuer and --oidc-audience go together: tokens for others are not for this plane")
	case o.Issuer == "" && (o.Secret != "" || o.Console != ""):
		return cli.Usage(cmd, "--oidc-client-secret and --console-url are for people who sign in at an issuer: they need --oidc-issuer")
	case o.Issuer != "" && o.File == "":
		return cli.Usage(cmd, "--oidc-issuer needs --access")
	case o.Rate < 0:
		return cli.Usage(cmd, "--rate %d: must be 0 or more", o.Rate)
	}
	return nil
}
