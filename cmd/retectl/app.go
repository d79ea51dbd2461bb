package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/tree"
)

// app is what every command shares.
type app struct {
	stdout, stderr io.Writer

	repo   string
	files  []string
	format string
}

func (a *app) exit(err error) int {
	return cli.Report(a.stderr, "retectl", err, error.Error, codeOf)
}

// codeOf maps what went wrong to an exit code.
func codeOf(err error) int {
	var version *tree.VersionError
	var broken *tree.UnreadableError
	switch {
	case errors.As(err, &version):
		return cli.BadUsage
	case unwritten(err):
		return cli.Unavailable
	case errors.As(err, &broken), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		return cli.Unreadable
	}
	return cli.Differs
}

// unwritten says whether an error is of something that could not be written. Of a file
// that could not be opened its name tells: what is written has one of its own at first.
func unwritten(err error) bool {
	if errors.Is(err, fs.ErrExist) {
		return false
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS) || errors.As(err, new(*os.LinkError)) {
		return true
	}
	var at *fs.PathError
	return errors.As(err, &at) && (slices.Contains(writing, at.Op) || at.Op == "open" && strings.HasPrefix(filepath.Base(at.Path), artifact.Torn))
}

// writing are the operations, as errors of files name them, that only who writes asks for.
var writing = []string{"write", "mkdir", "chmod", "sync", "remove", "unlinkat"}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "retectl",
		Short: "Judge, compile and sign a rete's repository",
		Long: `retectl validates a repository of YAML files that says who may reach what in a
rete, compiles it into signed artifacts for each node, and issues the
certificates that it names.

Start with "retectl init DIR", then "retectl validate --repo DIR".

Exit codes: 0 fine, 1 invalid by the rules or refused, 2 usage, 3 input cannot be
read, 7 output cannot be written.`,
		SilenceErrors: true, SilenceUsage: true, Args: cli.NoCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(cli.FlagError)
	cli.VersionFlag(root)
	root.AddCommand(versionCommand(a.stdout), a.initCommand(), a.validateCommand(), a.compileCommand(), a.verifyCommand(),
		a.keygenCommand(), a.caCommand(), a.bundleCommand())
	return root
}

func (a *app) repoFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.repo, "repo", ".", "`directory` of the repository, which holds rete.yaml")
}

func (a *app) filesFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&a.files, "file", "f", nil, "read exactly this `file`, or those that match a glob, instead of what is found in the repository; repeatable")
}
