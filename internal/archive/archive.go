package archive

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// ErrEmpty means that a directory has no segments.
var ErrEmpty = errors.New("there is no archive of a log: no file of it is named as a segment, such as " + segmentName(1))

// Archive is a log in files, to be read.
type Archive struct {
	at       place
	segments []string // names, by what they begin with
	origins  []string // names of the files of origins

	mu     sync.Mutex
	extent *Extent // of what was read to its end
}

// Extent is what an archive holds of a log.
type Extent struct {
	Log        string `json:"log"`
	Base       uint64 `json:"base"` // the last that a segment says
	Partitions int    `json:"partitions"`
	Begins     uint64 `json:"begins"` // the sequence of the log's first event, ever
	First      uint64 `json:"first"`  // that of the archive's
	Last       uint64 `json:"last"`
	Segments   int    `json:"segments"`
	Chain      string `json:"chain"` // the chain hash at Last, 64 hex digits
}

// Hash is the chain hash at Last.
func (e Extent) Hash() (hash [32]byte) {
	hash, _ = readHash(e.Chain) // it was written from one
	return hash
}

// Open finds the segments of a directory, or of a bucket (s3://bucket/prefix), or takes
// a file for one. It reads none of them: ErrEmpty, where there is nothing to be read. ctx is
// how long a bucket is asked.
func Open(ctx context.Context, path string) (*Archive, error) {
	at, only, err := placeOf(ctx, path)
	if err != nil {
		return nil, err
	}
	if only != "" {
		return &Archive{at: at, segments: []string{only}}, nil
	}
	return find(at)
}

// find finds the segments of a place.
func find(at place) (*Archive, error) {
	names, err := at.names()
	if err != nil {
		return nil, err
	}
	a := &Archive{at: at}
	for _, name := range names {
		if _, ok := firstOf(name); ok {
			a.segments = append(a.segments, name)
		} else if isOrigin(name) {
			a.origins = append(a.origins, name)
		}
	}
	if len(a.segments) == 0 {
		return nil, fmt.Errorf("%s: %w", at, ErrEmpty)
	}
	return a, nil
}

// Only has the archive be of these files alone.
func (a *Archive) Only(names []string) {
	other := func(name string) bool { return !slices.Contains(names, name) }
	a.segments, a.origins = slices.DeleteFunc(a.segments, other), slices.DeleteFunc(a.origins, other)
}

// Messages yields the events from a sequence on, oldest first, and proves every
// segment that it reads, from the one on that has the first of them. It ends with a
// *FaultError where the archive is not what was exported.
func (a *Archive) Messages(from uint64) iter.Seq2[streams.Message, error] {
	return a.Between(from, math.MaxUint64)
}

// Between are the Messages up to until. The segment that has the last of them is read to its
// end, because only that proves it.
func (a *Archive) Between(from, until uint64) iter.Seq2[streams.Message, error] {
	return a.messages(&walk{}, from, until)
}

// messages are Between. w stands behind the event that was yielded last.
func (a *Archive) messages(w *walk, from, until uint64) iter.Seq2[streams.Message, error] {
	return func(yield func(streams.Message, error) bool) {
		for _, name := range a.segments[a.holding(from):] {
			if err := w.segment(a.at, name, from, until, yield); err != nil {
				if !errors.Is(err, errStopped) {
					yield(streams.Message{}, err)
				}
				return
			}
			if w.chain.Seq >= until {
				return
			}
		}
		a.note(*w, from)
	}
}

// holding is the segment that has an event, by the names of the files.
func (a *Archive) holding(seq uint64) int {
	for i := len(a.segments) - 1; i > 0; i-- {
		if first, ok := firstOf(a.segments[i]); ok && first <= seq {
			return i
		}
	}
	return 0
}

// note keeps what a walk over all segments found.
func (a *Archive) note(w walk, from uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holding(from) > 0 || w.last == "" {
		return
	}
	a.extent = &Extent{
		Log: w.head.Log, Base: w.head.Base, Partitions: w.head.Partitions, Begins: w.head.Begins,
		First: w.first, Last: w.chain.Seq, Segments: len(a.segments), Chain: hex.EncodeToString(w.chain.Hash[:]),
	}
}

// errStopped means that who reads wants no more.
var errStopped = errors.New("stopped")

// walk goes from segment to segment.
type walk struct {
	last  string // the file before; empty: none
	head  Header // of it
	first uint64 // of the first one
	chain projector.Chain
}

func (w *walk) segment(at place, name string, from, until uint64, yield func(streams.Message, error) bool) error {
	r, err := openReader(at, name)
	if err != nil {
		return err
	}
	defer r.close()
	if err := w.follows(r); err != nil {
		return &FaultError{File: r.file, Line: 1, Detail: err.Error()}
	}
	if w.last != "" {
		r.chain = w.chain // which has what older releases would have made of the log, too
	}
	for {
		m, ok, err := r.event()
		if err != nil {
			return err
		}
		w.chain = r.chain
		if !ok {
			w.last, w.head = r.file, r.header
			return nil
		}
		if m.Seq >= from && m.Seq <= until && !yield(m, nil) {
			return errStopped
		}
	}
}

// proveSegment reads one segment to its end.
func (a *Archive) proveSegment(name string) error {
	return new(walk).segment(a.at, name, 0, 0, nil) // none of its events is up to 0
}

// follows holds a segment's header against the one before, and its name.
func (w *walk) follows(r *reader) error {
	h := r.header
	if first, ok := firstOf(r.file); ok && first != h.First {
		return fmt.Errorf("it begins at %d, its name says %d", h.First, first)
	}
	if w.last == "" {
		w.first = h.First
		return nil
	}
	switch {
	case h.Log != w.head.Log || h.Begins != w.head.Begins || h.Partitions != w.head.Partitions:
		return fmt.Errorf("it is of log %s, %s is of log %s", h.Log, w.last, w.head.Log)
	case h.First <= w.chain.Seq:
		return fmt.Errorf("it begins at %d, but %s ends at %d: a segment is there twice", h.First, w.last, w.chain.Seq)
	case h.First > w.chain.Seq+1:
		return fmt.Errorf("it begins at %d, and %s ends at %d: a segment is missing between them", h.First, w.last, w.chain.Seq)
	case r.chain.Hash != w.chain.Hash:
		return fmt.Errorf("it begins with chain hash %x, %s ends with %x: it is of another past", r.chain.Hash[:8], w.last, w.chain.Hash[:8])
	case h.Base < w.head.Base:
		return fmt.Errorf("event ids count from %d, in %s from %d", h.Base, w.last, w.head.Base)
	}
	return nil
}

// Verify reads all of the archive. links are those of a log's witness: the chain
// hash is compared at each that the archive reaches, and agreed is how many did. passed
// is called now and then with the sequence that was reached; nil: it is not.
func (a *Archive) Verify(ctx context.Context, links []streams.Link, passed func(seq uint64)) (e Extent, agreed int, err error) {
	var w walk
	against := projector.NewComparison(links, 0)
	for _, err := range a.messages(&w, 0, math.MaxUint64) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return e, against.Agreed(), err
		}
		if err := against.Reached(w.chain); err != nil {
			return e, against.Agreed(), fmt.Errorf("%s: %w", a.at, err)
		}
		if passed != nil && w.chain.Seq%progressEvery == 0 {
			passed(w.chain.Seq)
		}
	}
	return *a.extent, against.Agreed(), a.proveOrigin()
}

// progressEvery is after how many events progress is reported.
const progressEvery = 1000

// Extent reads what has not been read yet, and says what the archive holds.
func (a *Archive) Extent(ctx context.Context) (Extent, error) {
	a.mu.Lock()
	known := a.extent
	a.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	e, _, err := a.Verify(ctx, nil, nil)
	return e, err
}
