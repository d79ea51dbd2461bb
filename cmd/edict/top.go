package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// topCommands show who does most, and who is furthest behind.
type topCommands struct{ *app }

func (a topCommands) topCommand() *cobra.Command {
	return group("top", "Show who does most and who is behind, again every second", a.topWorkersCommand(), a.topNodesCommand())
}

func (a topCommands) topWorkersCommand() *cobra.Command {
	var last resource.Status
	var at time.Time
	return a.topOf(&cobra.Command{
		Use: "workers", Short: "Show the workers, the one that is furthest behind first", Args: cli.Args(0, 0),
		Long: `Show the workers, the one that is furthest behind first: what each folded in a second,
since the look before, and how many partitions it publishes. On a terminal it is shown
again every second, else once.`,
	}, func(s resource.Status) error {
		now := time.Now()
		all := topWorkers(s, last, now.Sub(at))
		last, at = s, now
		return a.print(all, func(w io.Writer) { writeTopWorkers(w, s, all) })
	})
}

// topOf is a command that shows something of the plane's status once, or again and again on
// a terminal.
func (a topCommands) topOf(cmd *cobra.Command, show func(resource.Status) error) *cobra.Command {
	var once bool
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.client(cmd)
		if err != nil {
			return err
		}
		look := func() error {
			s, err := c.Status(cmd.Context(), false)
			if err != nil {
				return err
			}
			return show(s)
		}
		if once || !isTerminal(a.stdout) || !a.forPeople() {
			return look()
		}
		return a.watch(cmd.Context(), look)
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "show it once, on a terminal too")
	return cmd
}

// busyWorker is a worker, and what it did since one looked before.
type busyWorker struct {
	resource.Worker
	Partitions int      `json:"partitions"`
	Rate       *float64 `json:"events_per_second,omitempty"` // that it folded; absent at the first look
}

// topWorkers are the workers of a status, those that are furthest behind first; last is the
// status of so long ago.
func topWorkers(s, last resource.Status, ago time.Duration) []busyWorker {
	all := make([]busyWorker, len(s.Workers))
	for i, w := range workersIn(s) {
		all[i] = busyWorker{w.Worker, len(w.Partitions), nil}
		before := slices.IndexFunc(last.Workers, func(x resource.Worker) bool { return x.Owner == w.Owner })
		if before >= 0 && ago > 0 && w.Applied >= last.Workers[before].Applied {
			rate := float64(w.Applied-last.Workers[before].Applied) / ago.Seconds()
			all[i].Rate = &rate
		}
	}
	slices.SortStableFunc(all, func(x, y busyWorker) int { return cmp.Compare(y.Lag, x.Lag) })
	return all
}

func writeTopWorkers(w io.Writer, s resource.Status, all []busyWorker) {
	fmt.Fprintf(w, "Log:   head %d, %s, %s\n", s.Head, cli.Counted(s.Policies, "policy"), cli.Counted(s.Nodes, "node"))
	if c := s.Convergence; c != nil {
		fmt.Fprintf(w, "Nodes: %s\n", standingText(*c))
	}
	fmt.Fprintln(w)
	rows := make([][]string, len(all))
	for i, x := range all {
		rate := "-"
		if x.Rate != nil {
			rate = fmt.Sprintf("%.0f", *x.Rate)
		}
		rows[i] = []string{x.Name, fmt.Sprint(x.Applied), fmt.Sprint(x.Lag), rate, fmt.Sprint(x.Partitions), stamp(x.Started)}
	}
	columns(w, []string{"worker", "folded", "behind", "events/s", "partitions", "started"}, rows)
}

func (a topCommands) topNodesCommand() *cobra.Command {
	return a.topOf(&cobra.Command{
		Use: "nodes", Short: "Show the nodes that have not applied what they must", Args: cli.Args(0, 0),
		Long: `Show the nodes that lag, refused or are silent, those that do for the longest first: the
first of them, as many as the plane's status names. On a terminal it is shown again every
second, else once.`,
	}, func(s resource.Status) error {
		if s.Convergence == nil {
			return cli.Failed(cli.Unavailable, "the worker has not read yet what nodes reported; ask again")
		}
		all := s.Convergence.Lagging
		return a.print(all, func(w io.Writer) { writeTopNodes(w, *s.Convergence) })
	})
}

func writeTopNodes(w io.Writer, c resource.Convergence) {
	fmt.Fprintln(w, standingText(c))
	if len(c.Lagging) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows := make([][]string, len(c.Lagging))
	for i, l := range c.Lagging {
		since := "-"
		if l.Since != nil {
			since = stamp(*l.Since)
		}
		rows[i] = []string{l.NodeID, since}
	}
	columns(w, []string{"node", "not applied since"}, rows)
}
