package cli

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// What a command was not given, or not in that way, is said as a person reads it.
func TestArgumentsAreAskedForInWords(t *testing.T) {
	t.Parallel()
	cmd := &cobra.Command{Use: "write -f FILE"}
	dir := cmd.Flags().String("to", "", "`directory` to write to")
	require.ErrorContains(t, Required(cmd, "to"), "--to is required: directory to write to\n")
	*dir = "x"
	require.NoError(t, Required(cmd, "to"))

	none := Args(0, 0)
	require.ErrorContains(t, none(cmd, []string{"web.yaml"}), "got 1 argument; usage: write -f FILE")
	require.ErrorContains(t, none(cmd, []string{"a", "b"}), "got 2 arguments; usage: ")
	cmd.Flags().StringArrayP("file", "f", nil, "file to read")
	require.ErrorContains(t, none(cmd, []string{"a.yaml"}), "got 1 argument; did you mean -f a.yaml? usage: ")
	require.ErrorContains(t, none(cmd, []string{"a", "b"}), "did you mean -f a -f b? usage: ")
}

// A shell that there are no completions for is refused, and not answered with the help.
func TestCompletionOfAnotherShellIsNoCommand(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "root", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(&cobra.Command{Use: "below", Run: func(*cobra.Command, []string) {}})
	var out bytes.Buffer
	root.SetOut(&out)
	Completion(root)
	root.SetArgs([]string{"completion", "tcsh"})
	require.ErrorContains(t, root.Execute(), `unknown command "tcsh"`)
	root.SetArgs([]string{"completion", "bash"})
	require.NoError(t, root.Execute())
	require.Contains(t, out.String(), "bash completion")
	out.Reset()
	root.SetArgs([]string{"completion", "--help"})
	require.NoError(t, root.Execute())
	require.Contains(t, out.String(), "source <(root completion bash)", "how it is loaded")
	require.Contains(t, out.String(), "package bash-completion", "what it needs")
}

// A value that a flag does not take is answered with what it takes, and not with the words
// of the library that reads it.
func TestAValueThatAFlagDoesNotTake(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"--nodes=-1":                    `--nodes "-1": want a whole number, 0 or more`,
		"--nodes=1.5":                   `--nodes "1.5": want a whole number, 0 or more`,
		"--nodes=":                      `--nodes "": want a whole number, 0 or more`,
		"--nodes=99999999999999999999":  `--nodes "99999999999999999999": that is too large`,
		"--shift=x":                     `--shift "x": want a whole number`,
		"--shift=-99999999999999999999": `--shift "-99999999999999999999": that is too small`,
		"--part=much":                   `--part "much": want a number`,
		"--part=1e99":                   `--part "1e99": that is too large`,
		"--after=5":                     `--after "5": want a time such as 30s or 5m`,
		"--dry=maybe":                   `--dry "maybe": want true or false`,
	} {
		cmd := &cobra.Command{Use: "write", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return nil }}
		f := cmd.Flags()
		f.Uint64("nodes", 0, "")
		f.Int("shift", 0, "")
		f.Float32("part", 0, "")
		f.Duration("after", 0, "")
		f.Bool("dry", false, "")
		cmd.SetFlagErrorFunc(FlagError)
		cmd.SetArgs([]string{arg})
		require.ErrorContains(t, cmd.Execute(), want+"\nSee ", arg)
	}
}
