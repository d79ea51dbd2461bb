package main

import (
	"context"
	"os"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/edict/internal/tour"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a *app) demoCommand() *cobra.Command {
	opt := tour.Options{Out: a.stdout, Project: uuid.MustParse(defaultProject)}
	stories := map[string]func(context.Context, tour.Options) error{"tour": tour.Run, "waves": tour.Waves}
	var story string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what a plane does, on temporary data",
		Long: `Show what a plane does, on temporary data: a plane is started, nodes and policies
are registered, changed and deleted, the process is killed, the log is replayed.
With --story waves, a policy goes to its nodes in waves: one that canaries refuse goes
back by itself, and a good one reaches all nodes.

Every number that is printed is checked. Exit code 1 means that something differed.`,
		Example: `  edict demo
  edict demo --story waves`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if opt.Nodes < tour.LeastNodes || opt.Nodes > tour.MostNodes {
				return cli.Usage(cmd, "--nodes %d: want %d to %d", opt.Nodes, tour.LeastNodes, tour.MostNodes)
			}
			tell := stories[story]
			if tell == nil {
				return cli.Usage(cmd, "--story %q: want tour or waves", story)
			}
			if opt.Binary, err = os.Executable(); err != nil {
				return err
			}
			a.serves.Store(true)
			err = tell(cmd.Context(), opt)
			if err != nil && cmd.Context().Err() == nil {
				return cli.Failed(cli.Differs, "%v", err)
			}
			return err
		},
	}
	cmd.Flags().IntVar(&opt.Nodes, "nodes", tour.MostNodes, "nodes to register, of the tour")
	cmd.Flags().StringVar(&story, "story", "tour", "what to show: tour or waves")
	cmd.Flags().BoolVar(&opt.Keep, "keep", false, "leave the plane serving until interrupted")
	return cmd
}
