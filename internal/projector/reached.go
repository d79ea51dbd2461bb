package projector

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/edictdev/edict/internal/streams"
)

// reached is how far the fold had come and others had seen it, which may be more than
// the store holds after the process was killed. A log that does not reach so far, or
// has another event there, lost its tail, and event ids of that tail were given out.
type reached struct {
	created     int64 // the log's creation time, unix ns
	seq         uint64
	prev, chain [32]byte // the chain hash before and at seq
}

// reachedFile is beside the files of Pebble. It has two places, which are written by
// turns: of one that was being written the sum does not match.
const (
	reachedFile  = "reached"
	reachedPlace = 512
	reachedSize  = 8 + 8 + 32 + 32
)

func (r reached) append(b []byte) []byte {
	from := len(b)
	b = appendU64(appendU64(b, uint64(r.created)), r.seq)
	b = append(append(b, r.prev[:]...), r.chain[:]...)
	sum := sha256.Sum256(b[from:])
	return append(b, sum[:8]...)
}

// readReached returns the later of the places that are whole, zero when none is.
func readReached(b []byte) (latest reached) {
	for at := 0; at+reachedSize+8 <= len(b); at += reachedPlace {
		record := b[at : at+reachedSize]
		if sum := sha256.Sum256(record); [8]byte(sum[:8]) != [8]byte(b[at+reachedSize:]) {
			continue
		}
		r := reached{
			created: int64(binary.BigEndian.Uint64(record)), seq: binary.BigEndian.Uint64(record[8:]),
			prev: [32]byte(record[16:]), chain: [32]byte(record[48:]),
		}
		if r.seq >= latest.seq {
			latest = r
		}
	}
	return latest
}

// reachedIn is what the store in dir had reached of a log.
func reachedIn(dir string, created time.Time) uint64 {
	b, err := os.ReadFile(filepath.Join(dir, reachedFile))
	if r := readReached(b); err == nil && r.created == created.UnixNano() {
		return r.seq
	}
	return 0
}

// reachedMark keeps it. It is not synced: what it is for is a process that is killed.
// Of a machine that loses its power the log, which is synced, has every event.
type reachedMark struct {
	file  vfs.File
	turn  int64
	value []byte
}

// openReached opens the mark of the store, and has the fold held against what it says.
func (p *Projector) openReached() error {
	var err error
	if p.mark.file, err = p.fs.OpenReadWrite(filepath.Join(p.dir, reachedFile), "reached"); err != nil {
		return err
	}
	b := make([]byte, 2*reachedPlace)
	if _, err := p.mark.file.ReadAt(b, 0); err != nil && err != io.EOF {
		return err
	}
	if r := readReached(b); r.created == p.cursor.created && r.seq > p.cursor.seq {
		p.before = r
		return p.Witness([]streams.Link{p.linkOf(Chain{Seq: r.seq, Hash: r.chain})})
	}
	return nil
}

// set notes what was reached.
func (m *reachedMark) set(r reached) error {
	m.turn = 1 - m.turn
	m.value = r.append(m.value[:0])
	_, err := m.file.WriteAt(m.value, m.turn*reachedPlace)
	return err
}

func (m *reachedMark) close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}
