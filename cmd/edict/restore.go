package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/archive"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
)

func (a backupCommands) restoreCommand() *cobra.Command {
	var f newPlaneFlags
	var from string
	cmd := &cobra.Command{
		Use: "restore --from DIR", Short: "Make a plane from a backup", Args: cli.Args(0, 0),
		Long: `Make a plane from a backup (edict backup): in a data directory that is empty, or on
NATS servers that have no log (--nats). Every file is compared with the manifest
before anything is written. The log is made and folded, and the digest must be the
one that the plane had; otherwise nothing is left that a plane would start on.

Nodes may have been sent what the backup does not have, so event ids begin anew and
every node pulls once. Keys that the backup has get their place in the data directory;
give workers of --nats the file with --signing-key. For a plane that moves, use edict
log import, which keeps event ids.

After a crash run the same command again.`,
		Example: `  edict restore --from ./backup --data ./data
  edict restore --from ./backup --nats nats://10.0.0.1:4222 --replicas 3`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Required(cmd, "from"); err != nil {
				return err
			}
			if err := f.check(cmd); err != nil {
				return err
			}
			return a.restore(cmd.Context(), f, from)
		},
	}
	a.outputFlag(cmd)
	a.newPlaneFlags(cmd, &f)
	cmd.Flags().StringVar(&from, "from", "", "directory of the backup")
	return cmd
}

// restored is what `restore` says.
type restored struct {
	Into   string `json:"into"`
	Seq    uint64 `json:"seq"`
	Rows   int    `json:"rows"`
	Digest string `json:"digest"` // equal to the manifest's
	Keys   bool   `json:"keys"`   // the backup has the key that signs
}

func (a backupCommands) restore(ctx context.Context, f newPlaneFlags, from string) error {
	b, err := archive.OpenBackup(ctx, from) // before anything is written
	if err != nil {
		return err
	}
	if f.dry {
		if _, _, err := b.Archive.Origin(); err != nil {
			return err
		}
		return a.newPlaneDry(ctx, f, from, b.Manifest.Log)
	}
	p, err := a.openNewPlane(ctx, f)
	if err != nil {
		return err
	}
	r := restored{Into: f.String(), Keys: b.Path(archive.BackupKey) != ""}
	err = a.importInto(ctx, b.Archive, p, b.Manifest.Log, archive.ImportOptions{
		Restored: true,
		Prove: func(ctx context.Context, log *streams.Log) error {
			result, err := a.prove(ctx, &logSource{conn: p.conn, log: log}, p.fresh, b.Manifest)
			r.Seq, r.Rows, r.Digest = result.Seq, result.Rows, result.Digest
			if err != nil {
				return err
			}
			return restoreAgreed(ctx, b, p.conn)
		},
	})
	if err == nil && p.fresh != nil {
		err = restoreKeys(b, p.fresh.Dir())
	}
	if err != nil {
		p.abandon()
		return err
	}
	if err := p.finish(); err != nil {
		return err
	}
	a.hintKeys(f, b, r.Keys)
	return a.print(r, func(w io.Writer) {
		fmt.Fprintf(w, "Restored:   %s into %s, events %d to %d\n", from, r.Into, b.Manifest.Log.First, r.Seq)
		fmt.Fprintf(w, "Digest:     %s, equal to that of the plane that was backed up\n", r.Digest)
	})
}

// hintKeys says what is left to do, so that nodes trust the plane.
func (a backupCommands) hintKeys(f newPlaneFlags, b *archive.Backup, keys bool) {
	switch {
	case !keys:
		fmt.Fprintln(a.stderr, "the backup has no signing key: the plane does not start before its own is in place (docs/keys.md)")
	case f.nats != "":
		fmt.Fprintf(a.stderr, "give every worker the key: --signing-key %s\n", b.Path(archive.BackupKey))
	}
}

// prove folds the new log, and holds the digest against the manifest. The read model
// stays in a data directory; it is thrown away otherwise.
func (a backupCommands) prove(ctx context.Context, src *logSource, fresh *datadir.Fresh, m archive.Manifest) (result snapshot.Result, err error) {
	keep := ""
	if fresh != nil {
		keep = fresh.Dir().Store()
	}
	result, err = a.fold(ctx, keep, m.Log.Last, func(dir string) (*snapshot.Replayed, error) {
		return beginTrusting(ctx, src, dir, m.Log.Last, snapshot.SelfSigned)
	})
	if err == nil && result.Digest != m.Digest {
		err = cli.Failed(cli.Differs, "at %d the digest is %s, the plane that was backed up had %s: the manifest is of another plane, or this edict folds otherwise than that one; nothing was restored",
			result.Seq, result.Digest, m.Digest)
	}
	return result, err
}
