package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// typed is a command line with a group and one command in it.
func typed(args ...string) (*cobra.Command, *bytes.Buffer) {
	var out bytes.Buffer
	help := func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root := &cobra.Command{Use: "root", SilenceErrors: true, SilenceUsage: true, Args: NoCommand, RunE: help}
	group := &cobra.Command{Use: "policy", Short: "all of these", Args: NoCommand, RunE: help}
	group.AddCommand(&cobra.Command{Use: "apply", Short: "this one", Run: func(*cobra.Command, []string) {}})
	group.Commands()[0].Flags().String("file", "", strings.Repeat("what to read ", 20))
	root.AddCommand(group)
	root.SetOut(&out)
	root.SetArgs(args)
	return root, &out
}

func TestTheHelpOfWhatIsNotThereIsNotThatOfItsGroup(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"policy aply --help": `unknown command "aply"; did you mean "apply"?`,
		"help policy aply":   `unknown command "aply"; did you mean "apply"?`,
		"polcy --help":       `unknown command "polcy"; did you mean "policy"?`,
		"help polcy":         `unknown command "polcy"; did you mean "policy"?`,
	} {
		root, out := typed(strings.Fields(line)...)
		require.ErrorContains(t, Execute(t.Context(), root, 0), want, line)
		require.Empty(t, out.String(), line)
	}
	for line, want := range map[string]string{
		"policy --help": "all of these", "help policy": "all of these", "policy apply x --help": "this one", "help policy apply": "this one",
		"--help": "all of these", "help": "all of these",
	} {
		root, out := typed(strings.Fields(line)...)
		require.NoError(t, Execute(t.Context(), root, 0), line)
		require.Contains(t, out.String(), want, line)
	}
}

func TestTextIsBrokenAtAWidth(t *testing.T) {
	t.Parallel()
	require.Empty(t, reflowed("", 10), "what has no text keeps its summary")
	require.Equal(t, "one two\nthree four\n\n  indented as it is\nfive", reflowed("one two three\nfour\n\n  indented as it is\nfive", 10))
	require.Equal(t, "loooooooooong\none", reflowed("loooooooooong one", 10), "no word is cut")
}

func TestHelpIsAsWideAsAPageOrTheTerminal(t *testing.T) {
	t.Parallel()
	for width, most := range map[int]int{0: pageWidth, 60: 60, 400: 400} {
		root, out := typed("policy", "apply", "--help")
		require.NoError(t, Execute(t.Context(), root, width))
		require.Equal(t, 20, strings.Count(strings.Join(strings.Fields(out.String()), " "), "what to read"), "nothing is cut")
		longest := 0
		for line := range strings.Lines(out.String()) {
			longest = max(longest, len(line)-1)
		}
		require.LessOrEqual(t, longest, most)
		require.Greater(t, longest, most/2)
	}
}
