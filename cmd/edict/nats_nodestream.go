package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/streams"
)

func (a natsCommands) natsNodeStreamCommand() *cobra.Command {
	return group("node-stream", "Keep the last message of each subject of a node in a stream",
		a.nodeStreamCreateCommand(), a.nodeStreamDeleteCommand())
}

func (a natsCommands) nodeStreamCreateCommand() *cobra.Command {
	var f logFlags
	var replicas int
	var dry bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make the stream " + streams.NodeEventsStream + " over edict.node.>",
		Long: `Make a JetStream stream that takes in the messages for nodes on NATS, and keeps
the last message of each subject: for durable consumers, for an audit, or to know
the last messages while the plane is down. It holds what is published from now
on. Two workers that publish the same message at the hand-over of a partition
leave it there once.

The plane does not need the stream, and does not read it. While it is there,
everything is published, whether or not anybody else listens.

The server is that of the plane at --server, or another (--nats, EDICT_NATS).`,
		Example: `  edict nats node-stream create
  edict nats node-stream create --nats nats://a:4222 --replicas 1
  nats consumer add EDICT_NODE_EVENTS audit`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("replicas") && (replicas < 1 || replicas > 5) {
				return cli.Usage(cmd, "--replicas %d: must be 1 to 5", replicas)
			}
			f.replicas = replicas
			return a.withServer(cmd, f, func(conn *streams.Conn) error {
				if dry {
					return a.nodeStreamDry(cmd, conn, false)
				}
				n, made, err := streams.CreateNodeStream(cmd.Context(), conn)
				if err != nil {
					return nodeStreamError(cmd, conn, err)
				}
				if made {
					fmt.Fprintf(a.stderr, "edict: made stream %s; it holds what nodes are sent from now on\n", streams.NodeEventsStream)
					return nil
				}
				fmt.Fprintf(a.stderr, "edict: stream %s is there since %s, with %s\n", streams.NodeEventsStream, stamp(n.Created), cli.Counted(n.Messages, "message"))
				return nil
			})
		},
	}
	a.clientFlags(cmd)
	a.logSourceFlags(cmd, &f)
	cmd.Flags().IntVar(&replicas, "replicas", 0, "servers that keep it, 1 to 5 (default those that keep the log)")
	dryRunFlag(cmd, &dry)
	return cmd
}

// nodeStreamError names the stream of an older release, which has the subjects.
func nodeStreamError(cmd *cobra.Command, conn *streams.Conn, err error) error {
	if old, oldErr := streams.HasOldNodes(cmd.Context(), conn); oldErr == nil && old {
		return cli.Failed(cli.Conflict, "%v; stream %s of an older edict has its subjects: delete it when no worker of that release runs", err, streams.OldNodesStream)
	}
	return err
}

func (a natsCommands) nodeStreamDeleteCommand() *cobra.Command {
	var f logFlags
	var yes, dry bool
	cmd := &cobra.Command{
		Use:     "delete",
		Short:   "Delete the stream, with the consumers on it",
		Long:    "Delete the stream " + streams.NodeEventsStream + ", with the consumers on it. Nothing of the plane depends on it.",
		Example: `  edict nats node-stream delete --yes`,
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes && !dry {
				return cli.Usage(cmd, "consumers of %s lose their place: say --yes to delete it", streams.NodeEventsStream)
			}
			return a.withServer(cmd, f, func(conn *streams.Conn) error {
				if dry {
					return a.nodeStreamDry(cmd, conn, true)
				}
				err := streams.DeleteNodeStream(cmd.Context(), conn)
				if errors.Is(err, streams.ErrNotFound) {
					return cli.Failed(cli.NotFound, "there is no stream %s on that server", streams.NodeEventsStream)
				}
				if err == nil {
					fmt.Fprintf(a.stderr, "edict: deleted stream %s\n", streams.NodeEventsStream)
				}
				return err
			})
		},
	}
	a.clientFlags(cmd)
	a.logSourceFlags(cmd, &f)
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	dryRunFlag(cmd, &dry)
	return cmd
}

// nodeStreamDry says whether there is the stream, and what would become of it.
func (a natsCommands) nodeStreamDry(cmd *cobra.Command, conn *streams.Conn, ends bool) error {
	there, err := streams.HasNodeStream(cmd.Context(), conn)
	switch {
	case err != nil:
		return err
	case ends && !there:
		return cli.Failed(cli.NotFound, "there is no stream %s on that server", streams.NodeEventsStream)
	case ends:
		return a.tellDry("stream/"+streams.NodeEventsStream, "deleted")
	case there:
		return a.tellDry("stream/"+streams.NodeEventsStream, "unchanged")
	}
	return a.tellDry("stream/"+streams.NodeEventsStream, "created")
}

// withServer gives do a connection to the server that has the log.
func (a natsCommands) withServer(cmd *cobra.Command, f logFlags, do func(*streams.Conn) error) error {
	src, err := a.openServer(cmd, f)
	if err != nil {
		return err
	}
	defer src.close()
	return do(src.conn)
}
