package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/internal/tracing"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// defaultProject is the project of who names none (docs/design.md#the-domain).
const defaultProject = "00000000-0000-4000-8000-000000000000"

const defaultServer = "http://127.0.0.1:8080"

// app is what the groups of commands share. Each group is a type of its own.
type app struct {
	console
	connection
	serves atomic.Bool // the command runs a plane or an agent
}

// connection is the plane that a command speaks to, by its flags.
type connection struct {
	made        *client.Client // of the first call of client
	server      string
	creds       credentials
	project     string
	context     string           // name of --context
	natsContext string           // name of --nats-context
	tracing     *tracing.Tracing // records the command; nil: nothing does
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "edict",
		Short: "An event-sourced policy plane",
		Long: `Edict is an event-sourced policy plane: authors publish policies, and
every node is sent what it must apply, signed, in order and resumable.

Start with "edict demo", or "edict serve" and then "edict policy apply".

Exit codes: 0 fine, 1 differs, invalid by the rules or refused, 2 usage, 3 input
cannot be read, 4 not allowed, 5 not found, 6 conflict, 7 unavailable.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.NoCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(cli.FlagError)
	policies, releases, principals, backups := policyCommands{a}, releaseCommands{a}, accessCommands{a}, backupCommands{archiveCommands{a}}
	cli.VersionFlag(root)
	root.AddCommand(serveCommands{a}.serveCommand(), a.demoCommand(), policies.policyCommand(), nodeCommands{a}.nodeCommand(),
		datapathCommands{a}.datapathCommand(), admissionCommands{a}.admissionCommand(), releases.releaseCommand(), releases.rollbackCommand(),
		agentCommands{a}.agentCommand(), statusCommands{a}.statusCommand(), a.uiCommand(), a.probeCommand(), principals.accessCommand(), projectCommands{a}.projectCommand(),
		contextCommands{a}.contextCommand(), keyCommands{a}.keyCommand(), natsCommands{a}.natsCommand(), principals.auditCommand(), eventCommands{a}.eventsCommand(), replayCommands{a}.replayCommand(),
		snapshotCommands{a}.snapshotCommand(), a.logCommand(), backups.backupCommand(), backups.restoreCommand(), a.errorsCommand(), a.versionCommand(),
		workerCommands{a}.workerCommand(), topCommands{a}.topCommand(), a.doctorCommand(), a.supportBundleCommand(), a.waitCommand(), a.manCommand(), a.explainCommand())
	suggestWords(root)
	a.completeNames(root)
	return root
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Args: cli.NoCommand, SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(commands...)
	return c
}

// clientFlags gives a command the flags of people who speak to a plane.
func (a *connection) clientFlags(cmd *cobra.Command) {
	a.contextFlag(cmd) // first, so that it comes after what the environment says
	a.addressFlags(cmd)
	cmd.Flags().StringVar(&a.creds.admin, "admin-server", "", "address of operators' routes, where these are not at --server (EDICT_ADMIN_SERVER)")
	fromEnvironment(cmd, "admin-server")
}

// addressFlags gives a command the flags of services that speak to a plane.
func (a *connection) addressFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.server, "server", defaultServer, "address of the plane (EDICT_SERVER)")
	fromEnvironment(cmd, "server")
	a.credentialFlags(cmd)
}

// projectFlag gives a command the flag of those who work in one project.
func (a *connection) projectFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.project, "project", defaultProject, "project, a UUID (EDICT_PROJECT)")
	fromEnvironment(cmd, "project")
}

// countVar gives a command a flag that is a number of things, of which there are not fewer than
// none: a limit of -1 means to some "all" and to others nothing.
func countVar(flags *pflag.FlagSet, p *int, name string, value int, usage string) {
	*p = value
	flags.Var((*count)(p), name, usage)
}

// count is the value of such a flag.
type count int

func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return errors.New("want a number, 0 or more")
	}
	*c = count(n)
	return nil
}

func (c *count) String() string { return strconv.Itoa(int(*c)) }
func (c *count) Type() string   { return "int" }

// fromEnvironment has flags take their value from EDICT_<FLAG> where the
// command line gives none. Without names: all of the command's flags.
func fromEnvironment(cmd *cobra.Command, names ...string) {
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if err == nil && !f.Changed && f.Name != "help" && (len(names) == 0 || f.Name == names[0]) {
				err = setFromEnvironment(cmd, f)
			}
		})
		if err == nil && before != nil {
			err = before(cmd, args)
		}
		return err
	}
}

func setFromEnvironment(cmd *cobra.Command, f *pflag.Flag) error {
	name := "EDICT_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
	value, ok := os.LookupEnv(name)
	if !ok || value == "" {
		return nil
	}
	if err := cmd.Flags().Set(f.Name, value); err != nil {
		return cli.Usage(cmd, "%s=%q: %v", name, value, err)
	}
	return nil
}

// ownTurn is how long a command waits where it, with others, sends more a second than it may.
const ownTurn = 30 * time.Second

// client speaks to the plane of --server. It is the same at each call.
func (a *connection) client(cmd *cobra.Command) (_ *client.Client, err error) {
	if a.made == nil {
		a.made, err = a.newClient(cmd)
	}
	return a.made, err
}

func (a *connection) newClient(cmd *cobra.Command) (*client.Client, error) {
	server := withScheme(a.server)
	shown, err := a.creds.http(cmd, server)
	if err != nil {
		return nil, err
	}
	if a.tracing != nil {
		shown = a.tracing.Client(shown)
	}
	var said sync.Once
	waits := func(time.Duration) {
		said.Do(func() {
			fmt.Fprintf(cmd.ErrOrStderr(), "more requests a second are sent than the plane takes: each is sent again, for up to %v\n", ownTurn)
		})
	}
	c, err := client.New(server, client.Options{UserAgent: "edict/" + version(), HTTP: shown, Turn: ownTurn, Waits: waits})
	if err != nil {
		return nil, cli.Usage(cmd, "%v", err)
	}
	return c, nil
}

// withScheme is an address as a URL.
func withScheme(address string) string {
	if address == "" || strings.Contains(address, "://") {
		return address
	}
	return "http://" + address
}

// shownAddress is an address without the password that it may have: what a command prints is
// copied into reports and tickets.
func shownAddress(address string) string {
	if !strings.Contains(address, "@") {
		return address
	}
	u, err := url.Parse(withScheme(address))
	if err != nil {
		return "(not shown: it cannot be read, and may have a password)"
	}
	return u.Redacted()
}

// projectID is the project of --project.
func (a *connection) projectID(cmd *cobra.Command) (uuid.UUID, error) {
	id, err := uuid.Parse(a.project)
	if err != nil {
		return uuid.Nil, cli.Usage(cmd, "--project %q is not a UUID", a.project)
	}
	return id, nil
}

// plane is what most client commands begin with.
func (a *connection) plane(cmd *cobra.Command) (*client.Client, uuid.UUID, error) {
	c, err := a.client(cmd)
	if err != nil {
		return nil, uuid.Nil, err
	}
	project, err := a.projectID(cmd)
	return c, project, err
}
