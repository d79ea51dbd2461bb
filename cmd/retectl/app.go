package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/tree"
)

// Exit codes (docs/design.md#commands).
const (
	exitFine       = 0
	exitInvalid    = 1 // by the rules, or refused
	exitUsage      = 2
	exitUnreadable = 3
)

// app is what every command shares.
type app struct {
	stdout, stderr io.Writer

	repo   string
	files  []string
	format string
}

// exitError is an error that knows its exit code. An empty text: everything
// was said already.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

func said(code int) error { return &exitError{code: code} }

func failed(code int, format string, args ...any) error {
	return &exitError{code, fmt.Sprintf(format, args...)}
}

func usage(cmd *cobra.Command, format string, args ...any) error {
	return failed(exitUsage, "%s\nSee '%s --help'.", fmt.Sprintf(format, args...), cmd.CommandPath())
}

func (a *app) exit(err error) int {
	if err == nil {
		return exitFine
	}
	if errors.Is(err, context.Canceled) {
		const interrupted = 130
		return interrupted
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(a.stderr, "retectl: "+text)
	}
	var own *exitError
	var version *tree.VersionError
	var broken *tree.UnreadableError
	switch {
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &version):
		return exitUsage
	case errors.As(err, &broken), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return exitUnreadable
	}
	return exitInvalid
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "retectl",
		Short: "Judge, compile and sign a rete's repository",
		Long: `retectl judges a repository of YAML files that says who may reach what in a
rete, compiles it into signed artifacts for each node, and issues the
certificates that it names.

Start with "retectl init DIR", then "retectl validate --repo DIR".

Exit codes: 0 fine, 1 invalid by the rules or refused, 2 usage, 3 input cannot be
read.`,
		SilenceErrors: true, SilenceUsage: true, Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, "%v", err) })
	root.AddCommand(a.initCommand(), a.validateCommand(), a.compileCommand(), a.verifyCommand(),
		a.keygenCommand(), a.caCommand(), a.bundleCommand())
	return root
}

// noCommand refuses a word that is no command, with the words that are close.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %q?", near[0])
	}
	return usage(cmd, "unknown command %q%s", args[0], hint)
}

// exactly checks how many arguments a command got.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage(cmd, "got %d arguments; usage: %s", len(args), cmd.UseLine())
		}
		return nil
	}
}

// required demands flags that have no default.
func required(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f.Value.String() == "" || f.Value.String() == "[]" {
			return usage(cmd, "--%s is required: %s", name, f.Usage)
		}
	}
	return nil
}

func (a *app) repoFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.repo, "repo", ".", "`directory` of the repository, which holds rete.yaml")
}

func (a *app) filesFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&a.files, "file", "f", nil, "read exactly this `file`, or those that match a glob, instead of what is found in the repository; repeatable")
}
