package cli

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// pageWidth is how wide help is where it goes to no terminal.
const pageWidth = 80

// Execute runs what a person typed. Help is broken at a width; 0: that of a page. Who asks
// for the help of a command that is not there gets the same fault as who runs it; cobra would show
// the help of the group.
func Execute(ctx context.Context, root *cobra.Command, width int) error {
	if width <= 0 {
		width = pageWidth
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", fmt.Sprintf("Flags.FlagUsagesWrapped %d ", width)))
	var fault error
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			fault = NoCommand(cmd, words)
			return
		}
		cmd.Long = reflowed(cmd.Long, min(width, pageWidth))
		help(cmd, args)
	})
	helpCommand(root)
	if err := root.ExecuteContext(ctx); err != nil {
		return err
	}
	return fault
}

// reflowed is a text with its paragraphs broken at a width. Lines that are indented stay.
func reflowed(s string, width int) string {
	var b strings.Builder
	used := 0 // of the line that is being filled
	for line := range strings.SplitSeq(s, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, " ") {
			if used > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(line + "\n")
			used = 0
			continue
		}
		for _, word := range words {
			n := utf8.RuneCountInString(word)
			switch {
			case used == 0:
			case used+1+n > width:
				b.WriteByte('\n')
				used = 0
			default:
				b.WriteByte(' ')
				used++
			}
			b.WriteString(word)
			used += n
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// helpCommand has "help" do likewise.
func helpCommand(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "help" {
			continue
		}
		cmd.Run, cmd.RunE = nil, func(_ *cobra.Command, args []string) error {
			of, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			if of.HasSubCommands() && len(rest) > 0 {
				return NoCommand(of, rest)
			}
			of.InitDefaultHelpFlag() // so that it is shown
			return of.Help()
		}
	}
}
