package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/cmd/internal/cli"
)

const nodeLine = `{"id":"web-1","labels":{"role":"web"},"addresses":["10.0.0.7"]}`

func (a nodeCommands) nodeImportCommand() *cobra.Command {
	var file string
	var dry bool
	cmd := &cobra.Command{
		Use:   "import -f FILE",
		Short: "Register many nodes from NDJSON",
		Long: `Register many nodes, or give them other facts, from lines such as
  ` + nodeLine + `
Lines that are wrong are reported and change nothing; the others are applied. The
file may be compressed with gzip. With --dry-run the plane judges each line by what is
there now, and not by the lines before it.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.nodeImport(cmd, file, dry) },
	}
	a.nodeClient(cmd)
	dryRunFlag(cmd, &dry)
	cmd.Flags().StringVarP(&file, "file", "f", "", "file to read, - for stdin")
	return cmd
}

func (a nodeCommands) nodeImport(cmd *cobra.Command, file string, dry bool) error {
	if file == "" {
		return cli.Usage(cmd, "nothing to read; say -f FILE, or -f - for stdin")
	}
	c, project, err := a.plane(cmd)
	if err != nil {
		return err
	}
	input, name, total, err := a.lines(file)
	if err != nil {
		return cli.Failed(cli.Unreadable, "%v", err)
	}
	defer input.Close()
	first, whole, err := firstByte(input)
	switch {
	case err != nil:
		return cli.Failed(cli.Unreadable, "%s: %v", name, err)
	case first == 0:
		return cli.Failed(cli.Unreadable, "no node in %s", name)
	case first != '{' && first != ' ':
		return cli.Failed(cli.Unreadable, "%s is not NDJSON: want a line a node, such as %s", name, nodeLine)
	}
	bar := progress.Start(a.stderr, "importing", "lines", total)
	sent := &lineCounter{r: whole, bar: bar, some: new(bool)}
	result, err := c.Nodes.Import(cmd.Context(), project, sent, dryCalls(dry)...)
	bar.Stop()
	if unread := sent.failed.Load(); err != nil && unread != nil && cmd.Context().Err() == nil {
		return cli.Failed(cli.Unreadable, "%s: %v; nodes of the lines before may be registered", name, *unread)
	}
	if err != nil {
		return err
	}
	for _, r := range result.Rejected {
		fmt.Fprintf(a.stderr, "%s:%d: node/%s: %s (%s)\n", name, r.Line, r.ID, r.Detail, r.Code)
	}
	if err := a.print(result, func(w io.Writer) { writeImported(w, result, dry) }); err != nil {
		return err
	}
	if len(result.Rejected) > 0 {
		return cli.Exit(cli.Differs)
	}
	return nil
}

func writeImported(w io.Writer, r resource.BatchResult, dry bool) {
	fmt.Fprintf(w, "%s registered, %d unchanged, %d rejected%s\n", cli.Counted(r.Applied, "node"), r.Unchanged, len(r.Rejected), dryNote(dry))
}
