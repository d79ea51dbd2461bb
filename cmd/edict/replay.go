package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/snapshot"
	"github.com/edictdev/edict/streams"
)

// replayFlags are what `replay` was told.
type replayFlags struct {
	data, nats, log string
	verify          bool
}

func (a *app) replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Fold the log again into an empty directory, and print the digest",
		Long: `Fold the log from its first event into an empty read model, and print the
sequence it came to, its rows and its digest. A worker at the same sequence
shows the same digest ("edict status --digest").

The log is read from a NATS server, by default the one that "edict serve" embeds
(--nats, EDICT_NATS), or from the data directory of a stopped plane (--log).
Without --data the new read model is thrown away. With --verify the digest is
compared with that of the plane at --server, and exit code 1 says that they
differ.`,
		Example: `  edict replay --verify
  edict replay --data ./rebuilt --log ./data`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.replay(cmd, f) },
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&f.data, "data", "", "new directory for the read model (default a temporary one)")
	cmd.Flags().StringVar(&f.nats, "nats", "nats://127.0.0.1:4222", "URL of the NATS server that has the log (EDICT_NATS)")
	cmd.Flags().StringVar(&f.log, "log", "", "data directory of a stopped plane, in place of --nats")
	cmd.Flags().BoolVar(&f.verify, "verify", false, "compare with the live digest of the plane at --server")
	fromEnvironment(cmd, "nats")
	return cmd
}

func (a *app) replay(cmd *cobra.Command, f replayFlags) error {
	if f.log != "" && f.verify {
		return usage(cmd, "--verify compares with a live plane; --log reads that of a stopped one")
	}
	if f.log != "" && cmd.Flags().Changed("nats") && os.Getenv("EDICT_NATS") == "" {
		return usage(cmd, "--nats and --log exclude each other")
	}
	if f.data == "" {
		temp, err := os.MkdirTemp("", "edict-replay-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		f.data = temp
	}
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	result, err := a.fold(cmd.Context(), f)
	if err != nil {
		return err
	}
	err = a.print(result, func(w io.Writer) {
		// The contract's form: one line, for people and programs alike.
		fmt.Fprintf(w, `{"seq":%d,"rows":%d,"digest":"%s"}`+"\n", result.Seq, result.Rows, result.Digest)
	})
	if err != nil || !f.verify {
		return err
	}
	return a.verify(cmd.Context(), c, result)
}

// fold replays the log that f names.
func (a *app) fold(ctx context.Context, f replayFlags) (snapshot.Result, error) {
	conn, closeLog, err := openConn(ctx, f)
	if err != nil {
		return snapshot.Result{}, err
	}
	defer closeLog()
	log, err := streams.OpenLog(ctx, conn, streams.LogOptions{})
	if err != nil {
		return snapshot.Result{}, err
	}
	bar := progress.Start(a.stderr, "replaying", "events", 0)
	defer bar.Stop()
	opt := projector.Options{Partitions: log.Partitions(), Created: log.Created(), First: log.First(), Relaxed: true}
	return snapshot.Replay(ctx, log, f.data, opt, func(done, total uint64, _ float64) {
		bar.SetTotal(int64(total))
		bar.Set(int64(done))
	})
}

// openConn connects to the server that has the log; that of a stopped plane is
// started on its files.
func openConn(ctx context.Context, f replayFlags) (*streams.Conn, func(), error) {
	opt := streams.ConnectOptions{URL: f.nats, Name: "edict replay"}
	closeServer := func() {}
	if f.log != "" {
		dir := filepath.Join(f.log, "nats")
		if _, err := os.Stat(dir); err != nil {
			return nil, nil, failed(exitUnreadable, "--log %s holds no log: %v", f.log, err)
		}
		server, err := streams.StartServer(streams.ServerOptions{Dir: dir})
		if err != nil {
			return nil, nil, err
		}
		closeServer = server.Close
		opt.URL, opt.Server = "", server
	}
	conn, err := streams.Connect(ctx, opt)
	if err != nil {
		closeServer()
		return nil, nil, failed(exitUnavailable, "%v", err)
	}
	return conn, func() { conn.Close(); closeServer() }, nil
}

// errMoved: the live plane is at another sequence than the replay.
var errMoved = errors.New("the plane has moved on since; stop the writers, or replay again")

// verify compares a replay with the live plane.
func (a *app) verify(ctx context.Context, c *client.Client, r snapshot.Result) error {
	live, err := c.Status(ctx, true)
	switch {
	case err != nil:
		return err
	case live.Applied != r.Seq:
		return failed(exitUnavailable, "the replay came to %d, the plane is at %d: %v", r.Seq, live.Applied, errMoved)
	case live.Digest != r.Digest:
		return failed(exitDiffers, "at sequence %d the plane at %s has digest %s, not %s: its read model is damaged; move its store directory away and let it be rebuilt",
			r.Seq, c.Server(), live.Digest, r.Digest)
	}
	fmt.Fprintf(a.stderr, "equal to the live plane at %s\n", c.Server())
	return nil
}
