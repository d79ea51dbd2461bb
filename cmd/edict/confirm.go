package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// confirm asks a person at a terminal whether something is to be done. Where nobody can
// answer, --yes must say it.
func (a *console) confirm(cmd *cobra.Command, what string) error {
	if !asksPeople(a.stdin) {
		return cli.Usage(cmd, "this would %s; say --yes to do it, or --dry-run to see it", what)
	}
	fmt.Fprintf(a.stderr, "%s? [y/N] ", what)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n') // at its end nobody said yes
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(a.stderr) // where the ^C stands
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return cli.Failed(cli.Differs, "nothing was done")
}

// asksPeople reports whether a person types what is read.
var asksPeople = func(in io.Reader) bool {
	f, ok := in.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a file descriptor
}
