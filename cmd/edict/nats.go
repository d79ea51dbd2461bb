package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/policy"
)

// natsCommands make what NATS servers and their clients need.
type natsCommands struct{ *app }

func (a natsCommands) natsCommand() *cobra.Command {
	c := group("nats", "Set up NATS servers of your own",
		a.natsBootstrapCommand(),
		group("creds", "Make credentials of nodes, producers and workers",
			a.natsNodeCommand(), a.natsProducerCommand(), a.natsWorkerCommand()),
		a.natsRevokeCommand(),
		a.natsNodeStreamCommand())
	c.Long = `Set up NATS servers of your own, for "edict serve --nats": the same accounts that
an embedded server has, in operator mode, and credentials for them.

The keys are in one directory (--dir). What ends in .nk or .creds is secret. Keep
operator.nk off the servers and the workers: it can make anybody anything.`
	return c
}

// natsDir gives a command the directory of keys.
func natsDir(cmd *cobra.Command) *string {
	dir := cmd.Flags().String("dir", "edict-nats", "`directory` of the keys")
	return dir
}

func (a natsCommands) natsBootstrapCommand() *cobra.Command {
	var s access.NATSServer
	var print bool
	cmd := &cobra.Command{
		Use: "bootstrap", Short: "Make keys and accounts, and print a server's configuration", Args: cli.Args(0, 0),
		Long: `Make the keys, the accounts and the first credentials. If --dir already exists, what
it holds is used. With --print, print a configuration for
nats-server: JetStream, and operator mode with the accounts preloaded. Nothing in
it is secret, and nothing secret is ever printed.

Workers need the file worker.creds. sys.creds is for watching servers (nats server
report). nodes.nk and nodes.jwt are needed to make credentials of nodes, and
producers.nk and producers.jwt to make those of producers.`,
		Example: `  edict nats bootstrap --print > nats.conf
  edict nats bootstrap --print --listen 0.0.0.0:4222 --store-dir /var/lib/nats --tls-cert nats.pem --tls-key nats.key > nats.conf
  nats-server --config nats.conf
  edict serve --nats tls://nats.example:4222 --nats-creds edict-nats/worker.creds --signing-key plane.pem`,
	}
	f := cmd.Flags()
	f.BoolVar(&print, "print", false, "print the configuration of a server")
	f.StringVar(&s.Listen, "listen", "127.0.0.1:4222", "its address")
	f.StringVar(&s.Store, "store-dir", "jetstream", "its directory of streams")
	f.StringVar(&s.Cert, "tls-cert", "", "its certificate, PEM, where the server finds it")
	f.StringVar(&s.Key, "tls-key", "", "its private key, PEM")
	dir := natsDir(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if (s.Cert == "") != (s.Key == "") {
			return cli.Usage(cmd, "--tls-cert and --tls-key go together")
		}
		if _, _, err := net.SplitHostPort(s.Listen); err != nil {
			return cli.Usage(cmd, "--listen: %v", err)
		}
		k, err := access.MakeNATSKeys(*dir)
		switch {
		case errors.Is(err, fs.ErrExist):
			k, err = access.OpenNATSKeys(*dir)
		case err == nil:
			fmt.Fprintf(a.stderr, "edict: made keys in %s; keep operator.nk away from servers and workers\n", *dir)
		}
		if err != nil {
			return cli.Failed(cli.Unreadable, "--dir: %v", err)
		}
		text, err := k.Config(s)
		if err != nil {
			return cli.Failed(cli.Unreadable, "--dir: %v", err)
		}
		if !print {
			fmt.Fprintln(a.stderr, "edict: print a server's configuration with --print")
			return nil
		}
		if host, _, _ := net.SplitHostPort(s.Listen); s.Cert == "" && !local(host) {
			fmt.Fprintf(a.stderr, "edict: %s without --tls-cert: whoever is on the way reads every policy\n", s.Listen)
		}
		_, err = fmt.Fprint(a.stdout, text)
		return err
	}
	return cmd
}

// credsFlags are what makes credentials.
type credsFlags struct {
	dir     *string
	out     string
	expires time.Duration
}

func addCredsFlags(cmd *cobra.Command) *credsFlags {
	var f credsFlags
	cmd.Flags().StringVar(&f.out, "out", "", "`file` to write the credentials to; one that is there is replaced, which rotates them")
	cmd.Flags().DurationVar(&f.expires, "expires", 0, "how long they are good; 0: until they are revoked")
	f.dir = natsDir(cmd)
	return &f
}

// makeCreds makes credentials and writes them to a file.
func (a natsCommands) makeCreds(cmd *cobra.Command, f *credsFlags, make func(k *access.NATSKeys, expires time.Time) (access.NATSCredentials, error)) error {
	if f.out == "" {
		return cli.Usage(cmd, "--out FILE is missing: credentials are secret, and go to a file")
	}
	if f.expires < 0 {
		return cli.Usage(cmd, "--expires %v: want a time that is not over", f.expires)
	}
	k, err := access.OpenNATSKeys(*f.dir)
	if err != nil {
		return cli.Failed(cli.Unreadable, "--dir: %v; make it with: edict nats bootstrap", err)
	}
	var expires time.Time
	if f.expires > 0 {
		expires = time.Now().Add(f.expires)
	}
	c, err := make(k, expires)
	if errors.Is(err, access.ErrNothingOverNATS) {
		return cli.Usage(cmd, "--relation: %v", err)
	}
	if err != nil {
		return cli.Failed(cli.Unreadable, "--dir: %v", err)
	}
	if err := c.Write(f.out); err != nil {
		return cli.Failed(cli.Unreadable, "--out: %v", err)
	}
	fmt.Fprintf(a.stderr, "edict: credentials of user %s in %s\n", c.User, f.out)
	return nil
}

func (a natsCommands) natsNodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "node ID", Short: "Make credentials of a node's agent", Args: cli.Args(1, 1),
		Example: `  edict nats creds node web-1 --expires 720h --out web-1.creds`,
	}
	f := addCredsFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := policy.ParseNodeID(args[0])
		if err != nil {
			return cli.Usage(cmd, "%q is not a node id: %v", args[0], err)
		}
		return a.makeCreds(cmd, f, func(k *access.NATSKeys, expires time.Time) (access.NATSCredentials, error) {
			return k.Node(id, expires)
		})
	}
	return cmd
}

func (a natsCommands) natsProducerCommand() *cobra.Command {
	var relations []string
	cmd := &cobra.Command{
		Use: "producer NAME", Short: "Make credentials of who appends events to the log", Args: cli.Args(1, 1),
		Long: `Make credentials of a client that appends events to the log. The relations allow the
same as over an embedded server: project:<uuid>#operator allows the project's nodes
and artifacts, together with project:<uuid>#manage also its policies, together with
policy:<uuid>#manage that policy. They are in the credentials, not in the log, and
last as long as the credentials.`,
		Example: `  edict nats creds producer cmdb --relation project:00000000-0000-4000-8000-000000000000#operator --out cmdb.creds`,
	}
	cmd.Flags().StringArrayVar(&relations, "relation", nil, "relation that says what they may append; may be given several times")
	f := addCredsFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := policy.ParsePrincipalID(args[0])
		if err != nil {
			return cli.Usage(cmd, "%v", err)
		}
		all, err := a.parseRelations(cmd, relations)
		if err != nil {
			return err
		}
		err = a.makeCreds(cmd, f, func(k *access.NATSKeys, expires time.Time) (access.NATSCredentials, error) {
			return k.Producer(id, all, expires)
		})
		if err == nil { // with the prefix that clients have by themselves it is refused
			fmt.Fprintf(a.stderr, "edict: answers come to its own inbox alone: nats --creds %s --inbox-prefix=_INBOX.%s\n", f.out, id)
		}
		return err
	}
	return cmd
}

func (a natsCommands) natsWorkerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "worker NAME", Short: "Make credentials of a worker or administrator, for everything", Args: cli.Args(1, 1),
		Example: `  edict nats creds worker m2 --out worker.creds`,
	}
	f := addCredsFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := policy.ParsePrincipalID(args[0])
		if err != nil {
			return cli.Usage(cmd, "%v", err)
		}
		return a.makeCreds(cmd, f, func(k *access.NATSKeys, expires time.Time) (access.NATSCredentials, error) {
			return k.Worker(id, expires)
		})
	}
	return cmd
}

func (a natsCommands) natsRevokeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke USER|FILE...", Short: "Revoke credentials", Args: cli.Args(1, -1),
		Long: `Revoke credentials: by the user's public key, by the file that holds them, or by
what was kept of them in the directory of keys (users/). Then give the servers the
new configuration, and have them read it: until then the credentials are good.`,
		Example: `  edict nats revoke edict-nats/users/nodes-web-1-*.jwt
  edict nats bootstrap --print > nats.conf
  nats-server --signal reload`,
	}
	dir := natsDir(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k, err := access.OpenNATSKeys(*dir)
		if err != nil {
			return cli.Failed(cli.Unreadable, "--dir: %v", err)
		}
		for _, what := range args {
			user, err := k.Revoke(cmd.Context(), what)
			if err != nil {
				return cli.Failed(cli.Unreadable, "%v", err)
			}
			fmt.Fprintf(a.stderr, "edict: revoked user %s; print the configuration anew and have the servers reload it\n", user)
		}
		return nil
	}
	return cmd
}
