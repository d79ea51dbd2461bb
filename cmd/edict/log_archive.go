package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/archive"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
)

// archiveCommands write archives of the log, and read them.
type archiveCommands struct{ *app }

func (a archiveCommands) logExportCommand() *cobra.Command {
	var f logFlags
	var opt archive.ExportOptions
	cmd := &cobra.Command{
		Use: "export --to DIR", Short: "Write the log into an archive of files, or go on with one", Args: cli.Args(0, 0),
		Long: `Write the log into an archive: a directory of segments, each of which is NDJSON, one
event on a line, compressed with zstd (docs/archive.md). zstdcat shows them, and
edict log verify --archive proves them. The plane may run meanwhile.

Run again with the same directory, it goes on behind the last segment. What a crash
leaves is whole segments. On its way it compares the log with its witness, and
stops at a difference.

With --to s3://bucket/prefix the segments are objects of a store that speaks S3. Where
it is and who asks comes from the environment and the files that the store's usual clients
read (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, ~/.aws/credentials), never from the URL.

The log is read from the NATS server of the plane at --server, from another one
(--nats, EDICT_NATS), or from the data directory of a stopped plane (--log).`,
		Example: `  edict log export --to ./archive
  edict log export --to s3://history/edict
  edict log export --to ./archive --log ./data`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Required(cmd, "to"); err != nil {
				return err
			}
			src, err := a.logOf(cmd, f)
			if err != nil {
				return err
			}
			defer src.close()
			e, err := a.export(cmd.Context(), src, opt)
			if err != nil {
				return err
			}
			return a.print(e, func(w io.Writer) { writeExtent(w, opt.Dir, e) })
		},
	}
	a.damagedLogFlags(cmd, &f)
	cmd.Flags().StringVar(&opt.Dir, "to", "", "`directory` of the archive, made when absent, or s3://bucket/prefix")
	cmd.Flags().Uint64Var(&opt.From, "from", 0, "first event of a new archive (default the log's first)")
	cmd.Flags().Uint64Var(&opt.Until, "until", 0, "last event (default the log's last)")
	return cmd
}

// logOf opens the log that f names.
func (a archiveCommands) logOf(cmd *cobra.Command, f logFlags) (*logSource, error) {
	if err := f.override(cmd); err != nil {
		return nil, err
	}
	c, err := a.client(cmd)
	if err != nil {
		return nil, err
	}
	return a.openLog(cmd.Context(), f, c)
}

// export exports the log and shows how far that is.
func (a archiveCommands) export(ctx context.Context, src *logSource, opt archive.ExportOptions) (archive.Extent, error) {
	bar := progress.Start(a.stderr, "exporting", "events", 0)
	defer bar.Stop()
	opt.Links = src.links
	opt.Origin = func(ctx context.Context, o streams.Origin) (io.ReadCloser, error) {
		return snapshot.OriginObject(ctx, src.conn, src.log, o)
	}
	opt.Passed = func(seq, until uint64) {
		bar.SetTotal(int64(until))
		bar.Set(int64(seq))
	}
	return archive.Export(ctx, src.log, opt)
}

func writeExtent(w io.Writer, path string, e archive.Extent) {
	fmt.Fprintf(w, "Archive:    %s, %s\n", path, cli.Counted(e.Segments, "segment"))
	fmt.Fprintf(w, "Log:        %s, events %d to %d\n", e.Log, e.First, e.Last)
	fmt.Fprintf(w, "Chain hash: %s\n", e.Chain)
}

// archiveReport is what `log verify --archive` says.
type archiveReport struct {
	archive.Extent
	Links int `json:"links"` // of a log's witness, which agreed
}

// verifyArchive proves an archive, and compares it with the witness of a log where one
// is reached. One that is named must be the archive's.
func (a archiveCommands) verifyArchive(cmd *cobra.Command, f logFlags, path string) error {
	src, err := a.logOf(cmd, f)
	named := f.nats != "" || f.log != ""
	if err != nil && named {
		return err
	}
	var links []streams.Link
	if err == nil {
		links = src.links
		src.close()
	} else {
		fmt.Fprintf(a.stderr, "the archive is compared with no witness: %v\n", err)
	}
	ar, err := archive.Open(cmd.Context(), path)
	if err != nil {
		return err
	}
	r := archiveReport{}
	bar := progress.Start(a.stderr, "verifying", "events", 0)
	r.Extent, r.Links, err = ar.Verify(cmd.Context(), links, func(seq uint64) { bar.Set(int64(seq)) })
	bar.Stop()
	var differs *streams.DamagedError
	if errors.As(err, &differs) {
		return cli.Failed(cli.Differs, "the archive is not what the witness of the log says: %v; use another copy of it, unless edict log verify finds that the log is damaged", err)
	}
	if err != nil {
		return err
	}
	another := src != nil && r.Links == 0 && src.log.ID() != r.Log // one that was imported has links that agree
	err = a.print(r, func(w io.Writer) {
		writeExtent(w, path, r.Extent)
		switch {
		case another:
			fmt.Fprintf(w, "Witness:    of another log, %s, nothing was compared\n", src.log.ID())
		case src != nil && r.Links == 0:
			fmt.Fprintln(w, "Witness:    no link of it is reached, nothing was compared")
		case src != nil:
			fmt.Fprintf(w, "Witness:    agrees, %s\n", cli.Counted(r.Links, "link"))
		}
	})
	if err == nil && another && (named || cmd.Flags().Changed("server")) {
		return cli.Failed(cli.Differs, "the archive is of log %s, not of the one it was to be compared with, %s", r.Log, src.log.ID())
	}
	return err
}
