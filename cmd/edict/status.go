package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/doctor"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// statusCommands show how the plane is doing.
type statusCommands struct{ *app }

func (a statusCommands) statusCommand() *cobra.Command {
	var rejected, digest, watch bool
	var after uint64
	cmd := &cobra.Command{
		Use: "status", Short: "Show how the plane is doing", Args: cli.Args(0, 0),
		Long: `Show how the plane is doing: its workers and how far each has folded the log; who
publishes to which partitions of the nodes on NATS, up to which event; and how long
a node can be away and still be sent what it missed, without pulling.

With -w it is shown again every second: in place on a terminal, one after the
other in a pipe, and with -o json as one object a line.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rejected && (watch || digest) {
				return cli.Usage(cmd, "--rejected lists events, once: it excludes --watch and --digest")
			}
			if !rejected && cmd.Flags().Changed("after") {
				return cli.Usage(cmd, "--after goes with --rejected")
			}
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			if rejected {
				return a.statusRejected(cmd, c, after)
			}
			if watch {
				return a.statusWatch(cmd.Context(), c, digest)
			}
			s, err := c.Status(cmd.Context(), digest)
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { writeStatus(w, s) })
		},
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	cmd.Flags().BoolVar(&rejected, "rejected", false, "list the events that the fold rejected, and why")
	cmd.Flags().Uint64Var(&after, "after", 0, "with --rejected: those above this log sequence")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again every second")
	cmd.Flags().BoolVar(&digest, "digest", false, "add the digest of the state, to compare with a replay's")
	return cmd
}

func (a statusCommands) statusRejected(cmd *cobra.Command, c *client.Client, after uint64) error {
	const page = 200
	all := []resource.Rejection{}
	for {
		got, err := c.Rejected(cmd.Context(), after, page)
		if err != nil {
			return err
		}
		all = append(all, got.Items...)
		if got.NextCursor == nil || len(got.Items) == 0 {
			break
		}
		after = got.Items[len(got.Items)-1].Seq
	}
	return a.print(all, func(w io.Writer) {
		rows := make([][]string, len(all))
		for i, r := range all {
			rows[i] = []string{fmt.Sprint(r.Seq), stamp(r.Time), r.Code, r.Subject, r.Detail}
		}
		columns(w, []string{"seq", "time", "code", "subject", "detail"}, rows)
	})
}

// originText says where a log begins that was compacted.
func originText(l resource.LogStatus) string {
	if l.Archive == "" {
		return fmt.Sprintf("event %d", l.Begins)
	}
	return fmt.Sprintf("event %d; %s has what was before", l.Begins, l.Archive)
}

func writeStatus(w io.Writer, s resource.Status) {
	fmt.Fprintf(w, "Log:         head %d, folded up to %d, %s, created %s\n", s.Head, s.Applied, sizeText(s.Log.Bytes), stamp(s.Log.Created))
	if s.Log.Begins > 0 {
		fmt.Fprintf(w, "Origin:      %s\n", originText(s.Log))
	}
	fmt.Fprintf(w, "Growth:      %s\n", growthText(s.Log))
	fmt.Fprintf(w, "State:       %s, %s of %s\n", cli.Counted(s.Policies, "policy"), cli.Counted(s.Nodes, "node"), cli.Counted(s.Identities, "label set"))
	if c := s.Convergence; c != nil {
		fmt.Fprintf(w, "Nodes:       %s\n", convergenceText(*c))
	}
	fmt.Fprintf(w, "Rejected:    %s\n", cli.Counted(s.Rejected, "event"))
	fmt.Fprintf(w, "Durability:  %s\n", doctor.DurabilityText(s.Durability))
	fmt.Fprintf(w, "Projects:    %s\n", sharesText(s.Shares))
	if s.Digest != "" {
		fmt.Fprintf(w, "Digest:      %s\n", s.Digest)
	}
	fmt.Fprintf(w, "Published:   %s\n", publishedText(s))
	fmt.Fprintf(w, "Resume:      %s\n\n", pastText(s.Past))
	workerTable(w, s)
	fmt.Fprintln(w)
	partitionTable(w, s.Partitions)
}
