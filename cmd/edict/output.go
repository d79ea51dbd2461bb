package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// Formats of -o.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// console is where a command reads and writes, and in which form.
type console struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	format         string // of -o; of jsonpath=TEMPLATE what is before the =
	path           string // that template
	sortBy         string // of --sort-by: a column
}

// outputFlag gives a command -o.
func (a *console) outputFlag(cmd *cobra.Command) {
	a.formatFlag(cmd, formatTable, formatJSON, formatYAML)
}

// formatFlag gives a command -o with these formats.
func (a *console) formatFlag(cmd *cobra.Command, formats ...string) {
	last := len(formats) - 1
	want := strings.Join(formats[:last], ", ") + " or " + formats[last]
	if formats[last] == formatJSONPath {
		want += "=TEMPLATE"
	}
	cmd.Flags().StringVarP(&a.format, "output", "o", formatTable, want)
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		format, path, given := strings.Cut(a.format, "=")
		if !slices.Contains(formats, format) || given != (format == formatJSONPath) {
			return cli.Usage(cmd, "-o %q: want %s", a.format, want)
		}
		if a.format, a.path = format, path; given {
			if _, err := readPath(path); err != nil {
				return cli.Usage(cmd, "-o jsonpath: %v", err)
			}
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
	_ = cmd.RegisterFlagCompletionFunc("output", // the flag was just made
		cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// forPeople reports whether what is printed is for people, and not for programs.
func (a *console) forPeople() bool { return a.format == formatTable || a.format == formatWide }

// forPrograms reports whether also what goes wrong is for programs to read.
func (a *console) forPrograms() bool { return a.format == formatJSON || a.format == formatNDJSON }

// print writes v as a program reads it, or lets people have their form of it.
func (a *console) print(v any, people func(w io.Writer)) error {
	switch a.format {
	case formatJSON:
		return a.printJSON(v)
	case formatYAML:
		return a.printYAML(v)
	case formatJSONPath:
		return a.printPath(v, a.path)
	}
	people(cli.Broken(a.stdout))
	return nil
}

func (a *console) printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", b)
	return err
}

func (a *console) printYAML(v any) error {
	out, err := yamlOf(v)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(out)
	return err
}

// yamlOf is the same document as JSON would be: the same names, in the same order.
func yamlOf(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	blockStyle(&doc)
	return yaml.Dump(&doc)
}

// blockStyle has the text laid out as people write YAML, quotes where they are
// needed alone.
func blockStyle(n *yaml.Node) {
	n.Style &^= yaml.FlowStyle | yaml.DoubleQuotedStyle
	if len(n.Content) == 0 && (n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode) {
		n.Style |= yaml.FlowStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// trimmed takes the padding off the ends of lines.
type trimmed struct{ w io.Writer }

func (t trimmed) Write(p []byte) (int, error) {
	lines := strings.Split(string(p), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	_, err := io.WriteString(t.w, strings.Join(lines, "\n"))
	return len(p), err
}
