package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/edictdev/edict/internal/backoff"
)

// PutBack says what log is made of messages that another one had.
type PutBack struct {
	Partitions  int
	Base        uint64 // what its event ids count from
	Begins      uint64 // the sequence of its first event, ever; 0 is First
	First, Last uint64 // its sequences, all of which are given
	Origin      []byte // document of the origin at First, where that is not Begins
}

// ExistsError means that a server has a log, or the witness of one.
type ExistsError struct{ Detail string }

// Error says what is there, and what to do.
func (e *ExistsError) Error() string { return e.Detail }

// UnfinishedError means that the import of a log was cut off: nobody proved what is
// there.
type UnfinishedError struct{}

// Error says what to do.
func (*UnfinishedError) Error() string {
	return LogStream + " is being imported, or its import was cut off: run the same edict log import or edict restore again, which begins anew"
}

func finished(info *jetstream.StreamInfo) error {
	if info.Config.Metadata[metaUnfinished] != "" {
		return &UnfinishedError{}
	}
	return nil
}

// putBackMinor is the first nats-server 2.x that takes messages with their
// sequences and times, as its backups have them since.
const putBackMinor = 15

// PutBackLog makes the log of messages as another log had them: with their
// sequences, times, headers and bytes. Until Finish is called nobody can open it.
// What an earlier call left unfinished is made anew; a log that is there, and a
// witness that knows one, are an *ExistsError.
func PutBackLog(ctx context.Context, c *Conn, p PutBack, messages iter.Seq2[Message, error]) (*Log, error) {
	if err := clearPlace(ctx, c); err != nil {
		return nil, err
	}
	cfg := c.logConfig(p.Partitions, p.Base)
	cfg.Metadata[metaMade], cfg.Metadata[metaUnfinished] = uuid.NewString(), "true"
	if begins := cmp.Or(p.Begins, p.First); begins > 1 {
		cfg.FirstSeq = begins
	}
	// Of a stream with replicas the server that takes the messages says otherwise when it was made
	// than all others, which would be another log with each leader. One that it alone keeps is copied
	// with its time.
	cfg.Replicas = 1
	if c.replicas > 1 {
		if _, err := OpenMeta(ctx, c); err != nil { // fewer servers than replicas, before all is sent
			return nil, fmt.Errorf("import the log: %w", err)
		}
	}
	to, err := c.beginRestore(ctx, cfg, p)
	again := backoff.Steady(time.Second)
	for tries := 0; errors.Is(err, errNameInUse) && tries < nameInUseTries && again.Pause(ctx) == nil; tries++ {
		// An import that was cut off just now: the server shows what it left only a little later.
		if err = clearPlace(ctx, c); err == nil {
			to, err = c.beginRestore(ctx, cfg, p)
		}
	}
	if err == nil {
		err = c.sendMessages(ctx, to, p, messages)
	}
	if err != nil {
		return nil, notImported(err)
	}
	info, err := spread(ctx, c)
	if err != nil {
		return nil, notImported(err)
	}
	if s := stateOf(info); s.First != p.First || s.Last != p.Last || s.Messages != p.Last+1-p.First {
		return nil, fmt.Errorf("import the log: the server has %d messages from %d to %d, not all from %d to %d", s.Messages, s.First, s.Last, p.First, p.Last)
	}
	if err := c.putBackOrigin(ctx, info, p.Origin); err != nil {
		return nil, fmt.Errorf("import the log: %w", err)
	}
	return c.logOf(ctx, info)
}

// spreadPatience is how long servers may take for a copy of the log without having more of it.
const spreadPatience = 2 * time.Minute

// spread has as many servers keep the log as were asked for, and waits until each has all of it.
func spread(ctx context.Context, c *Conn) (*jetstream.StreamInfo, error) {
	info, err := c.streamInfo(ctx, LogStream)
	if err != nil || info.Cluster == nil || c.replicas == 1 {
		return info, err
	}
	cfg := info.Config
	cfg.Replicas = c.replicas
	asked, cancel := c.during(ctx, requestTimeout)
	defer cancel()
	if _, err := c.js.UpdateStream(asked, cfg); err != nil {
		return nil, fmt.Errorf("have %d servers keep it: %w", c.replicas, err)
	}
	again := backoff.Steady(spreadLook)
	var before []uint64
	for moved := time.Now(); time.Since(moved) < spreadPatience; { // a server that answers nothing takes time, too
		info, err := c.streamInfo(ctx, LogStream)
		if err == nil && spreadOut(info) {
			return info, nil
		}
		if err == nil {
			if now := lags(info); !slices.Equal(now, before) {
				before, moved = now, time.Now()
			}
		}
		if err := again.Pause(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%d servers are to keep it, and not all have a copy: %w", c.replicas, ErrNoAnswer)
}

// spreadLook is how often it is looked whether all servers have the log.
const spreadLook = 100 * time.Millisecond

// lags are how many messages each replica lacks.
func lags(info *jetstream.StreamInfo) (all []uint64) {
	for _, r := range info.Cluster.Replicas {
		all = append(all, r.Lag)
	}
	return all
}

// spreadOut reports whether every server that is to keep a stream has all of it.
func spreadOut(info *jetstream.StreamInfo) bool {
	return replicasOf(info) == nil && !slices.ContainsFunc(info.Cluster.Replicas, func(r *jetstream.PeerInfo) bool { return !r.Current || r.Lag > 0 })
}

// notImported is why no log was made of messages.
func notImported(err error) error {
	if Leaderless(err) {
		return fmt.Errorf("import the log: the server went away, or another one leads: run the same command again, which begins anew: %w", err)
	}
	return fmt.Errorf("import the log: %w", err)
}

// nameInUseTries bounds how long it is waited for what an import left that was cut off.
const nameInUseTries = 30

// clearPlace makes room for a log, or refuses servers that have one: canPutBack.
func clearPlace(ctx context.Context, c *Conn) error {
	cutOff, err := canPutBack(ctx, c)
	if err == nil && cutOff {
		err = c.makeRoom(ctx)
	}
	return err
}

// CanPutBack says what PutBackLog would refuse servers for, and changes nothing.
func CanPutBack(ctx context.Context, c *Conn) error {
	_, err := canPutBack(ctx, c)
	return err
}

// canPutBack refuses servers that are too old, and such as have a log. cutOff: they have what
// an import left that was cut off.
func canPutBack(ctx context.Context, c *Conn) (cutOff bool, err error) {
	if v := c.nc.ConnectedServerVersion(); !atLeast(v, 2, putBackMinor) {
		return false, fmt.Errorf("the server is version %q; to import a log takes nats-server 2.%d or newer: upgrade it", v, putBackMinor)
	}
	info, err := c.streamInfo(ctx, LogStream)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, c.unwitnessed(ctx)
	case err != nil:
		return false, err
	case finished(info) == nil:
		return false, &ExistsError{fmt.Sprintf("there is a log already, made %s: a log is imported where there is none", info.Created.UTC().Format(time.RFC3339))}
	}
	return true, nil
}

// putBackOrigin records the origin of a log that was put back from there. What is recorded
// is of a log that is gone.
func (c *Conn) putBackOrigin(ctx context.Context, info *jetstream.StreamInfo, document []byte) error {
	if document == nil {
		return nil
	}
	o, err := ParseOrigin(logIDOf(info.Created.UTC()), document)
	if err != nil {
		return err
	}
	was, err := FindOrigin(ctx, c)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	o.Revision = was.Revision
	_, err = RecordOrigin(ctx, c, o)
	return err
}

// makeRoom removes what an import left that was cut off.
func (c *Conn) makeRoom(ctx context.Context) error {
	for _, name := range []string{ChainStream, LogStream} {
		if err := c.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("remove %s, which an import left: %w", name, err)
		}
	}
	return nil
}

// unwitnessed refuses servers whose witness knows a log.
func (c *Conn) unwitnessed(ctx context.Context) error {
	var gone *DamagedError
	err := MissingLog(ctx, c)
	if errors.As(err, &gone) {
		return &ExistsError{gone.Detail + "; a log is imported where there was none: use other servers, or restore that one as docs/recovery.md says"}
	}
	return err
}

// Finish has a log that PutBackLog made be opened by everybody.
func (l *Log) Finish(ctx context.Context) error {
	info, err := l.c.streamInfo(ctx, LogStream)
	if err == nil {
		err = l.same(info)
	}
	if err != nil {
		return fmt.Errorf("finish the import of the log: %w", err)
	}
	cfg := info.Config
	delete(cfg.Metadata, metaUnfinished)
	ctx, cancel := l.c.during(ctx, requestTimeout)
	defer cancel()
	if _, err := l.c.js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("finish the import of the log: %w", err)
	}
	return nil
}
