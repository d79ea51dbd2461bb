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
	buf    []byte // keys and values, one after the other
	writes []sortedWrite
	ranks  []ranked // of writes, while they are sorted
}

type sortedWrite struct {
	at, key, value int // in buf: where the key begins and how long both are
	gone           bool
}

func (s *sorted) reset() { s.buf, s.writes = s.buf[:0], s.writes[:0] }

// size is how many bytes were gathered.
func (s *sorted) size() int { return len(s.buf) }

// Set implements sink.
func (s *sorted) Set(key, value []byte, _ *pebble.WriteOptions) error {
	s.writes = append(s.writes, sortedWrite{at: len(s.buf), key: len(key), value: len(value)})
	s.buf = append(append(s.buf, key...), value...)
	return nil
}

// Delete implements sink.
func (s *sorted) Delete(key []byte, _ *pebble.WriteOptions) error {
	s.writes = append(s.writes, sortedWrite{at: len(s.buf), key: len(key), gone: true})
	s.buf = append(s.buf, key...)
	return nil
}

func (s *sorted) key(w sortedWrite) []byte { return s.buf[w.at : w.at+w.key] }

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
			if w.gone {
				err = remove(s.key(w))
			} else {
				err = set(s.key(w), s.buf[w.at+w.key:w.at+w.key+w.value])
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
		count[s.buf[w.at]]++
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
		kind := s.buf[w.at]
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
	b := db.NewBatchWithSize(len(s.buf) + each*len(s.writes) + 64)
	return b, s.into(
		func(key, value []byte) error { return b.Set(key, value, nil) },
		func(key []byte) error { return b.Delete(key, nil) })
}
