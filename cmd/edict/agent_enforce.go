//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/internal/agent"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/enforce"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/node"
)

// enforceFlags are those of --apply, and the commands about what it did.
func (a agentCommands) enforceFlags(cmd *cobra.Command, f *agentFlags) {
	flags := cmd.Flags()
	flags.StringVar(&f.apply, "apply", "", "put the node's policy in force: `nftables`")
	flags.DurationVar(&f.maxAge, "max-age", agent.DefaultMaxAge, "after which the rules in force are stale, unless the plane confirms them")
	cmd.AddCommand(a.agentStatusCommand(), a.agentRemoveCommand())
}

// enforcer is what --apply asks for.
func (f agentFlags) enforcer(cmd *cobra.Command, opt agent.Options, c *client.Client, shown *http.Client) (enforcer, error) {
	switch {
	case f.apply == "":
		return nil, nil
	case f.apply != "nftables":
		return nil, cli.Usage(cmd, "--apply %q: use nftables", f.apply)
	case f.maxAge <= 0:
		return nil, cli.Usage(cmd, "--max-age %s: give a time above 0", f.maxAge)
	}
	kernels, err := openKernels()
	if err != nil {
		return nil, cli.Failed(exitConfig, "--apply nftables: %v", err)
	}
	options := agent.EnforcerOptions{
		Node: opt.Node, Dir: opt.Dir, Server: opt.Server, Tables: c.Datapath, Kernel: kernels[0], AuditKernel: kernels[1],
		Follow: node.Options{HTTP: shown}, Report: node.ReporterOptions{HTTP: shown},
		MaxAge: f.maxAge, Traced: opt.Traced, Metrics: opt.Metrics, Log: opt.Log,
	}
	return func(ctx context.Context) (running, error) {
		unlock, err := lockKernel(kernelLock, opt.Log)
		if err != nil {
			return nil, err
		}
		e, err := agent.OpenEnforcer(ctx, options)
		if err != nil {
			unlock()
			return nil, err
		}
		return alone{e, unlock}, nil
	}, nil
}

// openKernels opens the table in force, and the one that counts.
func openKernels() (kernels []enforce.Kernel, err error) {
	for _, table := range []string{enforce.TableName, enforce.AuditTableName} {
		k, err := enforce.OpenNft(table)
		if err != nil {
			return nil, err
		}
		kernels = append(kernels, k)
	}
	return kernels, nil
}

// agentDir is the directory of a command about an agent.
func agentDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "", "`directory` of the node's install root")
}

func (a agentCommands) agentStatusCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "status", Short: "Say what an agent with --apply has put in force",
		Long: `Show what the agent of an install root has put in force. The exit code is 0 when the
plane confirmed it recently and its events reach the agent. It is 1 when the state is
stale, refused or none, or when the agent polls because the plane's events do not
come. Where no agent runs it is stale at best.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return cli.Usage(cmd, "--dir is required: the install root that the agent keeps")
			}
			s, err := agent.ReadStatus(tree.Disk{}, dir)
			runs, unasked := streams.FileLocked(filepath.Join(dir, agentLock))
			switch {
			case errors.Is(err, fs.ErrNotExist) && runs:
				return cli.Failed(cli.Unreadable, "the agent that keeps %s has written no status: it has just begun, or there is no room for it, as its log says, or it runs without --apply", dir)
			case errors.Is(err, fs.ErrNotExist):
				return cli.Failed(cli.NotFound, "no agent with --apply has kept %s", dir)
			case err != nil:
				return cli.Failed(cli.Unreadable, "%v", err)
			}
			if s = s.At(time.Now()); !runs && (unasked == nil || errors.Is(unasked, fs.ErrNotExist)) {
				s = s.Unattended()
			}
			return a.writeAgentStatus(s)
		},
	}
	agentDir(cmd, &dir)
	a.outputFlag(cmd)
	return cmd
}

func (a agentCommands) writeAgentStatus(s agent.Status) error {
	if err := a.print(s, func(w io.Writer) {
		moment := func(t time.Time) string {
			if t.IsZero() {
				return "never"
			}
			return t.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "Node:         %s\nState:        %s\nVersion:      %d\nFingerprint:  %s\nElements:     %d\nApplied:      %s\nConfirmed:    %s\n",
			s.Node, s.State, s.Version, dash(s.Fingerprint), s.Elements, moment(s.AppliedAt), moment(s.ConfirmedAt))
		if s.Error != "" {
			const below = "\n              "
			fmt.Fprintf(w, "Error:        %s\n", strings.ReplaceAll(cli.Escaped(s.Error, "\n"), "\n", below))
		}
	}); err != nil {
		return err
	}
	if s.State != agent.StateCurrent {
		return cli.Exit(cli.Differs)
	}
	return nil
}

func (a agentCommands) agentRemoveCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "remove", Short: "Take what an agent with --apply has put in force away",
		Long: `Remove the table inet edict from the kernel, and the kept table from the install
root: then nothing is enforced, also after a boot. Stop the agent first.
` + enforce.RemoveCommand + ` removes it from the kernel only.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return cli.Usage(cmd, "--dir is required: the install root that the agent keeps")
			}
			dir, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			unlock, err := lockAgent(dir)
			if err != nil {
				return err
			}
			defer unlock()
			kernels, err := openKernels()
			if err != nil {
				return cli.Failed(exitConfig, "%v", err)
			}
			log, err := a.logger(cmd, "text", "info")
			if err != nil {
				return err
			}
			unlockKernel, err := lockKernel(kernelLock, log)
			if err != nil {
				return err // it would put the table back
			}
			defer unlockKernel()
			return agent.RemoveTable(cmd.Context(), kernels, dir)
		},
	}
	agentDir(cmd, &dir)
	return cmd
}
