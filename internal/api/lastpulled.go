package api

import (
	"sync"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// lastPulled remembers what each node pulled from this worker last. Losing it costs
// hints and proofs that the next pull brings again.
type lastPulled struct {
	mu sync.Mutex
	of map[policy.NodeID]pulledState
}

type pulledState struct {
	etag        string
	seq         uint64
	fingerprint compiler.Fingerprint
	reported    bool
	unseen      bool // it has pulled nothing here; the rest says nothing
}

// put notes what a node pulled. came is the log sequence by which there is such a node now:
// what one of that id reported before is forgotten.
func (l *lastPulled) put(id policy.NodeID, s pulledState, came uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[policy.NodeID]pulledState{}
	}
	if old := l.of[id]; old.etag == s.etag && old.reported && old.seq >= came {
		s.reported = true // saying so again would prove nothing more
	}
	l.of[id] = s
}

func (l *lastPulled) get(id policy.NodeID) (pulledState, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.of[id]
	return s, ok
}

func (l *lastPulled) forget(id policy.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, id)
}

// spoken notes that a node speaks for itself: what it pulled is not reported for it.
func (l *lastPulled) spoken(id policy.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.of[id]; ok {
		s.reported = true
		l.of[id] = s
	}
}

// report is what is not reported yet.
func (l *lastPulled) report(id policy.NodeID) (pulledState, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.of[id]
	if !ok || s.reported {
		return s, false
	}
	s.reported = true
	l.of[id] = s
	return s, true
}
