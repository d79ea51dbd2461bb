package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/archive"
	"github.com/edictdev/edict/internal/backoff"
)

// backupCommands back planes up, and restore them.
type backupCommands struct{ archiveCommands }

// backupFlags are the flags of `backup`.
type backupFlags struct {
	nats, to string
	keys     bool
	data     string // of the plane, whose keys are copied
	signing  string // the key's file, in place of data
}

func (a backupCommands) backupCommand() *cobra.Command {
	var f backupFlags
	cmd := &cobra.Command{
		Use: "backup --to DIR", Short: "Back up a running plane", Args: cli.Args(0, 0),
		Long: `Back up the plane at --server while it runs: its log up to one event, as an archive
(docs/archive.md), its public keys, and a manifest with the SHA-256 of each file and
the digest of the plane's read model at that event. edict restore proves that it
comes to the same.

Run again with the same directory, it adds what is new. One that was cut off is
finished in the same way.

The key that signs is copied only with --with-keys, from the plane's data directory
(--data), or from the file that the plane has as --signing-key. Whoever has it can
sign as the plane. Without it no node trusts a plane that is restored.`,
		Example: `  edict backup --to ./backup --with-keys --data ./data
  edict backup --to ./backup --nats nats://10.0.0.1:4222`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return a.backup(cmd, f)
		},
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&f.to, "to", "", "directory of the backup, made when absent")
	cmd.Flags().StringVar(&f.nats, "nats", "", "URL of the NATS server that has the log (EDICT_NATS; default that of the plane at --server)")
	fromEnvironment(cmd, "nats")
	a.natsCredsFlag(cmd)
	a.natsContextFlag(cmd, true)
	cmd.Flags().BoolVar(&f.keys, "with-keys", false, "copy the key that signs, and those of a rotation under way")
	cmd.Flags().StringVar(&f.data, "data", "data", "data directory of the plane, for --with-keys")
	cmd.Flags().StringVar(&f.signing, "signing-key", "", "file of the key, in place of --data, for --with-keys")
	return cmd
}

func (f backupFlags) check(cmd *cobra.Command) error {
	data, signing := cmd.Flags().Changed("data"), cmd.Flags().Changed("signing-key")
	if (data || signing) && !f.keys {
		return cli.Usage(cmd, "--data and --signing-key say where the keys are that --with-keys copies: say --with-keys, too")
	}
	if data && signing {
		return cli.Usage(cmd, "--data and --signing-key exclude each other")
	}
	return cli.Required(cmd, "to")
}

// keepsSecrets refuses to take the keys out of a backup that has them: they may be the only copy.
func (f backupFlags) keepsSecrets() error {
	has, err := archive.HasSecrets(f.to)
	if err != nil || !has || f.keys {
		return err
	}
	return cli.Failed(cli.Conflict, "the backup in %s has the plane's keys, and one without --with-keys would remove them: say --with-keys, or back up to another directory", f.to)
}

func (a backupCommands) backup(cmd *cobra.Command, f backupFlags) error {
	ctx := cmd.Context()
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	src, err := a.openLog(ctx, logFlags{nats: f.nats, running: true}, c)
	if err != nil {
		return err
	}
	defer src.close()
	status, err := folded(ctx, c, src)
	if err != nil {
		return err
	}
	release, err := archive.LockBackup(f.to)
	if errors.Is(err, fs.ErrExist) {
		return cli.Failed(cli.Conflict, "%v", err)
	}
	if err != nil {
		return err
	}
	defer release()
	if err := f.keepsSecrets(); err != nil {
		return err
	}
	e, err := a.export(ctx, src, archive.ExportOptions{Dir: filepath.Join(f.to, archive.BackupLog), Until: status.Applied, Backup: true})
	if err != nil {
		return err
	}
	if e.Last != status.Applied {
		return cli.Failed(cli.Conflict, "the archive in %s goes up to %d, the plane at %s has folded %d: ask a worker that has more, or back up to another directory", f.to, e.Last, c.Address(), status.Applied)
	}
	parts, err := a.backupParts(ctx, c, src.conn, f)
	if err != nil {
		return err
	}
	m, err := archive.WriteBackup(f.to, archive.Manifest{Made: time.Now().UTC(), Build: cli.ReadBuild().String(), Log: e, Digest: status.Digest}, parts)
	if err != nil {
		return err
	}
	return a.print(m, func(w io.Writer) { writeBackup(w, f.to, m) })
}

func writeBackup(w io.Writer, dir string, m archive.Manifest) {
	size := int64(0)
	for _, f := range m.Files {
		size += f.Bytes
	}
	fmt.Fprintf(w, "Backup:     %s, %s, %s, made %s\n", dir, cli.Counted(len(m.Files), "file"), sizeText(uint64(size)), stamp(m.Made))
	fmt.Fprintf(w, "Log:        %s, events %d to %d\n", m.Log.Log, m.Log.First, m.Log.Last)
	fmt.Fprintf(w, "Chain hash: %s\n", m.Log.Chain)
	fmt.Fprintf(w, "Digest:     %s\n", m.Digest)
}

// folded is the plane's status when its fold has reached what the log had before.
func folded(ctx context.Context, c *client.Client, src *logSource) (resource.Status, error) {
	state, err := src.log.State(ctx)
	if err != nil {
		return resource.Status{}, err
	}
	if state.Messages == 0 {
		return resource.Status{}, cli.Failed(cli.NotFound, "the log has no event yet: there is nothing to back up")
	}
	var b backoff.Backoff
	for {
		status, err := c.Status(ctx, true)
		if err == nil {
			err = logOfPlane(c, status, src.log) // else it may be waited for in vain
		}
		if err != nil || status.Applied >= state.Last {
			return status, err
		}
		if damage := standsStill(ctx, c); damage != "" {
			return status, cli.Failed(cli.Unavailable, "the plane at %s has folded %d of %d events, and goes no further: %s; docs/recovery.md says what to do",
				c.Address(), status.Applied, state.Last, damage)
		}
		if err := b.Pause(ctx); err != nil {
			return status, err
		}
	}
}

// standsStill is why a plane folds its log no further, as its check says; "": nothing is known
// that keeps it from that.
func standsStill(ctx context.Context, c *client.Client) string {
	_, err := c.Ready(ctx)
	var p *client.Problem
	if errors.As(err, &p) {
		for _, check := range p.Checks {
			if check.Name == "chain" && check.Status == "failed" {
				return check.Detail
			}
		}
	}
	return ""
}
