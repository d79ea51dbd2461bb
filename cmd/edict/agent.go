package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/cmd/edict/internal/agent"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/compiler/kubernetes"
	"github.com/edictdev/edict/internal/enforce"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/policy"
)

// agentFlags are the flags of `agent`.
type agentFlags struct {
	node, machine       string
	onChange            string
	dirs                []string
	patience            time.Duration
	apply               string
	maxAge              time.Duration
	logFormat, logLevel string
	metrics             string
}

// agentCommands are a node's agent and what looks after it.
type agentCommands struct{ *app }

func (a agentCommands) agentCommand() *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Keep a node's install root at what was released for it",
		Long: `Follow what the plane released for a node, and keep it in the node's install root:
mgmt/agent.json and mgmt/vertices/NAME.json, always a whole set. --dir is what
retectl bundle made: it holds the trust pin (trust.json), the only file that is
trusted without a signature. What the node accepted since, its signers and the
highest versions, is in accepted.json.

A node of several retes has a root for each: --dir is then repeated, or each root has
an agent of its own. An agent takes what is of the rete of its trust pin.

The plane delivers artifacts and signs none of them. A set is refused, with the
reason in the log, when it is not signed by a signer that the node trusts, is not
this node's, is older than what was accepted, or is not one set of one version;
the accepted one then stays.

--on-change runs by /bin/sh, in --dir, with EDICT_NODE, EDICT_DIR and EDICT_VERSION
set, after each set that was installed, and again after it failed or was cut off.
Until it ends, no other set is installed.

--apply nftables puts the node's table into the kernel, as a table of its own (inet
edict) in one transaction, and keeps it in --dir: the kept one is in force again
before anything else is done, and stays while the plane is away. A node without a
trust pin then has its policy applied, and no artifacts. edict agent status says
what is in force, edict agent remove takes it away.

It is a service: it takes flags and the environment alone, and no context of
'edict context'.

SIGINT and SIGTERM stop it in order, with exit code 0; what is in force stays. It
ends with 78 when the install root is not fit: no trust pin, another node's, another
one than it began with, or a damaged accepted.json; or when nft cannot be used:
starting again would not help.`,
		Example: `  edict agent --node alpha --dir /var/lib/rete/prod --server https://plane.example
  edict agent --node alpha --dir . --on-change 'systemctl reload flor'
  edict agent --node alpha --dir /var/lib/edict-agent --apply nftables --server https://plane.example`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.agent(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.node, "node", "", "name of the node")
	flags.StringVar(&f.machine, "kubernetes-node", "", "in place of --node: the `name` that Kubernetes has for this machine, under which edict-controller made its node")
	flags.StringArrayVar(&f.dirs, "dir", nil, "`directory` of the node's install root; repeated for each rete that the node is of")
	flags.StringVar(&f.onChange, "on-change", "", "`command` to run after a set was installed")
	flags.DurationVar(&f.patience, "on-change-timeout", 5*time.Minute, "after which the command is killed, and run again")
	a.enforceFlags(cmd, &f)
	flags.StringVar(&f.metrics, "metrics-address", "", "loopback `address` of /metrics and /livez, such as 127.0.0.1:9102 (default: none) (EDICT_METRICS_ADDRESS)")
	fromEnvironment(cmd, "metrics-address")
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	a.addressFlags(cmd)
	return cmd
}

// exitConfig says that the configuration is refused: what restarts the agent
// should not (sysexits, EX_CONFIG).
const exitConfig = 78

func (a agentCommands) agent(cmd *cobra.Command, f agentFlags) error {
	a.tellNoContext(cmd)
	if f.apply != "" {
		a.creds.dial = enforce.Lasting(enforce.AgentDialer().DialContext)
	}
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	id, err := f.id(cmd)
	if err != nil {
		return err
	}
	if f.patience <= 0 {
		return cli.Usage(cmd, "--on-change-timeout %s: give a time above 0", f.patience)
	}
	roots, err := f.roots(cmd)
	if err != nil {
		return err
	}
	log, err := a.logger(cmd, f.logFormat, f.logLevel)
	if err != nil {
		return err
	}
	cli.OutliveReaders()
	shown, err := a.creds.http(cmd, c.Server())
	if err != nil {
		return err
	}
	page, measured, err := f.metricsPage(cmd, log)
	if err != nil {
		return err
	}
	defer page.close()
	opts := make([]agent.Options, len(roots))
	for i, dir := range roots {
		opts[i] = agent.Options{Node: id, Dir: dir, Server: c.Server(), Follow: node.Options{HTTP: shown}, Traced: a.applied(string(id)), Metrics: measured, Log: log}
		if len(roots) > 1 {
			opts[i].Log = log.With("dir", dir)
		}
		if f.onChange != "" {
			opts[i].OnChange = f.command(&a.console, id, dir)
		}
	}
	enf, err := f.enforcer(cmd, opts[0], c, shown)
	if err != nil {
		return err
	}
	a.serves.Store(true)
	return a.runAgent(cmd.Context(), opts, enf, page, log)
}

// tellNoContext says where the agent goes, to who chose a context and names no plane. A
// context is a person's; an agent that followed it would go elsewhere when they choose another.
func (a agentCommands) tellNoContext(cmd *cobra.Command) {
	contexts, _ := readContexts() // those that cannot be read are not used here anyway
	if contexts.Current != "" && !cmd.Flags().Changed("server") {
		fmt.Fprintf(a.stderr, "edict: an agent takes no context, so not %s: it follows %s; name another plane with --server or EDICT_SERVER\n", contexts.Current, shownAddress(a.server))
	}
}

// id is the node's.
func (f agentFlags) id(cmd *cobra.Command) (policy.NodeID, error) {
	if f.machine != "" && f.node == "" {
		return kubernetes.MachineID(f.machine), nil
	}
	if f.node == "" {
		return "", cli.Required(cmd, "node")
	}
	id, err := policy.ParseNodeID(f.node)
	switch {
	case f.machine != "":
		return "", cli.Usage(cmd, "--node and --kubernetes-node exclude each other")
	case err != nil:
		return "", cli.Usage(cmd, "--node %q is not a node id", f.node)
	}
	return id, nil
}

// roots are the install roots, by absolute paths, each once.
func (f agentFlags) roots(cmd *cobra.Command) ([]string, error) {
	roots := make([]string, len(f.dirs))
	for i, dir := range f.dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		if dir == "" || slices.Contains(roots, abs) {
			return nil, cli.Usage(cmd, "--dir %q: name each install root once", dir)
		}
		roots[i] = abs
	}
	if len(roots) == 0 {
		return nil, cli.Usage(cmd, "--dir is required: the install root that retectl bundle made")
	}
	return roots, nil
}

// enforcer opens what puts the node's policy in force; nil: nothing does.
type enforcer func(context.Context) (running, error)

// runAgent keeps the install roots, and with enf the kernel, of which the first root
// has the record.
func (a agentCommands) runAgent(ctx context.Context, opts []agent.Options, enf enforcer, page *agentPage, log *slog.Logger) error {
	for _, opt := range opts {
		unlock, err := lockAgent(opt.Dir)
		if err != nil {
			return err
		}
		defer unlock()
	}
	var parts []running
	var err error
	for i := 0; i < len(opts) && err == nil; i++ {
		var more []running
		more, err = openAgent(ctx, opts[i], enf)
		parts, enf = append(parts, more...), nil
	}
	var config *agent.ConfigError
	if errors.As(err, &config) {
		return cli.Failed(exitConfig, "%v", err)
	}
	if err != nil {
		return err
	}
	// A unit of Type=notify has the network wait for what was in force.
	if _, err := daemon.SdNotify(true, daemon.SdNotifyReady); err != nil {
		log.Warn("systemd could not be notified that the agent is ready", "error", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range append(parts, page) {
		g.Go(func() error { return p.Run(ctx) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// agentLock is the file by which one agent keeps an install root.
const agentLock = "agent.lock"

// lockAgent keeps other agents from an install root.
func lockAgent(dir string) (unlock func(), err error) {
	const tries = 20
	for range tries {
		unlock, err = streams.LockFile(filepath.Join(dir, agentLock))
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond) // who asks whether an agent runs has it for a moment
	}
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, cli.Failed(cli.Unavailable, "another edict agent keeps %s; stop it first", dir)
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Failed(exitConfig, "there is no install root %s; make it: mkdir -p %[1]s", dir)
	case err != nil:
		return nil, cli.Failed(exitConfig, "the install root %s cannot be written to: %v", dir, err)
	}
	return unlock, nil
}

// running is a part of the agent.
type running interface{ Run(context.Context) error }

// openAgent opens the parts. What was in force is so again before anything else.
func openAgent(ctx context.Context, opt agent.Options, enf enforcer) ([]running, error) {
	var parts []running
	if enf != nil {
		e, err := enf(ctx)
		if err != nil {
			return nil, err
		}
		parts = append(parts, e)
		if there, err := (tree.Disk{}).Exists(filepath.Join(opt.Dir, tree.PinFile)); err != nil || !there {
			opt.Log.Info("there is no trust pin: the node's policy is applied, and its artifacts are not followed", "node", opt.Node)
			return parts, err
		}
	}
	ag, err := agent.Open(opt)
	if err == nil && enf == nil {
		err = agent.NoStatus(tree.Disk{}, opt.Dir)
	}
	if err != nil {
		return nil, err
	}
	opt.Log.Info("following", "node", opt.Node, "version", ag.Version())
	return append(parts, ag), nil
}

// command runs --on-change for one install root.
func (f agentFlags) command(a *console, id policy.NodeID, dir string) func(context.Context, uint64) error {
	return func(ctx context.Context, version uint64) error {
		ctx, cancel := context.WithTimeoutCause(ctx, f.patience, fmt.Errorf("it did not end in %s", f.patience))
		defer cancel()
		c := exec.CommandContext(ctx, "/bin/sh", "-c", f.onChange)
		c.Dir = dir
		c.Env = append(os.Environ(), "EDICT_NODE="+string(id), "EDICT_DIR="+dir, "EDICT_VERSION="+strconv.FormatUint(version, 10))
		out := cli.Whole(a.stderr)
		c.Stdout, c.Stderr = out, out // stdout carries data, and the agent has none
		c.WaitDelay = 5 * time.Second
		killed := inGroup(c)
		err := c.Run()
		killed()
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return cause
		}
		return err
	}
}
