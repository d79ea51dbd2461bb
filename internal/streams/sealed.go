package streams

import (
	"bytes"
	"context"
	"encoding/binary"
	"iter"
	"math"
	"os"
	"sort"
	"time"

	"github.com/nats-io/nats.go"
)

// followBehind is how many messages of the log must be missing to be read from files: of
// fewer the server has been asked before a block is read.
const followBehind = 4096

// fromBlocks yields messages of the log from the sealed blocks of an embedded server,
// for as long as many are missing. A file costs a quarter of what its messages cost
// through the server. A block is sealed once the next one is begun; from then on it stays as it
// is, until a compaction removes it. Where a record is not what was written, or not the one
// that is wanted, this way ends without an error: the server is asked, and says what is wrong.
// done is as of once.
func (f *follower) fromBlocks(ctx context.Context, yield func([]Message, error) bool) (done bool, err error) {
	for f.farBehind() {
		began := f.next
		for batch := range f.sealed() {
			done, err := f.give(batch, yield)
			if done || ctx.Err() != nil {
				return done, ctx.Err()
			}
			if err != nil {
				break
			}
		}
		if f.next == began {
			break
		}
		if err := f.inspect(ctx); err != nil {
			return false, err
		}
	}
	return false, nil
}

// farBehind reports whether much is missing, all of which may stand in files.
func (f *follower) farBehind() bool {
	if f.stream != LogStream || f.c.server == nil || !f.contiguous || !f.inFiles || f.next < f.state.First {
		return false
	}
	end := f.state.Last
	if f.to > 0 {
		end = min(end, f.to)
	}
	return end >= f.next && end-f.next >= f.c.behind
}

// sealed are the messages from the next one on, in batches, up to the end of the last block
// that is sealed, or to the first record that is not what was written.
func (f *follower) sealed() iter.Seq[[]Message] {
	return func(yield func([]Message) bool) {
		blocks, err := blocksOf(messagesDir(f.c.server.opt.Dir))
		if err != nil || len(blocks) < 2 {
			return
		}
		blocks = blocks[:len(blocks)-1]
		// The next one is in the block before the first that begins behind it.
		after := sort.Search(len(blocks), func(i int) bool { return blocks[i].first() > f.next })
		var text bytes.Buffer
		for _, b := range blocks[max(0, after-1):] {
			if b.read(&text) != nil || !b.messages(text.Bytes(), f.next, yield) {
				return
			}
		}
	}
}

// first is the sequence of the first record; of a block that cannot be read it is above all.
func (b *block) first() uint64 {
	f, err := os.Open(b.path)
	if err != nil {
		return math.MaxUint64
	}
	defer f.Close()
	var head [recordHead]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return math.MaxUint64
	}
	return binary.LittleEndian.Uint64(head[4:])
}

// messages yields those of a block's text from a sequence on, in batches. It is false where
// whoever reads broke off, or a record is not what was written.
func (b *block) messages(text []byte, from uint64, yield func([]Message) bool) bool {
	var batch []Message
	weight, whole := 0, true
	for len(text) > 0 {
		var m Message
		var size int
		if m, size, whole = b.message(text, from); !whole {
			break
		}
		text = text[size:]
		if m.Seq < from {
			continue
		}
		if weight += m.Size(); len(batch) == followBatch || len(batch) > 0 && weight > followTogether {
			if !yield(batch) {
				return false
			}
			batch, weight = nil, m.Size()
		}
		batch = append(batch, m)
	}
	return (len(batch) == 0 || yield(batch)) && whole
}

// message is that of the record that text begins with, and how long the record is. Of one
// below from it has the sequence alone, and its checksum is not looked at.
func (b *block) message(text []byte, from uint64) (m Message, size int, whole bool) {
	size, subject, rest := lengths(text)
	if size == 0 {
		return m, 0, false
	}
	m.Seq = binary.LittleEndian.Uint64(text[4:])
	if m.Seq < from {
		return m, size, true
	}
	if _, _, whole = b.record(text); !whole || m.Seq&recordMarks != 0 {
		return m, size, false
	}
	m.Time = time.Unix(0, int64(binary.LittleEndian.Uint64(text[12:]))).UTC() //nolint:gosec // as the server wrote it
	m.Subject = string(text[recordHead : recordHead+subject])
	body := text[rest : size-recordSum]
	if rest > recordHead+subject {
		n := int(binary.LittleEndian.Uint32(text[rest-4:]))
		if n > len(body) {
			return m, size, false
		}
		header, err := nats.DecodeHeadersMsg(body[:n])
		if err != nil {
			return m, size, false
		}
		m.Header, body = header, body[n:]
	}
	m.Body = bytes.Clone(body)
	return m, size, true
}
