package main

import (
	"os"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/edict/internal/tour"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a *app) demoCommand() *cobra.Command {
	opt := tour.Options{Out: a.stdout, Project: uuid.MustParse(defaultProject)}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what a plane does, on temporary data",
		Long: `Show what a plane does, on temporary data: a plane is started, nodes and policies
are registered, changed and deleted, the process is killed, the log is replayed.
Every number that is printed is checked. Exit code 1 means that something differed.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if opt.Nodes < tour.LeastNodes || opt.Nodes > tour.MostNodes {
				return cli.Usage(cmd, "--nodes %d: want %d to %d", opt.Nodes, tour.LeastNodes, tour.MostNodes)
			}
			if opt.Binary, err = os.Executable(); err != nil {
				return err
			}
			err = tour.Run(cmd.Context(), opt)
			if err != nil && cmd.Context().Err() == nil {
				return cli.Failed(cli.Differs, "%v", err)
			}
			return err
		},
	}
	cmd.Flags().IntVar(&opt.Nodes, "nodes", tour.MostNodes, "nodes to register")
	cmd.Flags().BoolVar(&opt.Keep, "keep", false, "leave the plane serving until interrupted")
	return cmd
}
