package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Completion gives a program its completion command, which refuses shells that it does not
// know. It writes to where the program's output goes by then.
func Completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			// A function that the package has is only missed at the first Tab.
			cmd.Long = fmt.Sprintf(`Print completions for a shell. To load them:

  source <(%[1]s completion bash)    # needs the package bash-completion
  source <(%[1]s completion zsh)
  %[1]s completion fish | source

The help of each command below says how to load them in every new shell.`, root.Name())
			cmd.Args, cmd.RunE = NoCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}
