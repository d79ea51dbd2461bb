package projector

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// snapshots shares one snapshot of the store among all who resume between two batches
// of the fold. To close one, Pebble looks for a compaction, which takes as long as
// reading what a node missed.
type snapshots struct {
	mu  sync.Mutex
	now *sharedSnapshot // nil: nobody has asked since the last batch
}

// sharedSnapshot is closed by the last who uses it. While it may be given to others,
// snapshots is one of them.
type sharedSnapshot struct {
	*pebble.Snapshot
	of    *snapshots
	seq   uint64
	users int
}

// at is the snapshot of the store at seq, where the store stands. Close it. The lock of
// the model must be held.
func (s *snapshots) at(seq uint64, db *pebble.DB) *sharedSnapshot {
	s.mu.Lock()
	old := s.now
	if old != nil && old.seq == seq {
		old.users++
		s.mu.Unlock()
		return old
	}
	fresh := &sharedSnapshot{db.NewSnapshot(), s, seq, 2}
	s.now = fresh
	s.mu.Unlock()
	if old != nil {
		_ = old.Close() // it fails only when it is closed
	}
	return fresh
}

// drop gives the present one to nobody else.
func (s *snapshots) drop() error {
	s.mu.Lock()
	old := s.now
	s.now = nil
	s.mu.Unlock()
	if old == nil {
		return nil
	}
	return old.Close()
}

// Close ends one use of it.
func (s *sharedSnapshot) Close() error {
	s.of.mu.Lock()
	s.users--
	last := s.users == 0
	s.of.mu.Unlock()
	if !last {
		return nil
	}
	return s.Snapshot.Close()
}
