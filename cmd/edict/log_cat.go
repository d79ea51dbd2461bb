package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/archive"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

func (a archiveCommands) logCatCommand() *cobra.Command {
	var from, until uint64
	cmd := &cobra.Command{
		Use: "cat ARCHIVE", Short: "Print the events of an archive", Args: cli.Args(1, 1),
		Long: `Print the events of an archive that edict log export made: a directory of segments,
one in a bucket (s3://bucket/prefix), or one segment. With -o json each event is the line that the archive has. Every
segment that is read is proved; no plane is asked.`,
		Example: `  edict log cat ./archive --from 4700
  edict log cat ./archive -o json | jq -r '.body | fromjson? | .type?'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case !cmd.Flags().Changed("until"):
				until = math.MaxUint64
			case until == 0:
				return cli.Usage(cmd, "--until 0: the first event of a log is 1, and an archive begins with 1 or later")
			case from > until:
				return cli.Usage(cmd, "--from %d is behind --until %d: no event lies between", from, until)
			}
			ar, err := archive.Open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.cat(cmd.Context(), ar.Between(from, until))
		},
	}
	a.outputFlag(cmd)
	cmd.Flags().Uint64Var(&from, "from", 0, "first event (default the archive's first)")
	cmd.Flags().Uint64Var(&until, "until", 0, "last event (default the archive's last)")
	return cmd
}

func (a archiveCommands) cat(ctx context.Context, events iter.Seq2[streams.Message, error]) error {
	out := bufio.NewWriter(a.stdout)
	title, none := a.format == formatTable, true
	for m, err := range events {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && title {
			_, err = fmt.Fprintf(out, catRow, "SEQ", "TIME", "TYPE", "BYTES", "SUBJECT")
			title = false
		}
		if err == nil {
			err, none = a.catEvent(out, &m), false
		}
		if err != nil {
			_ = out.Flush() // what was sound is shown
			return err
		}
	}
	if none {
		fmt.Fprintln(a.stderr, "the archive has no event there: edict log verify --archive shows which it has")
	}
	return out.Flush()
}

// catRow is a row of the table, which is written as it is read: an archive may be
// larger than memory.
const catRow = "%-10v %-20s %-26s %8v   %s\n"

func (a archiveCommands) catEvent(out *bufio.Writer, m *streams.Message) error {
	line := archive.Line(m)
	switch a.format {
	case formatJSON:
		_, err := out.Write(line)
		return err
	case formatYAML:
		if _, err := io.WriteString(out, "---\n"); err != nil {
			return err
		}
		to := console{stdout: out}
		return to.printYAML(json.RawMessage(line))
	}
	kind := m.Get(wire.HeaderCEType)
	if e, _ := policy.Decode(m.Body); e != nil { // what was folded, whatever the header says
		kind = e.EventType()
	}
	if kind == "" {
		kind = "-"
	}
	// A producer, or whoever wrote the archive, chose both.
	_, err := fmt.Fprintf(out, catRow, m.Seq, m.Time.Format(time.RFC3339), cli.Escaped(kind, ""), len(m.Body), cli.Escaped(m.Subject, ""))
	return err
}
