package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// NoCommand refuses a word that is no command, with the words that are close.
func NoCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %q?", near[0])
	}
	return Usage(cmd, "unknown command %q%s", args[0], hint)
}

// FlagError is an error of flags. Where a word before them is no command, that is what is
// wrong: the flags are those of the command that was meant.
func FlagError(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return NoCommand(cmd, words)
	}
	return Usage(cmd, "%v", err)
}

// Args checks how many arguments a command got, and says which it takes.
func Args(from, to int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < from || to >= 0 && len(args) > to {
			return Usage(cmd, "got %d arguments; usage: %s", len(args), cmd.UseLine())
		}
		return nil
	}
}

// Required demands flags that have no default.
func Required(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f.Value.String() == "" || f.Value.String() == "[]" {
			return Usage(cmd, "--%s is required: %s", name, f.Usage)
		}
	}
	return nil
}
