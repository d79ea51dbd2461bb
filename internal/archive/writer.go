package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"github.com/klauspost/compress/zstd"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

// A segment ends at so many events, or bytes before they are compressed.
const (
	segmentEvents = 100_000
	segmentBytes  = 64 << 20
)

// unfinished is what the name of a segment ends in that is being written.
const unfinished = ".part"

// writer appends segments to a place. A crash leaves whole ones.
type writer struct {
	at     place
	header Header // of the next segment, but for its First and Chain
	events int    // at which a segment ends
	bytes  int

	chain projector.Chain
	file  part // nil: no segment is begun
	z     *zstd.Encoder
	sum   hash.Hash
	first uint64
	size  int
	line  []byte
}

// add appends an event; it follows the one before.
func (w *writer) add(m streams.Message) error {
	if w.file == nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	w.line = appendEvent(w.line[:0], &m)
	if err := w.put(w.line); err != nil {
		return err
	}
	w.chain.Add(m)
	if w.chain.Seq+1-w.first >= uint64(w.events) || w.size >= w.bytes { //nolint:gosec // positive
		return w.end()
	}
	return nil
}

func (w *writer) begin() (err error) {
	w.first, w.size = w.chain.Seq+1, 0
	if w.file, err = w.at.create(segmentName(w.first)); err != nil {
		return err
	}
	if w.z, err = zstd.NewWriter(w.file, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true)); err != nil {
		return err
	}
	w.sum = sha256.New()
	h := w.header
	h.Form, h.Version, h.First, h.Chain = form, Version, w.first, hex.EncodeToString(w.chain.Hash[:])
	return w.put(appendLine(nil, h))
}

func (w *writer) put(line []byte) error {
	w.size += len(line)
	w.sum.Write(line)
	if _, err := w.z.Write(line); err != nil {
		return fmt.Errorf("write %s: %w", segmentName(w.first), err)
	}
	return nil
}

// end makes the segment that was begun a whole one, under its name.
func (w *writer) end() error {
	if w.file == nil {
		return nil
	}
	t := Trailer{
		Last: w.chain.Seq, Events: w.chain.Seq + 1 - w.first,
		Chain: hex.EncodeToString(w.chain.Hash[:]), SHA256: hex.EncodeToString(w.sum.Sum(nil)),
	}
	_, err := w.z.Write(appendLine(nil, t))
	f := w.file
	w.file = nil
	if err = errors.Join(err, w.z.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", segmentName(w.first), err), f.drop())
	}
	if err = f.keep(); err != nil {
		return fmt.Errorf("write %s: %w", segmentName(w.first), err)
	}
	return nil
}

// abandon leaves the segments that are whole.
func (w *writer) abandon() {
	if w.file != nil {
		_ = errors.Join(w.z.Close(), w.file.drop()) // what stays nobody reads
		w.file = nil
	}
}
