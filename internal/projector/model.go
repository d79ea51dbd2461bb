package projector

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// model is the read model: what can be asked of the fold, at one sequence.
type model struct {
	// mu guards memory and Pebble together: whoever holds it for reading sees
	// both at one sequence.
	mu     sync.RWMutex
	state  *state
	cursor cursor
	db     *pebble.DB

	payloads cache
	resumes  snapshots
	extended extensions
	// admissionSeq is the sequence of the last change of an admission policy, to
	// be asked without the lock.
	admissionSeq atomic.Uint64
	// accessSeq is that of the last change of a principal or relation.
	accessSeq atomic.Uint64
}
