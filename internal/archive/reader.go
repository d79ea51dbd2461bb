package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

const (
	// maxLine bounds a line: the largest message that a NATS server can be configured to
	// take has 64 MiB, and no text becomes more than twice as long.
	maxLine = 2*64<<20 + 1<<20
	// maxHeader bounds the line of a header, whose members have a length.
	maxHeader = 4 << 10
	// maxHeaders bounds the headers of an event as JSON: a server stores 64 KiB of them, and no
	// byte becomes more than six.
	maxHeaders = 6 * 64 << 10
	// window bounds what a file may ask of memory to be inflated: far above what
	// is written.
	window = 32 << 20
)

// reader reads one segment and proves each line of it.
type reader struct {
	file  string // as errors name it
	lines *bufio.Reader
	close func()

	most    int // bytes of a line
	line    int
	buf     []byte
	sum     hash.Hash
	header  Header
	chain   projector.Chain
	trailer *Trailer // nil until it was read
}

// openReader opens a file and reads its header.
func openReader(at place, name string) (*reader, error) {
	f, err := at.open(name)
	if err != nil {
		return nil, err
	}
	r, err := newReader(name, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	inflater := r.close
	r.close = func() { inflater(); f.Close() }
	return r, nil
}

// newReader reads the header from a segment, compressed or not.
func newReader(file string, from io.Reader) (*reader, error) {
	r := &reader{file: file, lines: bufio.NewReaderSize(from, 64<<10), close: func() {}, sum: sha256.New(), most: maxLine}
	if magic, _ := r.lines.Peek(4); bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		z, err := zstd.NewReader(r.lines, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		r.lines, r.close = bufio.NewReaderSize(z, 64<<10), z.Close
	}
	text, err := r.next(maxHeader)
	if err == nil {
		r.sum.Write(text)
		r.header, r.chain, err = parseHeader(text)
		err = r.fault(err)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// fault says where an error is.
func (r *reader) fault(err error) error {
	if err == nil || errors.As(err, new(*FaultError)) || errors.As(err, new(*BucketError)) {
		return err // it says where, and a store that goes away is no fault of the file
	}
	return &FaultError{r.file, r.line, err.Error(), errors.As(err, new(*versionError))}
}

// next reads one line with its end, of at most so many bytes, valid until the next call.
func (r *reader) next(most int) ([]byte, error) {
	r.line++
	r.buf = r.buf[:0]
	for {
		part, err := r.lines.ReadSlice('\n')
		size := len(r.buf) + len(part)
		if size > most {
			return nil, r.fault(fmt.Errorf("the line is longer than %d bytes", most))
		}
		if size > cap(r.buf) { // append takes smaller steps, and so far more memory
			r.buf = append(make([]byte, 0, min(3*size, most)), r.buf...)
		}
		r.buf = append(r.buf, part...)
		switch {
		case err == nil:
			return r.buf, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.As(err, new(*BucketError)): // whatever it ended with, the file may go on
			return nil, err
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, r.fault(errors.New("the file ends before its trailer: it was cut off"))
		default:
			return nil, r.fault(fmt.Errorf("the file cannot be read: %w", err))
		}
	}
}

// event is the next one; ok is false behind the last, which the trailer then
// confirmed.
func (r *reader) event() (m streams.Message, ok bool, err error) {
	if r.trailer != nil {
		return m, false, nil
	}
	text, err := r.next(r.most)
	if err != nil {
		return m, false, err
	}
	if bytes.HasPrefix(text, []byte(`{"last":`)) {
		return m, false, r.fault(r.end(text))
	}
	r.sum.Write(text)
	if m, err = parseEvent(text); err != nil {
		return m, false, r.fault(err)
	}
	if m.Seq != r.chain.Seq+1 {
		return m, false, r.fault(fmt.Errorf("event %d follows event %d: lines are missing, doubled or moved", m.Seq, r.chain.Seq))
	}
	r.chain.Add(m)
	return m, true, nil
}

// end holds the trailer against what was read, and finds nothing behind it.
func (r *reader) end(text []byte) error {
	var t Trailer
	if err := strictly(text, &t); err != nil {
		return fmt.Errorf("no trailer: %w", err)
	}
	sum := hex.EncodeToString(r.sum.Sum(nil))
	switch {
	case !bytes.Equal(appendLine(nil, t), text):
		return errForm
	case t.Last != r.chain.Seq:
		return fmt.Errorf("the last event is %d, the trailer says %d", r.chain.Seq, t.Last)
	case t.Events != r.chain.Seq+1-r.header.First || t.Events == 0:
		return fmt.Errorf("there are %d events, the trailer says %d", r.chain.Seq+1-r.header.First, t.Events)
	case t.Chain != hex.EncodeToString(r.chain.Hash[:]):
		return fmt.Errorf("at %d the chain hash is %x, the trailer says %.16s: an event of %d to %d is not the one that was exported", t.Last, r.chain.Hash[:8], t.Chain, r.header.First, t.Last)
	case t.SHA256 != sum:
		return fmt.Errorf("the lines have SHA-256 %.16s, the trailer says %.16s: a header or a time of an event is not the one that was exported", sum, t.SHA256)
	}
	if _, err := r.lines.ReadByte(); !errors.Is(err, io.EOF) {
		if err != nil {
			return fmt.Errorf("the file cannot be read: %w", err)
		}
		return errors.New("something follows the trailer")
	}
	r.trailer = &t
	return nil
}
