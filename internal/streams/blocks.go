package streams

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/minio/highwayhash"
	"golang.org/x/sync/errgroup"
)

// The layout of the server's block files; tests hold it against what the
// server writes. A record is its length (4 bytes, the high bit: it has headers),
// sequence (8), time (8) and length of the subject (2), then the subject, with
// headers their length (4) and themselves, the body, and a checksum of all but
// the lengths (8).
const (
	recordHead    = 22
	recordSum     = 8
	recordHeaders = 1 << 31
	maxRecord     = 32 << 20
	recordMarks   = 3 << 62 // of a sequence: nothing is stored under it any more
)

// CheckBlocks holds the log that an embedded server has stored in dir against
// the checksums of its records: the newest blocks, of at most so many bytes
// together. The server itself reads a block when somebody wants what is in it,
// believes the lengths and sequences that stand there, and where it cannot read
// the newest block any further, ends the log. No server may run on dir. The error
// is a *DamagedError for the first record that is not what was written.
//
// known is the last sequence that is known to have been stored. What is broken
// above it, at the end of the newest block, is what a crash leaves.
func CheckBlocks(dir string, most int64, known uint64) error {
	blocks, err := blocksOf(messagesDir(dir))
	if err != nil {
		return err
	}
	blocks = newest(blocks, most)
	all, err := checkAll(blocks)
	if err != nil {
		return err
	}
	seq := uint64(0)
	for i, c := range all {
		if c.last > 0 {
			seq = c.last
		}
		if sealed := i < len(blocks)-1; c.broken && (sealed || seq < known && c.goesOn) {
			return &DamagedError{Damage: DamageHole, From: seq + 1, To: seq + 1, Detail: fmt.Sprintf(
				"%s is damaged at event %d or near it: the record at byte %d of %s is not what was written; restore the stream from a backup",
				LogStream, seq+1, c.at, blocks[i].path)}
		}
	}
	return nil
}

// checked is what was found in a block.
type checked struct {
	last           uint64 // sequence of the last record that is whole; 0: there is none
	broken, goesOn bool   // a record is not whole; another one follows it
	at             int    // where the broken one begins
}

// checkAll checks blocks side by side: each of them is hashed as a whole.
func checkAll(blocks []block) ([]checked, error) {
	all := make([]checked, len(blocks))
	texts := sync.Pool{New: func() any { return new(bytes.Buffer) }} // a GiB of garbage else
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, b := range blocks {
		g.Go(func() (err error) {
			text := texts.Get().(*bytes.Buffer)
			defer texts.Put(text)
			all[i], err = b.checkFile(text)
			return err
		})
	}
	return all, g.Wait()
}

// block is one file of a stream's messages.
type block struct {
	path  string
	index uint64
	size  int64
	hash  *highwayhash.Digest64
}

// blocksOf are those of a directory, oldest first.
func blocksOf(dir string) ([]block, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []block
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".blk")
		index, nerr := strconv.ParseUint(name, 10, 32)
		if !ok || nerr != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", LogStream, index))
		hash, err := highwayhash.NewDigest64(key[:])
		if err != nil {
			return nil, err
		}
		all = append(all, block{filepath.Join(dir, e.Name()), index, info.Size(), hash})
	}
	slices.SortFunc(all, func(a, b block) int { return int(int64(a.index) - int64(b.index)) })
	return all, nil
}

// newest are those of blocks that hold at most so many bytes, but the last one in any case.
func newest(all []block, most int64) []block {
	from := len(all)
	for from > 0 && (from == len(all) || most >= all[from-1].size) {
		from--
		most -= all[from].size
	}
	return all[from:]
}

// checkFile reads and checks a block, by means of a buffer.
func (b *block) checkFile(text *bytes.Buffer) (c checked, err error) {
	if err := b.read(text); err != nil || bytes.HasPrefix(text.Bytes(), []byte("cmp")) {
		return c, err // compressed: not by us
	}
	c.at = b.check(text.Bytes(), &c.last)
	if rest := text.Bytes()[c.at:]; len(rest) > 0 {
		c.broken, c.goesOn = true, b.goesOn(rest)
	}
	return c, nil
}

// read reads a block's file into a buffer.
func (b *block) read(text *bytes.Buffer) error {
	f, err := os.Open(b.path)
	if err != nil {
		return err
	}
	defer f.Close()
	text.Reset()
	text.Grow(int(b.size) + bytes.MinRead)
	_, err = text.ReadFrom(f)
	return err
}

// check reads records up to the first that is not whole, and returns where that
// begins. last becomes the sequence of the one before it.
func (b *block) check(text []byte, last *uint64) (at int) {
	for at < len(text) {
		size, seq, ok := b.record(text[at:])
		if !ok {
			break
		}
		if seq&recordMarks == 0 {
			*last = seq
		}
		at += size
	}
	return at
}

// record reads the record that text begins with.
func (b *block) record(text []byte) (size int, seq uint64, ok bool) {
	size, subject, rest := lengths(text)
	if size == 0 {
		return 0, 0, false
	}
	b.hash.Reset()
	_, _ = b.hash.Write(text[4:20])
	_, _ = b.hash.Write(text[recordHead : recordHead+subject])
	_, _ = b.hash.Write(text[rest : size-recordSum])
	var sum [recordSum]byte
	return size, binary.LittleEndian.Uint64(text[4:]), bytes.Equal(b.hash.Sum(sum[:0]), text[size-recordSum:size])
}

// lengths are those that a record gives: of itself and its subject, and where the
// rest of what its checksum covers begins. size 0: they cannot be.
func lengths(text []byte) (size, subject, rest int) {
	if len(text) < recordHead {
		return 0, 0, 0
	}
	n := binary.LittleEndian.Uint32(text)
	subject = int(binary.LittleEndian.Uint16(text[20:]))
	rest = recordHead + subject
	if n&recordHeaders != 0 {
		n &^= recordHeaders
		rest += 4
	}
	if size = int(n); size > maxRecord || size > len(text) || rest+recordSum > size {
		return 0, 0, 0
	}
	return size, subject, rest
}

// goesOn reports whether a whole record follows one that is not. A body is not
// searched for what may be one: whoever wrote it could have put it there.
func (b *block) goesOn(text []byte) bool {
	size, _, _ := lengths(text)
	if size == 0 {
		return false
	}
	_, _, ok := b.record(text[size:])
	return ok
}
