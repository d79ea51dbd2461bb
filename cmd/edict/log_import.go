package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/archive"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
)

// newPlaneFlags say where a log is made.
type newPlaneFlags struct {
	data     string
	nats     string
	replicas int
	dry      bool
}

func (a archiveCommands) newPlaneFlags(cmd *cobra.Command, f *newPlaneFlags) {
	cmd.Flags().StringVar(&f.data, "data", "", "new data directory, of a plane with an embedded server")
	cmd.Flags().StringVar(&f.nats, "nats", "", "URL of NATS servers that have no log, in place of --data")
	cmd.Flags().IntVar(&f.replicas, "replicas", 1, "servers that keep the log, of those of --nats")
	a.natsCredsFlag(cmd)
	a.natsContextFlag(cmd, false)
	dryRunFlag(cmd, &f.dry)
}

func (f newPlaneFlags) check(cmd *cobra.Command) error {
	if (f.data == "") == (f.nats == "") {
		return cli.Usage(cmd, "say where the log goes: --data, a new data directory, or --nats, servers without a log")
	}
	if f.data != "" && cmd.Flags().Changed("replicas") {
		return cli.Usage(cmd, "--replicas is for the servers of --nats: a data directory has one")
	}
	return nil
}

// newPlane is where a log is made: servers of others, or a data directory in the
// making. Close it.
type newPlane struct {
	*logSource
	fresh *datadir.Fresh // nil: servers of others
}

func (a archiveCommands) openNewPlane(ctx context.Context, f newPlaneFlags) (*newPlane, error) {
	if f.nats != "" {
		src, err := a.openConn(ctx, logFlags{nats: f.nats, replicas: f.replicas}, nil)
		return &newPlane{logSource: src}, err
	}
	fresh, err := datadir.MakeFresh(datadir.Dir(f.data))
	if err != nil {
		return nil, err
	}
	// Nothing is promised before Finish has it all on the disk.
	server, err := streams.StartServer(streams.ServerOptions{Dir: fresh.Dir().NATS(), Relaxed: true})
	if err != nil {
		fresh.Close()
		return nil, err
	}
	conn, err := streams.Connect(ctx, streams.ConnectOptions{Server: server, Name: "edict"})
	if err != nil {
		server.Close()
		fresh.Close()
		return nil, err
	}
	return &newPlane{&logSource{conn: conn, close: func() { conn.Close(); server.Close() }}, fresh}, nil
}

// newPlaneDry says what would be made, once the place for it was looked at.
func (a archiveCommands) newPlaneDry(ctx context.Context, f newPlaneFlags, from string, e archive.Extent) error {
	err := datadir.Dir(f.data).Free()
	if f.nats != "" {
		err = a.serversFree(ctx, f)
	}
	if err != nil {
		return err
	}
	return a.tellDry(from, fmt.Sprintf("made the log of %s, events %d to %d", f, e.First, e.Last))
}

// serversFree refuses servers that take no log.
func (a archiveCommands) serversFree(ctx context.Context, f newPlaneFlags) error {
	src, err := a.openConn(ctx, logFlags{nats: f.nats, replicas: f.replicas}, nil)
	if err != nil {
		return err
	}
	defer src.close()
	return streams.CanPutBack(ctx, src.conn)
}

// finish closes it, and puts a data directory in its place.
func (p *newPlane) finish() error {
	p.close()
	if p.fresh == nil {
		return nil
	}
	defer p.fresh.Close()
	return p.fresh.Finish()
}

// abandon closes it; what was made is left, and nothing starts on it.
func (p *newPlane) abandon() {
	p.close()
	if p.fresh != nil {
		p.fresh.Close()
	}
}

func (a archiveCommands) logImportCommand() *cobra.Command {
	var f newPlaneFlags
	var opt archive.ImportOptions
	var from string
	cmd := &cobra.Command{
		Use: "import --from DIR", Short: "Make the log of a new plane from an archive", Args: cli.Args(0, 0),
		Long: `Make a log from an archive (edict log export), for a plane that is new: in a data
directory that is empty, or on NATS servers that have no log (--nats). Sequences,
times and bytes are those of the archive. It is proved before anything is written,
and the new log is read back and compared before a plane can use it.

Event ids go on as they were, so nodes notice nothing. This is right for a move: the
old plane was stopped, and the archive was exported after that. If the old plane may
have sent nodes what the archive does not have, say --restored: ids begin anew, and
every node pulls once.

An archive of a log that was compacted begins at the origin, has it, and brings it.

After a crash run the same command again. The servers need nats-server 2.15.`,
		Example: `  edict log import --from ./archive --data ./data
  edict log import --from ./archive --nats nats://10.0.0.1:4222 --replicas 3 --restored`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Required(cmd, "from"); err != nil {
				return err
			}
			if err := f.check(cmd); err != nil {
				return err
			}
			return a.logImport(cmd.Context(), f, from, opt)
		},
	}
	a.outputFlag(cmd)
	a.newPlaneFlags(cmd, &f)
	cmd.Flags().StringVar(&from, "from", "", "`directory` of the archive, or s3://bucket/prefix")
	cmd.Flags().BoolVar(&opt.Restored, "restored", false, "nodes may know more than the archive: event ids begin anew, and every node pulls once")
	return cmd
}

func (a archiveCommands) logImport(ctx context.Context, f newPlaneFlags, from string, opt archive.ImportOptions) error {
	ar, err := archive.Open(ctx, from)
	if err != nil {
		return err
	}
	e, err := ar.Whole(ctx) // before anything is written
	if err != nil {
		return err
	}
	if f.dry {
		if _, _, err := ar.Origin(); err != nil {
			return err
		}
		return a.newPlaneDry(ctx, f, from, e)
	}
	p, err := a.openNewPlane(ctx, f)
	if err != nil {
		return err
	}
	if err := a.importInto(ctx, ar, p, e, opt); err != nil {
		p.abandon()
		return err
	}
	if err := p.finish(); err != nil {
		return err
	}
	return a.print(e, func(w io.Writer) {
		writeExtent(w, from, e)
		fmt.Fprintf(w, "Imported:   into %s\n", f)
	})
}

// String names the plane, without a password that a URL may hold.
func (f newPlaneFlags) String() string {
	if f.data != "" {
		return f.data
	}
	return streams.PublicURLs(f.nats)
}

// importInto imports an archive and shows how far that is.
func (a archiveCommands) importInto(ctx context.Context, ar *archive.Archive, p *newPlane, e archive.Extent, opt archive.ImportOptions) (err error) {
	bar := progress.Start(a.stderr, "importing", "events", int64(e.Last+1-e.First))
	defer bar.Stop()
	opt.Passed = func(seq uint64) { bar.Set(int64(seq + 1 - e.First)) }
	opt.Origin = func(ctx context.Context, log *streams.Log, o streams.Origin, object io.Reader) error {
		dir, cleanup, err := scratch("")
		if err != nil {
			return err
		}
		defer cleanup()
		src := logSource{log: log}
		return snapshot.PutOrigin(ctx, p.conn, log, o, object, filepath.Join(dir, "origin"), src.storeOptions(o.Seq))
	}
	p.log, err = ar.Import(ctx, p.conn, opt)
	return err
}
