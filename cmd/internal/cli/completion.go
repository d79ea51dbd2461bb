package cli

import "github.com/spf13/cobra"

// Completion gives a program its completion command, which refuses shells that it does not
// know. It writes to where the program's output goes by then.
func Completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args, cmd.RunE = NoCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}
