package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/api"
)

func (a *app) errorsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "errors [CODE...]", Short: "Say what codes of errors mean",
		Long: `Say what the codes of errors mean that the plane answers with, and which HTTP status
each comes with, and what to do about it; of codes that rejected events alone have, too.
Without a code, all of them. No plane is asked.`,
		Example: `  edict errors
  edict errors revision_conflict`,
		RunE: func(_ *cobra.Command, args []string) error {
			list, err := errorCodes(args)
			if err != nil {
				return err
			}
			return printList(&a.console, errorListing, list)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var codes []string
			for _, c := range allErrors() {
				codes = append(codes, c.Code)
			}
			return codes, cobra.ShellCompDirectiveNoFileComp
		},
	}
	a.listFlags(cmd, errorListing.headers)
	return cmd
}

var errorListing = listing[errorHelp]{
	kind: "error", name: func(c errorHelp) string { return c.Code },
	columns: []column[errorHelp]{
		{"code", func(c errorHelp) string { return c.Code }, false},
		{"status", func(c errorHelp) string {
			if c.Status == 0 {
				return "-"
			}
			return fmt.Sprint(c.Status)
		}, false},
		{"meaning", func(c errorHelp) string { return c.Meaning }, false},
		{"what to do", func(c errorHelp) string { return c.Do }, false},
	},
}

// allErrors are the codes of answers and of rejected events, by code.
func allErrors() []errorHelp {
	list := slices.Clone(rejections)
	for _, c := range api.ErrorCodes() {
		list = append(list, helpFor(c))
	}
	slices.SortFunc(list, func(a, b errorHelp) int { return strings.Compare(a.Code, b.Code) })
	return list
}

// errorCodes are those of the names, in their order, or all.
func errorCodes(names []string) ([]errorHelp, error) {
	all := allErrors()
	if len(names) == 0 {
		return all, nil
	}
	var list []errorHelp
	for _, name := range names {
		at := slices.IndexFunc(all, func(c errorHelp) bool { return c.Code == name })
		if at < 0 {
			return nil, cli.Failed(cli.NotFound, "%.80q is no code of an error; edict errors lists them", name)
		}
		list = append(list, all[at])
	}
	return list, nil
}
