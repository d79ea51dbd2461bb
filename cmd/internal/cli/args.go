package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NoCommand refuses a word that is no command, with the words that are close.
func NoCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if instead := cmd.Annotations[insteadOf+args[0]]; instead != "" {
		hint = "; that is done by: " + instead
	} else if meant := cmp.Or(nearest(cmd, args[0]), turned(cmd, args)); meant != "" {
		hint = fmt.Sprintf("; did you mean %q?", meant)
	}
	return Usage(cmd, "unknown command %q%s", args[0], hint)
}

const insteadOf = "instead of "

// Instead says what does what a word that is no command of cmd may be looked for.
func Instead(cmd *cobra.Command, word, does string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[insteadOf+word] = does
}

// nearest is the command below cmd whose name is closest to a word, or that is suggested
// for it; "": none is close.
func nearest(cmd *cobra.Command, word string) string {
	defer func(before int) { cmd.SuggestionsMinimumDistance = before }(cmd.SuggestionsMinimumDistance)
	for distance := range min(2, len(word)/2) + 1 {
		cmd.SuggestionsMinimumDistance = distance
		if near := cmd.SuggestionsFor(word); len(near) > 0 {
			return near[0]
		}
	}
	return ""
}

// turned is the command that was meant by one whose words are in the order of other
// programs: of get nodes, node get; "": there is none.
func turned(cmd *cobra.Command, args []string) string {
	if len(args) < 2 {
		return ""
	}
	kind := nearest(cmd, args[1])
	for _, below := range cmd.Commands() {
		if below.Name() != kind && below.Name() != args[1] {
			continue
		}
		for _, verb := range below.Commands() {
			if verb.Name() == args[0] {
				return below.Name() + " " + verb.Name()
			}
		}
	}
	return ""
}

// FlagError is an error of flags. Where a word before them is no command, that is what is
// wrong: the flags are those of the command that was meant.
func FlagError(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return NoCommand(cmd, words)
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if near := nearFlag(cmd, unknown.GetSpecifiedName()); near != "" {
			return Usage(cmd, "%v; did you mean --%s?", err, near)
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		if want := wanted(invalid); want != "" {
			return Usage(cmd, "--%s %.80q: %s", invalid.GetFlag().Name, invalid.GetValue(), want)
		}
	}
	return Usage(cmd, "%v", err)
}

// wanted says what a flag takes that did not take a value; "": its own words do. What the
// standard library says of a number names a function of its own.
func wanted(e *pflag.InvalidValueError) string {
	kind := e.GetFlag().Value.Type()
	var number *strconv.NumError
	switch {
	case kind == "duration":
		return "want a time such as 30s or 5m"
	case !errors.As(e, &number):
		return ""
	case errors.Is(number, strconv.ErrRange):
		if strings.HasPrefix(e.GetValue(), "-") {
			return "that is too small"
		}
		return "that is too large"
	case strings.HasPrefix(kind, "uint"):
		return "want a whole number, 0 or more"
	case strings.HasPrefix(kind, "int"):
		return "want a whole number"
	case strings.HasPrefix(kind, "float"):
		return "want a number"
	case kind == "bool":
		return "want true or false"
	}
	return ""
}

// nearFlag is the flag of cmd whose name is closest to a word; "": none is close.
func nearFlag(cmd *cobra.Command, word string) string {
	names := new(cobra.Command) // who suggests commands suggests flags as well
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}, Hidden: f.Hidden})
	})
	return nearest(names, word)
}

// Args checks how many arguments a command got, and says which it takes.
func Args(from, to int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < from || to >= 0 && len(args) > to {
			meant := ""
			if to == 0 {
				meant = filesMeant(cmd, args)
			}
			return Usage(cmd, "got %s; %susage: %s", Counted(len(args), "argument"), meant, cmd.UseLine())
		}
		return nil
	}
}

// filesMeant asks whether arguments were meant to be files, of a command that takes these
// with -f.
func filesMeant(cmd *cobra.Command, args []string) string {
	f := cmd.Flags().Lookup("file")
	if f == nil || f.Shorthand != "f" {
		return ""
	}
	return "did you mean -f " + strings.Join(args, " -f ") + "? "
}

// Required demands flags that have no default.
func Required(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f.Value.String() == "" || f.Value.String() == "[]" {
			_, usage := pflag.UnquoteUsage(f)
			return Usage(cmd, "--%s is required: %s", name, usage)
		}
	}
	return nil
}
