package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// nodeDeleteFlags say which nodes go.
type nodeDeleteFlags struct {
	selector, file string
	dry, yes       bool
}

func (a nodeCommands) nodeDeleteCommand() *cobra.Command {
	var f nodeDeleteFlags
	cmd := &cobra.Command{
		Use: "delete ID... | -l SELECTOR | -f FILE", Short: "Remove nodes", Args: cli.Args(0, -1),
		Long: `Remove nodes: those that are named, those that a selector matches, or those of a file of
lines such as 'edict node import' takes, by their ids; what the lines say otherwise does
not count. A selector and a file are asked about first: answer on the terminal, or say
--yes. A node that is removed is sent nothing any more.`,
		Example: `  edict node delete web-1 web-2
  edict node delete -l env==dev --dry-run
  edict node delete -f gone.ndjson --yes`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.nodeDelete(cmd, f, args) },
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	selectorFlag(cmd, &f.selector)
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "file to read, - for stdin")
	dryRunFlag(cmd, &f.dry)
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask before the nodes of a selector or a file are removed")
	return cmd
}

func (a nodeCommands) nodeDelete(cmd *cobra.Command, f nodeDeleteFlags, ids []string) error {
	ways := 0
	for _, given := range []bool{len(ids) > 0, f.selector != "", f.file != ""} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return cli.Usage(cmd, "name nodes, or those of a selector with -l, or those of a file with -f")
	}
	c, project, err := a.plane(cmd)
	if err != nil {
		return err
	}
	named := len(ids) > 0
	switch {
	case f.selector != "":
		ids, err = selected(cmd.Context(), c, project, f.selector)
	case f.file != "":
		ids, err = a.nodesOfFile(f.file)
	}
	if err == nil && !named && !f.dry && !f.yes && len(ids) > 0 {
		err = a.confirm(cmd, "remove "+cli.Counted(len(ids), "node")+": "+some(ids))
	}
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		fmt.Fprintln(a.stderr, "edict: there is no such node")
	}
	return each(ids, func(id string) error {
		if err := c.Nodes.Delete(cmd.Context(), project, id, dryCalls(f.dry)...); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.stdout, "node/%s deleted%s\n", id, dryNote(f.dry))
		return err
	})
}

// selected are the ids of the nodes that a selector matches.
func selected(ctx context.Context, c *client.Client, project uuid.UUID, selector string) (ids []string, err error) {
	for n, err := range c.Nodes.All(ctx, project, selectorOf(selector)) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, n.ID)
	}
	return ids, nil
}

// maxNodeLine is the longest line that names a node, as the plane has it for nodes that are
// imported. A file that is another one may have no end of a line.
const maxNodeLine = 64 << 10

// nodesOfFile are the ids of a file's lines, each once. If a line has none, nobody is removed.
func (a nodeCommands) nodesOfFile(file string) (ids []string, err error) {
	input, name, _, err := a.lines(file)
	if err != nil {
		return nil, cli.Failed(cli.Unreadable, "%v", err)
	}
	defer input.Close()
	in := bufio.NewReaderSize(input, maxNodeLine+2) // with its end
	seen := map[string]bool{}
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, cli.Failed(cli.Unreadable, "%s:%d: the line is longer than %d bytes; nothing was removed", name, n, maxNodeLine)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			var node struct{ ID string }
			if json.Unmarshal(text, &node) != nil || node.ID == "" {
				return nil, cli.Failed(cli.Unreadable, "%s:%d: want a JSON object with the id of a node; nothing was removed", name, n)
			}
			if !seen[node.ID] {
				ids = append(ids, node.ID)
			}
			seen[node.ID] = true
		}
		if errors.Is(err, io.EOF) {
			return ids, nil
		}
		if err != nil {
			return nil, cli.Failed(cli.Unreadable, "%s: %v", name, err)
		}
	}
}
