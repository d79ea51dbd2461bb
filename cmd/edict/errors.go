package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/api"
)

func (a *app) errorsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "errors [CODE...]", Short: "Say what codes of errors mean",
		Long: `Say what the codes of errors mean that the plane answers with, and which HTTP status
each comes with. Without a code, all of them. No plane is asked.`,
		Example: `  edict errors
  edict errors revision_conflict`,
		RunE: func(_ *cobra.Command, args []string) error {
			list, err := errorCodes(args)
			if err != nil {
				return err
			}
			return a.print(list, func(w io.Writer) {
				rows := make([][]string, len(list))
				for i, c := range list {
					rows[i] = []string{c.Code, fmt.Sprint(c.Status), c.Meaning}
				}
				columns(w, []string{"code", "status", "meaning"}, rows)
			})
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var codes []string
			for _, c := range api.ErrorCodes() {
				codes = append(codes, c.Code)
			}
			return codes, cobra.ShellCompDirectiveNoFileComp
		},
	}
	a.outputFlag(cmd)
	return cmd
}

// errorCodes are those of the names, in their order, or all.
func errorCodes(names []string) ([]api.ErrorCode, error) {
	all := api.ErrorCodes()
	if len(names) == 0 {
		return all, nil
	}
	list := make([]api.ErrorCode, len(names))
	for i, name := range names {
		at := slices.IndexFunc(all, func(c api.ErrorCode) bool { return c.Code == name })
		if at < 0 {
			return nil, cli.Failed(cli.NotFound, "%.80q is no code of an error; edict errors lists them", name)
		}
		list[i] = all[at]
	}
	return list, nil
}
