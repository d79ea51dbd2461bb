package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"syscall"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// Log is what an export asks of a log; *streams.Log is one.
type Log interface {
	ID() string
	Base() uint64
	Partitions() int
	First() uint64
	Origin() (o streams.Origin, ok bool)
	State(ctx context.Context) (streams.State, error)
	Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error]
	Get(ctx context.Context, seq uint64) (streams.Message, error)
}

// ExportOptions has one field that must be set: Dir.
type ExportOptions struct {
	Dir    string         // made when absent, or s3://bucket/prefix
	From   uint64         // the first event of a new archive; 0: the log's first
	Until  uint64         // the last event; 0: the log's last, as the export begins
	Backup bool           // event ids begin anew in what is made of it: what they count from now need not be in it
	Links  []streams.Link // of the log's witness, that count: the export compares, and stops at a difference
	// Origin reads the object of the log's origin, for an archive that begins there; nil: it
	// gets none, and no log is made of it.
	Origin func(ctx context.Context, o streams.Origin) (io.ReadCloser, error)
	// Passed is called with the sequence that was reached, of which one; nil: it is not.
	Passed func(seq, until uint64)

	events, bytes int // of a segment; 0: as in production
}

// ErrExporting means that another process appends to the archive.
var ErrExporting = errors.New("another export writes there: wait until it has ended")

// Export appends what the log has to the archive in a directory, in whole segments,
// from behind the last one that is there. It returns what the archive has then. A
// crash leaves what was whole, and the next export goes on. An archive with another
// past than the log's is refused: *FaultError, *streams.DamagedError.
func Export(ctx context.Context, log Log, opt ExportOptions) (Extent, error) {
	at, only, err := placeOf(ctx, opt.Dir)
	if err != nil {
		return Extent{}, err
	}
	if only != "" {
		return Extent{}, fmt.Errorf("%s is a file: name the archive, a directory or s3://BUCKET/PREFIX: %w", opt.Dir, syscall.ENOTDIR)
	}
	release, err := at.lock(ErrExporting)
	if err != nil {
		return Extent{}, err
	}
	defer release()
	x := export{log: log, opt: opt, at: at}
	if err := x.find(ctx); err != nil {
		return Extent{}, err
	}
	if x.until >= x.next {
		if err := x.run(ctx); err != nil {
			x.writer.abandon()
			return Extent{}, err
		}
	}
	a, err := find(at)
	if err != nil {
		return Extent{}, err
	}
	return a.tail()
}

// export is one run of it.
type export struct {
	log    Log
	opt    ExportOptions
	at     place
	writer writer
	chain  projector.Chain // before the first event that is read
	next   uint64          // the first event that is written
	until  uint64
}

// find finds out where the export begins and ends.
func (x *export) find(ctx context.Context) error {
	state, err := x.log.State(ctx)
	if err != nil {
		return err
	}
	if x.until = x.opt.Until; x.until == 0 {
		x.until = state.Last
	}
	if x.until > state.Last {
		return fmt.Errorf("the log ends at %d, before %d", state.Last, x.until)
	}
	x.chain, _ = projector.Beginning(x.log)
	if begins := x.chain.Seq + 1; x.opt.From > 0 && x.opt.From < begins {
		o, _ := x.log.Origin()
		return &streams.CompactedError{Seq: x.opt.From, Origin: begins, Archive: o.Archive}
	}
	x.next = max(x.opt.From, x.chain.Seq+1)
	x.writer = writer{
		at: x.at, events: segmentEvents, bytes: segmentBytes,
		header: Header{Log: x.log.ID(), Base: x.log.Base(), Partitions: x.log.Partitions(), Begins: x.log.First()},
	}
	if x.opt.events > 0 {
		x.writer.events = x.opt.events
	}
	if x.opt.bytes > 0 {
		x.writer.bytes = x.opt.bytes
	}
	a, err := find(x.at)
	switch {
	case errors.Is(err, ErrEmpty), errors.Is(err, fs.ErrNotExist):
		if err := x.bounded(state); err != nil {
			return err
		}
		return x.carryOrigin(ctx, x.next)
	case err != nil:
		return err
	}
	first, _ := firstOf(a.segments[0])
	if err := x.goOn(ctx, a); err != nil {
		return err
	}
	return x.carryOrigin(ctx, first)
}

// bounded refuses what a new archive cannot have.
func (x *export) bounded(state streams.State) error {
	if x.next <= x.until {
		return nil
	}
	if state.Messages == 0 {
		return errors.New("the log has no event yet: there is nothing to export")
	}
	return fmt.Errorf("there is nothing to export from %d to %d: the log has events %d to %d", x.next, x.until, state.First, state.Last)
}

// goOn begins behind the last segment, if the log's past is the archive's.
func (x *export) goOn(ctx context.Context, a *Archive) error {
	last := a.segments[len(a.segments)-1]
	r, err := openReader(x.at, last)
	if err != nil {
		return err
	}
	defer r.close()
	var event streams.Message
	for {
		m, ok, err := r.event()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		event = m
	}
	if x.opt.From > r.chain.Seq+1 {
		return fmt.Errorf("the archive in %s ends at %d: an export that begins at %d leaves a gap", x.opt.Dir, r.chain.Seq, x.opt.From)
	}
	if o, ok := x.log.Origin(); ok && r.chain.Seq+1 < o.Seq {
		return fmt.Errorf("the archive in %s ends at %d, and the log begins at %d, because it was compacted: export to another directory", x.opt.Dir, r.chain.Seq, o.Seq)
	}
	x.chain, x.next = r.chain, r.chain.Seq+1
	if h := r.header; h.Log != x.log.ID() || h.Begins != x.log.First() || h.Partitions != x.log.Partitions() {
		return &FaultError{r.file, 1, fmt.Sprintf("it is of log %s, the log to be exported is %s: export to another directory", h.Log, x.log.ID()), true}
	}
	if r.header.Base != x.log.Base() && x.until < x.next && !x.opt.Backup {
		return &FaultError{r.file, 1, "since it was written event ids count from another base, which only an event that is written after that can say: export to another directory", true}
	}
	if o, ok := x.log.Origin(); ok && event.Seq+1 == o.Seq && r.chain.Hash == o.Before {
		return nil // it was removed, and is the one that the origin follows
	}
	m, err := x.log.Get(ctx, event.Seq)
	if errors.Is(err, streams.ErrNotFound) || err == nil && !bytes.Equal(appendEvent(nil, &m), appendEvent(nil, &event)) {
		return &FaultError{r.file, r.line - 1, fmt.Sprintf("event %d is not the one that the log has now: the log lost or changed its past, or was accepted without it; export to another directory", event.Seq), true}
	}
	return err
}

// run reads the log and writes segments. What comes before the first event to be
// written is read for the chain hash alone.
func (x *export) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends Follow
	against := projector.NewComparison(x.opt.Links, x.chain.Seq)
	for msgs, err := range x.log.Follow(ctx, x.chain.Seq+1) {
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		for _, m := range msgs {
			if err := x.take(m); err != nil {
				return err
			}
			if err := against.Reached(x.chain); err != nil {
				return err
			}
			if m.Seq == x.until {
				return x.writer.end()
			}
		}
		if x.opt.Passed != nil {
			x.opt.Passed(x.chain.Seq, x.until)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.New("the log ended before its head")
}

func (x *export) take(m streams.Message) error {
	if m.Seq == x.next {
		x.writer.chain = x.chain
	}
	x.chain.Add(m)
	if m.Seq < x.next {
		return nil
	}
	return x.writer.add(m)
}

// tail is the extent as the first segment's header and the last one's trailer say,
// without what lies between them.
func (a *Archive) tail() (e Extent, err error) {
	first, err := openReader(a.at, a.segments[0])
	if err != nil {
		return e, err
	}
	defer first.close()
	last := &Archive{at: a.at, segments: a.segments[len(a.segments)-1:]}
	if e, err = last.Extent(context.Background()); err == nil {
		e.First, e.Segments = first.header.First, len(a.segments)
	}
	return e, err
}
