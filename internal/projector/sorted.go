package projector

import (
	"bytes"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// sorted gathers what one batch writes, in memory that the next one uses again. Of a
// key written twice the later counts, and the store takes keys that ascend with half
// of the work.
type sorted struct {
	buf    []byte // keys and values, one after the other
	writes []sortedWrite
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

// into writes what was gathered, by key, each key once.
func (s *sorted) into(set func(key, value []byte) error, remove func(key []byte) error) error {
	slices.SortFunc(s.writes, func(x, y sortedWrite) int {
		if c := bytes.Compare(s.key(x), s.key(y)); c != 0 {
			return c
		}
		return y.at - x.at
	})
	for i, w := range s.writes {
		var err error
		switch {
		case i > 0 && bytes.Equal(s.key(w), s.key(s.writes[i-1])):
		case w.gone:
			err = remove(s.key(w))
		default:
			err = set(s.key(w), s.buf[w.at+w.key:w.at+w.key+w.value])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// batch makes one batch of the store of it.
func (s *sorted) batch(db *pebble.DB) (*pebble.Batch, error) {
	const each = 16 // about what the batch adds to a write
	b := db.NewBatchWithSize(len(s.buf) + each*len(s.writes) + 64)
	return b, s.into(
		func(key, value []byte) error { return b.Set(key, value, nil) },
		func(key []byte) error { return b.Delete(key, nil) })
}
