package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/archive"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// compactFlags are the flags of `log compact`.
type compactFlags struct {
	logFlags
	keep    string
	archive string // directory; "": none is written
	dry     bool
}

func (a archiveCommands) logCompactCommand() *cobra.Command {
	var f compactFlags
	cmd := &cobra.Command{
		Use: "compact --keep 90d|SEQ", Short: "Give the log an origin, and remove what lies before it", Args: cli.Args(0, 0),
		Long: `Have the worker at --server make an event the origin of the log, and remove all events
before it, for good. With --keep 90d the events of the last 90 days are kept, and nothing
is done while there are no older ones; with --keep 4711 those from sequence 4711 on are kept.

The origin is what was folded up to that event, signed by the plane. Nothing is removed
before it is stored, read back, folded on to where the worker stands and found equal,
confirmed by the witness, and recorded. Policies, nodes, rows, ids that were used, and
the verdict on any event stay what they were. What is lost without an archive is the
history before: edict audit, edict replay --until, and node state --at show it no more.

With --archive the removed events are written into an archive first (edict log export),
which is proved; with a log that was compacted before, name the archive of that time.
After a crash run the same command again. A log that an older edict made refuses to
remove anything: move it (edict log export, edict log import).`,
		Example: `  edict log compact --keep 90d --archive ./history
  edict log compact --keep 4711`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Required(cmd, "keep"); err != nil {
				return err
			}
			age, seq, err := readKeep(f.keep)
			if err != nil {
				return cli.Usage(cmd, "--keep %q: %v", f.keep, err)
			}
			return a.compact(cmd, f, age, seq)
		},
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&f.keep, "keep", "", "what is kept: an age such as 90d or 36h, or the sequence of the first event")
	cmd.Flags().StringVar(&f.archive, "archive", "", "`directory` of an archive, or s3://bucket/prefix, into which the removed events are written first")
	cmd.Flags().StringVar(&f.nats, "nats", "", "URL of the NATS server that has the log, for --archive (EDICT_NATS; default that of the plane at --server)")
	fromEnvironment(cmd, "nats")
	dryRunFlag(cmd, &f.dry)
	a.natsCredsFlag(cmd)
	a.natsContextFlag(cmd, true)
	return cmd
}

// readKeep reads an age, or a sequence.
func readKeep(text string) (age time.Duration, seq uint64, err error) {
	if seq, err = strconv.ParseUint(text, 10, 64); err == nil && seq > 0 {
		return 0, seq, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n > 0 {
			return time.Duration(n) * 24 * time.Hour, 0, nil //nolint:gosec // 16 bits
		}
	}
	if age, err = time.ParseDuration(text); err == nil && age > 0 {
		return age, 0, nil
	}
	return 0, 0, errors.New("want an age such as 90d or 36h, or the sequence of the first event to be kept")
}

func (a archiveCommands) compact(cmd *cobra.Command, f compactFlags, age time.Duration, seq uint64) error {
	ctx := cmd.Context()
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	if seq == 0 {
		begins := uint64(0)
		if seq, begins, err = oldestOf(ctx, c, age); err != nil {
			return err
		}
		if seq == begins && (begins == 1 || f.dry) { // from an origin on, a compaction may have been cut off
			return a.print(dryOutcome{"log", "unchanged", f.dry}, func(w io.Writer) {
				fmt.Fprintf(w, "no event of the log is older than %s: nothing is removed%s\n", f.keep, dryNote(f.dry))
			})
		}
	}
	if f.dry {
		return a.compactDry(ctx, c, seq)
	}
	name := ""
	if f.archive != "" {
		if name, err = a.archiveBefore(ctx, f, c, seq); err != nil {
			return err
		}
	}
	o, err := c.Compact(ctx, seq, name)
	if errors.As(err, new(*client.UnavailableError)) {
		return fmt.Errorf("%w; it may have compacted the log, or not: run the same command again, which goes on", err)
	}
	if err != nil {
		return err
	}
	return a.print(o, func(w io.Writer) { writeOrigin(w, o) })
}

// compactDry says what would be removed.
func (a archiveCommands) compactDry(ctx context.Context, c *client.Client, seq uint64) error {
	status, err := c.Status(ctx, false)
	if err != nil {
		return err
	}
	begins := max(status.Log.Begins, 1)
	switch {
	case seq <= begins:
		return cli.Failed(cli.Conflict, "the log begins at %d: there is nothing to be removed before %d", begins, seq)
	case seq > status.Applied:
		return beyondLog(status.Applied, seq)
	}
	return a.tellDry(fmt.Sprintf("events %d to %d", begins, seq-1), "removed")
}

// beyondLog refuses to keep what the log has not got yet.
func beyondLog(last, seq uint64) error {
	return cli.Failed(cli.Conflict, "the log ends at %d, and what is to be kept begins at %d", last, seq)
}

func writeOrigin(w io.Writer, o resource.LogOrigin) {
	fmt.Fprintf(w, "Origin:     event %d, %s, %s\n", o.Seq, cli.Counted(o.Rows, "row"), sizeText(uint64(o.Bytes)))
	fmt.Fprintf(w, "Digest:     %s\n", o.Digest)
	fmt.Fprintf(w, "Chain hash: %s\n", o.Chain)
	if o.Archive != "" {
		fmt.Fprintf(w, "Archive:    %s has what was removed\n", o.Archive)
	}
}

// oldestOf is the first event that is not older than an age, or the last one, and where the log
// begins.
func oldestOf(ctx context.Context, c *client.Client, age time.Duration) (seq, begins uint64, err error) {
	status, err := c.Status(ctx, false)
	if err != nil {
		return 0, 0, err
	}
	begins = max(status.Log.Begins, 1)
	m, err := c.SeqAt(ctx, time.Now().Add(-age))
	var p *client.Problem
	if errors.As(err, &p) && p.Status == http.StatusGone {
		return begins, begins, nil // what is older was removed before
	}
	return max(begins, min(m.Seq+1, status.Applied)), begins, err
}

// archiveBefore writes what lies before an event into an archive, or goes on with one, and
// proves it. It returns what the archive is called.
func (a archiveCommands) archiveBefore(ctx context.Context, f compactFlags, c *client.Client, seq uint64) (name string, err error) {
	f.running = true
	src, err := a.openLog(ctx, f.logFlags, c)
	if err != nil {
		return "", err
	}
	defer src.close()
	if f.nats != "" { // else the events of one plane would be archived, and those of another removed
		status, err := c.Status(ctx, false)
		if err == nil {
			err = logOfPlane(c, status, src.log)
		}
		if err != nil {
			return "", err
		}
	}
	begins := src.log.Begins()
	if o, ok := src.log.Origin(); ok && seq == begins { // one that was cut off, or is done
		if name, err = archiveName(f.archive); err == nil && name != o.Archive {
			err = cli.Failed(cli.Conflict, "the log begins at %d already, and what came before is in %s: nothing is left to be written into %s; to finish a compaction that was cut off leave out --archive",
				begins, cmp.Or(o.Archive, "no archive that was named"), f.archive)
		}
		return name, err
	}
	if seq <= begins {
		return "", cli.Failed(cli.Conflict, "the log begins at %d: there is nothing to be removed before %d", begins, seq)
	}
	if state, err := src.log.State(ctx); err != nil || seq > state.Last {
		return "", cmp.Or(err, beyondLog(state.Last, seq))
	}
	e, err := a.export(ctx, src, archive.ExportOptions{Dir: f.archive, Until: seq - 1})
	if err != nil {
		return "", err
	}
	if e.First > begins || e.Last+1 < seq {
		return "", cli.Failed(cli.Conflict, "the archive in %s has events %d to %d, and not all from %d to %d: name another directory", f.archive, e.First, e.Last, begins, seq-1)
	}
	if err := a.proveArchive(ctx, src, f.archive, seq-1); err != nil {
		return "", err
	}
	return archiveName(f.archive)
}

// archiveName is what an origin calls an archive.
func archiveName(at string) (string, error) {
	if archive.InBucket(at) {
		return at, nil
	}
	path, err := filepath.Abs(at)
	return filepath.Base(path), err
}

// proveArchive reads an archive, and compares it with the log itself: an export that goes on
// with one reads its end alone, and the witness may have no link that is reached.
func (a archiveCommands) proveArchive(ctx context.Context, src *logSource, path string, last uint64) error {
	bar := progress.Start(a.stderr, "comparing the log with its archive", "events", int64(last))
	defer bar.Stop()
	from, links := projector.Beginning(src.log)
	links = append(links, src.links...)
	chain, err := projector.Audit(ctx, src.log, from, last, links, func(seq uint64) { bar.Set(int64(seq)) })
	if err != nil {
		return err
	}
	ar, err := archive.Open(ctx, path)
	if err != nil {
		return err
	}
	_, _, err = ar.Verify(ctx, append(links, streams.Link{Log: src.log.ID(), Seq: last, Hash: chain.Hash}), nil)
	var other *streams.DamagedError
	if errors.As(err, &other) {
		return cli.Failed(cli.Conflict, "the archive in %s is not what the log has up to event %d: nothing is removed; name another directory: %v", path, last, other)
	}
	return err
}
