package projector

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// sorted gathers what one batch writes, in memory that the next one uses again. Of a
// key written twice the later counts, and the store takes keys that ascend with half
// of the work.
type sorted struct {
	chunks [][]byte // keys and values, one after the other; what is beyond used is free
	used   int
	bytes  int
	writes []sortedWrite
	ranks  []ranked // of writes, while they are sorted
}

type sortedWrite struct {
	chunk, at  uint32 // where the key begins; the value follows it
	key, value int32  // how long they are
}

// removes is the length of the value of a write that removes its key.
const removes = -1

// Keys and values are gathered in pieces of memory, of which the first is small: one piece that
// grew would be copied, and what it was before left to the collector.
const (
	firstChunk = 64 << 10
	chunkBytes = 4 << 20
)

func (s *sorted) reset() {
	s.chunks = slices.DeleteFunc(s.chunks, func(c []byte) bool { return cap(c) > chunkBytes })
	s.used, s.bytes, s.writes = 0, 0, s.writes[:0]
}

// size is how many bytes were gathered.
func (s *sorted) size() int { return s.bytes }

// room is the chunk that n bytes more fit in.
func (s *sorted) room(n int) int {
	if last := s.used - 1; last >= 0 && cap(s.chunks[last])-len(s.chunks[last]) >= n {
		return last
	}
	if s.used == len(s.chunks) {
		s.chunks = append(s.chunks, nil)
	}
	if cap(s.chunks[s.used]) < n { // a larger one takes its place: beside it both would stay
		s.chunks[s.used] = make([]byte, 0, max(n, min(chunkBytes, max(firstChunk, s.bytes))))
	}
	s.chunks[s.used] = s.chunks[s.used][:0]
	s.used++
	return s.used - 1
}

// Set implements sink.
func (s *sorted) Set(key, value []byte, _ *pebble.WriteOptions) error {
	s.add(key, value, int32(len(value))) //nolint:gosec // as the store takes them
	return nil
}

// Delete implements sink.
func (s *sorted) Delete(key []byte, _ *pebble.WriteOptions) error {
	s.add(key, nil, removes)
	return nil
}

func (s *sorted) add(key, value []byte, length int32) {
	n := len(key) + len(value)
	i := s.room(n)
	c := s.chunks[i]
	s.writes = append(s.writes, sortedWrite{chunk: uint32(i), at: uint32(len(c)), key: int32(len(key)), value: length}) //nolint:gosec // as above
	s.chunks[i] = append(append(c, key...), value...)
	s.bytes += n
}

func (s *sorted) key(w sortedWrite) []byte { return s.chunks[w.chunk][w.at:][:w.key] }

func (s *sorted) value(w sortedWrite) []byte { return s.chunks[w.chunk][w.at:][w.key:][:w.value] }

// ranked is a write among those of one kind of key. Most differ in the head, so that
// sorting seldom looks at keys, which are all over the memory.
type ranked struct {
	head  uint64 // the first bytes of its key in which those of the kind differ
	write int
}

// into writes what was gathered, by key, each key once.
func (s *sorted) into(set func(key, value []byte) error, remove func(key []byte) error) error {
	for _, kind := range s.kinds() {
		s.rank(kind)
		for i, r := range kind {
			w := s.writes[r.write]
			if i > 0 && r.head == kind[i-1].head && bytes.Equal(s.key(w), s.key(s.writes[kind[i-1].write])) {
				continue
			}
			var err error
			if w.value == removes {
				err = remove(s.key(w))
			} else {
				err = set(s.key(w), s.value(w))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// kinds divides the writes by the first byte of their keys, in the order of those.
func (s *sorted) kinds() [][]ranked {
	var count, from [256]int
	for _, w := range s.writes {
		count[s.key(w)[0]]++
	}
	s.ranks = slices.Grow(s.ranks[:0], len(s.writes))[:len(s.writes)]
	var kinds [][]ranked
	at := 0
	for kind, n := range count {
		from[kind] = at
		if n > 0 {
			kinds = append(kinds, s.ranks[at:at+n])
		}
		at += n
	}
	for i, w := range s.writes {
		kind := s.key(w)[0]
		s.ranks[from[kind]].write = i
		from[kind]++
	}
	return kinds
}

// rank sorts the writes of one kind by their keys; of one key the last goes first.
func (s *sorted) rank(kind []ranked) {
	shared := s.key(s.writes[kind[0].write])
	for _, r := range kind[1:] {
		key := s.key(s.writes[r.write])
		if !bytes.HasPrefix(key, shared) {
			shared = shared[:common(shared, key)]
		}
	}
	for i, r := range kind {
		var head [8]byte
		copy(head[:], s.key(s.writes[r.write])[len(shared):])
		kind[i].head = binary.BigEndian.Uint64(head[:])
	}
	slices.SortFunc(kind, func(x, y ranked) int {
		if c := cmp.Compare(x.head, y.head); c != 0 {
			return c
		}
		if c := bytes.Compare(s.key(s.writes[x.write]), s.key(s.writes[y.write])); c != 0 {
			return c
		}
		return y.write - x.write
	})
}

// common is how many bytes two keys begin with alike.
func common(x, y []byte) int {
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}

// batch makes one batch of the store of it.
func (s *sorted) batch(db *pebble.DB) (*pebble.Batch, error) {
	const each = 16 // about what the batch adds to a write
	b := db.NewBatchWithSize(s.bytes + each*len(s.writes) + 64)
	return b, s.into(
		func(key, value []byte) error { return b.Set(key, value, nil) },
		func(key []byte) error { return b.Delete(key, nil) })
}
