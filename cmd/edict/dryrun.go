package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
)

// dryRunFlag gives a command --dry-run.
func dryRunFlag(cmd *cobra.Command, dry *bool) {
	cmd.Flags().BoolVar(dry, "dry-run", false, "say what would be done, and do nothing")
}

// dryCalls has the plane judge a write, with dry, and not make it.
func dryCalls(dry bool) []client.Call {
	if dry {
		return []client.Call{client.DryRun}
	}
	return nil
}

// dryNote is what stands behind what was not done.
func dryNote(dry bool) string {
	if dry {
		return " (dry run)"
	}
	return ""
}

// dryOutcome is what would become of a thing, for programs.
type dryOutcome struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	DryRun  bool   `json:"dry_run"`
}

// tellDry says what would become of a thing.
func (a *console) tellDry(what, outcome string) error {
	return a.print(dryOutcome{what, outcome, true}, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s%s\n", what, outcome, dryNote(true))
	})
}
