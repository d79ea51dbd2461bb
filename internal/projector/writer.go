package projector

import "github.com/cockroachdb/pebble/v2"

// sink takes what the fold writes. A Pebble batch is one.
type sink interface {
	Set(key, value []byte, _ *pebble.WriteOptions) error
	Delete(key []byte, _ *pebble.WriteOptions) error
}

// writer puts records into one batch after the other.
type writer struct {
	batch  sink
	key    []byte // of one write; the batch copies what it is given
	value  []byte // of one write
	failed error
}

// begin turns to another batch.
func (w *writer) begin(b sink) { w.batch, w.failed = b, nil }

// end lets go of the batch. An error means that it must not be written.
func (w *writer) end() error {
	w.batch = nil
	return w.failed
}

func (w *writer) set(key, value []byte) { w.note(w.batch.Set(key, value, nil)) }

func (w *writer) delete(key []byte) { w.note(w.batch.Delete(key, nil)) }

// note keeps the first error.
func (w *writer) note(err error) {
	if w.failed == nil {
		w.failed = err
	}
}
