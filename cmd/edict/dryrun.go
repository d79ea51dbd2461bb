package main

import (
	"fmt"

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

// tellDry says what would become of a thing.
func (a *console) tellDry(what, outcome string) error {
	_, err := fmt.Fprintf(a.stdout, "%s %s%s\n", what, outcome, dryNote(true))
	return err
}
