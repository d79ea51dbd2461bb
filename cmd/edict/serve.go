package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/plane"
	"github.com/edictdev/edict/internal/relay"
	"github.com/edictdev/edict/internal/wire"
)

// serveFlags are the flags of `serve`.
type serveFlags struct {
	opt         plane.Options
	roles       []string
	partitions  string
	durability  string
	readyFile   string
	logFormat   string
	logLevel    string
	minFreeText string
	projectText string
	hubText     string
	pastText    string

	pastBytesText string
	every         string
	decisions     decisionFlags
}

// serveCommands run the plane.
type serveCommands struct{ *app }

func (a serveCommands) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the plane",
		Long: `Run the plane: everything in one process, the log on an embedded NATS server.
With --nats the process is a worker on servers that run elsewhere. Start as many
workers as you like; any of them answers any request.

Every flag can be set as EDICT_<FLAG>, such as EDICT_NATS_LISTEN. EDICT_NATS is
--nats, as it is for commands that ask a server: where it is set, serve is a
worker of that server.

The first start makes the log and the key. Use --existing from then on: then a data
directory that is missing, because its volume is not mounted, is refused (exit code
3) and not served as a plane without policies and nodes.
SIGINT and SIGTERM stop it in order, with exit code 0.

It refuses to start, in one line and before anything on disk is changed, with
exit code 2 when a flag makes no sense or an address is not this machine's alone;
3 when the key, the data directory or the place of the ready file cannot be used,
others may read the key, or a newer edict wrote the read model; 6 when the log is
damaged, the read model was folded from another log, the plane has another key, or
its streams have settings that break its promises; 7 when the data directory or an address is in
use, the NATS server is away or will not do, the SPIFFE Workload API is away, or the disk is full.

A read model that is damaged is moved to store.damaged, and made anew from the
log; one that turns out to be while the plane runs ends it with exit code 7, and
the next start does so.

When the disk gets full, writes are refused (507) while reads go on, and taken
again once enough is free: nothing needs to be restarted.`,
		Example: `  edict serve --data ./data
  edict serve --data ./data --http 127.0.0.1:0 --nats-listen none --ready-file ready.json
  edict serve --data ./w1 --nats nats://10.0.0.1:4222 --signing-key plane.pem
  edict serve --data ./w1 --name w1 --nats nats://a,nats://b,nats://c --replicas 3 --signing-key plane.pem`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.opt.Data, "data", "data", "directory of the log, the read model and the signing key")
	flags.StringVar(&f.opt.HTTP, "http", "127.0.0.1:8080", "address of the API, loopback without --access and TLS; port 0 takes a free one")
	flags.StringVar(&f.opt.NATSListen, "nats-listen", "127.0.0.1:4222", "address of the embedded server for native clients, likewise, or none")
	flags.StringVar(&f.opt.NATS, "nats", "", "URLs of external NATS servers, comma separated; replace the embedded one")
	natsFlags(cmd, &f.opt)
	flags.IntVar(&f.opt.Replicas, "replicas", 1, "servers that keep each stream and bucket, 1 to 5; more than 1 needs --nats and a cluster")
	flags.StringSliceVar(&f.roles, "roles", []string{"api", "relay"}, "what runs above the fold: api, relay, or both")
	flags.StringVar(&f.opt.Name, "name", "", "name of this worker (default the host's)")
	flags.StringVar(&f.partitions, "partitions", "", "partitions to publish on NATS, whoever else there is, such as 0-31,40 (default an equal share of those that no worker is given)")
	flags.DurationVar(&f.opt.LeaseTTL, "lease-ttl", relay.DefaultLeaseTTL, "after which a worker that is not heard of is taken for dead, in whole seconds")
	flags.StringVar(&f.durability, "durability", "strict", "strict: fsync before every acknowledgement; relaxed: leave it to the system")
	flags.StringVar(&f.opt.SigningKey, "signing-key", "", "ed25519 key, PKCS#8 PEM (default one made below --data)")
	flags.StringVar(&f.opt.NextSigningKey, "next-signing-key", "", "another key to hold beside --signing-key, for edict key rotate; the plane's record says which of them signs")
	flags.StringVar(&f.readyFile, "ready-file", "", `file to write {"http","nats","pid"} to once everything answers`)
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&f.hubText, "hub-bytes", "64MiB", "changes that wait to be sent, for each transport; what is beyond is sent from the read model")
	flags.StringVar(&f.pastText, "past", "7d", "how long it is kept what nodes lost; who was away for longer pulls its state")
	flags.StringVar(&f.pastBytesText, "past-bytes", "512MiB", "how much of that is kept at most")
	flags.IntVar(&f.opt.TableEntries, "datapath-entries", datapath.DefaultCapacity, "entries that a node's table may have; one that would have more is refused, and the last good one stays")
	flags.StringVar(&f.minFreeText, "min-free", "256MiB", "free disk below which writes are refused; native NATS producers below half of it")
	flags.StringVar(&f.projectText, "project-bytes", "4GiB", "how much of the log a project takes in a day before its writes are refused and its native NATS producers shut out; 0: any")
	flags.StringVar(&f.every, "snapshot-every", "", "make a checkpoint once the newest is so old (10m) or so many events behind (100000); the worker of partition 0 does (default never)")
	flags.IntVar(&f.opt.Snapshots.Keep, "snapshot-keep", 2, "checkpoints kept")
	flags.BoolVar(&f.opt.Existing, "existing", false, "the plane exists: refuse to start where its log is missing, in place of making a new, empty one")
	flags.BoolVar(&f.opt.YesDelete, "yes-delete", false, "delete a read model of an older edict once it is rebuilt (default: kept beside the new one)")
	accessFlags(cmd, &f.opt.Access)
	f.addDecisionFlags(cmd)
	fromEnvironment(cmd)
	return cmd
}

func (a serveCommands) serve(cmd *cobra.Command, f serveFlags) error {
	log, err := a.logger(cmd, f.logFormat, f.logLevel)
	if err != nil {
		return err
	}
	if err := f.complete(cmd); err != nil {
		return err
	}
	cli.OutliveReaders()
	f.opt.Log, f.opt.Version = log, version()
	stopTracing := a.trace(cmd.Context(), &f.opt)
	defer stopTracing()
	f.opt.Ready = func(at plane.Addresses) {
		log := log
		if at.Admin != "" {
			log = log.With("admin", at.Admin)
		}
		log.Info("ready", "http", at.HTTP, "nats", wire.ShownServers(at.NATS), "data", f.opt.Data, "durability", at.Durability)
		if err := writeReady(f.readyFile, at); err != nil {
			log.Error("the ready file cannot be written; who waits for it waits in vain", "error", err)
		}
	}
	mine := false
	f.opt.Checked = func() error {
		mine = true
		a.serves.Store(true)
		return clearReady(f.readyFile)
	}
	go keepThrifty(cmd.Context())
	f.opt.Busy = listensWhileBusy(os.Getenv("GOMAXPROCS"))
	err = plane.Run(cmd.Context(), f.opt)
	if mine && f.readyFile != "" {
		os.Remove(f.readyFile)
	}
	if err != nil && (cmd.Context().Err() == nil || !errors.Is(err, context.Canceled)) {
		return err
	}
	log.Info("stopped")
	return nil
}

// complete checks flags against each other and fills in what follows from them.
func (f *serveFlags) complete(cmd *cobra.Command) (err error) {
	switch f.durability {
	case "strict", "relaxed":
		f.opt.Relaxed = f.durability == "relaxed"
	default:
		return cli.Usage(cmd, "--durability %q: want strict or relaxed", f.durability)
	}
	if f.opt.NATS != "" {
		if cmd.Flags().Changed("nats-listen") && f.opt.NATSListen != "none" {
			return cli.Usage(cmd, "--nats and --nats-listen exclude each other: with an external server there is no embedded one")
		}
		if f.opt.SigningKey == "" {
			hint := "make one with: openssl genpkey -algorithm ed25519 -out plane.pem"
			if os.Getenv("EDICT_NATS") == f.opt.NATS {
				hint += "; EDICT_NATS is set, which is --nats here: unset it for a plane with a server of its own"
			}
			return cli.Usage(cmd, "--nats needs --signing-key FILE: every worker of a plane signs with the same key; %s", hint)
		}
	}
	if f.opt.NATS == "" && (f.opt.NATSCreds != "" || f.opt.NATSCA != "") {
		return cli.Usage(cmd, "--nats-creds and --nats-ca are for the servers of --nats")
	}
	if f.opt.NextSigningKey != "" && f.opt.SigningKey == "" {
		return cli.Usage(cmd, "--next-signing-key goes with --signing-key: without it the plane makes its keys itself, below --data")
	}
	if f.opt.Replicas < 1 || f.opt.Replicas > 5 {
		return cli.Usage(cmd, "--replicas %d: must be 1 to 5", f.opt.Replicas)
	}
	if f.opt.Replicas > 1 && f.opt.NATS == "" {
		return cli.Usage(cmd, "--replicas %d needs --nats: the embedded server stands alone", f.opt.Replicas)
	}
	if f.opt.TableEntries < 1 {
		return cli.Usage(cmd, "--datapath-entries %d: want 1 or more; with less every node's table would be refused", f.opt.TableEntries)
	}
	if ttl := f.opt.LeaseTTL; ttl < 2*time.Second || ttl%time.Second != 0 {
		return cli.Usage(cmd, "--lease-ttl %v: must be whole seconds, 2s or more", ttl)
	}
	if err := f.completeSnapshots(cmd); err != nil {
		return err
	}
	if err := completeAccess(cmd, &f.opt.Access); err != nil {
		return err
	}
	if err := f.completeDecisions(cmd); err != nil {
		return err
	}
	announce := false
	f.opt.NoAPI = true
	for _, role := range f.roles {
		switch role {
		case "api":
			f.opt.NoAPI = false
		case "relay":
			announce = true
		default:
			return cli.Usage(cmd, "--roles %q: want api, relay, or api,relay", role)
		}
	}
	if !f.opt.NoAPI && f.opt.HTTP == "" { // such as a variable of a script that is not set
		return cli.Usage(cmd, `--http "": want host:port, such as 127.0.0.1:8080; with --roles relay no API is served`)
	}
	if f.opt.MinFree, err = parseSize(f.minFreeText); err != nil {
		return cli.Usage(cmd, "--min-free %q: want a size such as 256MiB", f.minFreeText)
	}
	if f.opt.ProjectBytes, err = parseSize(f.projectText); err != nil {
		return cli.Usage(cmd, "--project-bytes %q: want a size such as 4GiB, or 0", f.projectText)
	}
	if err := f.readSizes(cmd); err != nil {
		return err
	}
	if !announce {
		f.opt.Announce = []int{}
		return nil
	}
	if f.opt.Announce, err = parseRanges(f.partitions); err != nil {
		return cli.Usage(cmd, "--partitions %q: %v", f.partitions, err)
	}
	return nil
}

// readSizes reads how many bytes of changes may wait to be sent, and how many of the
// past are kept.
func (f *serveFlags) readSizes(cmd *cobra.Command) (err error) {
	for _, x := range []struct {
		flag, text string
		to         *int
	}{{"hub-bytes", f.hubText, &f.opt.HubBytes}, {"past-bytes", f.pastBytesText, &f.opt.PastBytes}} {
		n, err := parseSize(x.text)
		if err != nil || n == 0 || n > math.MaxInt64 {
			return cli.Usage(cmd, "--%s %q: want a size above 0 such as 64MiB", x.flag, x.text)
		}
		*x.to = int(n)
	}
	if f.opt.Past, err = parseDays(f.pastText); err != nil || f.opt.Past <= 0 {
		return cli.Usage(cmd, "--past %q: want a time above 0 such as 7d or 36h", f.pastText)
	}
	return nil
}

// parseDays reads a duration, which may be in days.
func parseDays(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err //nolint:gosec // 16 bits were parsed
	}
	return time.ParseDuration(s)
}

// parseRanges reads 0-31,40. Nothing is nil: all.
func parseRanges(s string) (all []int, err error) {
	if s == "" {
		return nil, nil
	}
	for _, part := range strings.Split(s, ",") {
		from, to, found := strings.Cut(part, "-")
		if !found {
			to = from
		}
		low, err1 := strconv.ParseUint(from, 10, 12)
		high, err2 := strconv.ParseUint(to, 10, 12)
		if err1 != nil || err2 != nil || low > high {
			return nil, fmt.Errorf("%q is no range; want numbers and ranges such as 0-31,40", part)
		}
		for n := low; n <= high; n++ {
			all = append(all, int(n))
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// parseSize reads a number of bytes, with KiB, MiB or GiB behind it.
func parseSize(s string) (uint64, error) {
	unit := uint64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB"} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = rest, 1<<(10*(i+1))
		}
	}
	const bits = 33 // times a GiB is 63
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, bits)
	return n * unit, err
}

func (a *console) logger(cmd *cobra.Command, format, leastLevel string) (*slog.Logger, error) {
	var opt slog.HandlerOptions
	var level slog.Level
	if err := level.UnmarshalText([]byte(leastLevel)); err != nil {
		return nil, cli.Usage(cmd, "--log-level %q: want debug, info, warn or error", leastLevel)
	}
	opt.Level = level
	opt.ReplaceAttr = plainError
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(cli.Messages(a.stderr), &opt)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(cli.Whole(a.stderr), &opt)), nil
	}
	return nil, cli.Usage(cmd, "--log-format %q: want text or json", format)
}

// plainError has an error written as what it says: some would add the stack of
// where they were made.
func plainError(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}

// ready is the content of a ready file (contracts, Commands).
type ready struct {
	HTTP  string  `json:"http"`
	Admin string  `json:"admin,omitempty"`
	NATS  *string `json:"nats"`
	PID   int     `json:"pid"`
}

// clearReady removes what an earlier process left, which would be taken for
// this one's word, and makes sure that a new file can be written there.
func clearReady(path string) error {
	if path == "" {
		return nil
	}
	fault := func(err error) error { return &datadir.UnusableError{What: "--ready-file", Err: err} }
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fault(fmt.Errorf("%s is a directory; name a file", path))
	} else if err == nil && !info.Mode().IsRegular() { // such as /dev/null, which would be removed
		return fault(fmt.Errorf("%s is no regular file; name one that may be replaced", path))
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".ready-*")
	if err != nil {
		return fault(fmt.Errorf("cannot be written, name a file in a directory that can be: %w", err))
	}
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		return fault(err)
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fault(err)
	}
	return nil
}

// writeReady writes the file whole or not at all.
func writeReady(path string, at plane.Addresses) error {
	if path == "" {
		return nil
	}
	r := ready{HTTP: at.HTTP, Admin: at.Admin, PID: os.Getpid()}
	if at.NATS != "" {
		r.NATS = &at.NATS
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return artifact.WriteFile(path, append(body, '\n'), 0o600)
}
