package projector

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
)

// Snapshot is the outbox at one moment. Close it.
type Snapshot struct {
	snap      *pebble.Snapshot
	seq       uint64
	time      int64
	parts     []partEdges
	byOrdinal [][]*node // append only: what a snapshot sees of it never changes
}

type partEdges struct{ from, last uint64 }

// Snapshot takes one.
func (p *Projector) Snapshot() *Snapshot {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.snapshot()
}

func (p *Projector) snapshot() *Snapshot {
	s := &Snapshot{
		snap: p.db.NewSnapshot(), seq: p.cursor.seq, time: p.cursor.time,
		parts: make([]partEdges, len(p.pending)), byOrdinal: slices.Clone(p.state.byOrdinal),
	}
	for i := range p.pending {
		s.parts[i] = partEdges{p.pending[i].from, p.pending[i].last}
	}
	return s
}

// Close releases what the snapshot holds.
func (s *Snapshot) Close() error { return s.snap.Close() }

// Seq is the cursor the snapshot stands at.
func (s *Snapshot) Seq() uint64 { return s.seq }

// Time is the log timestamp of event Seq.
func (s *Snapshot) Time() time.Time { return logTime(s.time) }

// EdgesFrom is the sequence above which a partition's edges are complete.
func (s *Snapshot) EdgesFrom(partition int) uint64 { return s.parts[partition].from }

// LastEdge is a sequence above which the partition has no edge: a cheap way to
// see that there is nothing to do.
func (s *Snapshot) LastEdge(partition int) uint64 { return s.parts[partition].last }

// Edges yields a partition's edges with Seq >= from, by (Seq, Policy).
func (s *Snapshot) Edges(partition int, from uint64) iter.Seq2[StoredEdge, error] {
	return func(yield func(StoredEdge, error) bool) {
		it, err := s.snap.NewIter(&pebble.IterOptions{LowerBound: edgePrefix(partition, from), UpperBound: edgePrefix(partition+1, 0)})
		if err != nil {
			yield(StoredEdge{}, fmt.Errorf("read edges: %w", err))
			return
		}
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			e, err := s.edge(it.Key(), it.Value())
			if !yield(e, err) || err != nil {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(StoredEdge{}, fmt.Errorf("read edges: %w", err))
		}
	}
}

func (s *Snapshot) edge(key, value []byte) (StoredEdge, error) {
	e := StoredEdge{Seq: binary.BigEndian.Uint64(key[3:])}
	if name := key[edgeName:]; len(name) == len(e.Policy) {
		e.Policy = uuid.UUID(name)
	} else {
		e.Artifact = string(name[len(artifactEdge):])
	}
	r, nodes := reader{b: value}, s.byOrdinal[binary.BigEndian.Uint16(key[1:])]
	e.Time, e.Revision, e.Fingerprint = logTime(r.time()), r.id(), r.hash()
	e.Have = names(nodes, r.places(len(nodes)))
	e.Lost = names(nodes, r.places(len(nodes)))
	if len(r.b) > 0 {
		e.Trace = streams.Trace(r.take(len(e.Trace)))
	}
	return e, r.err
}

// names turns a partition's places into node ids, ascending by id: the order in
// which they are announced must not depend on when a node was first seen.
func names(nodes []*node, places []uint32) []policy.NodeID {
	if len(places) == 0 {
		return nil
	}
	out := make([]policy.NodeID, len(places))
	for i, place := range places {
		out[i] = nodes[place].id
	}
	slices.Sort(out)
	return out
}

// Payload of a fingerprint that a head or an edge of the snapshot has.
func (s *Snapshot) Payload(fp compiler.Fingerprint) ([]byte, error) { return payload(s.snap, fp) }

// SyncRows are the rows of every present node of some partitions, at Seq.
type SyncRows struct {
	Seq   uint64
	Time  time.Time
	Nodes []SyncNode // by id
	// Heads is the head (or last) revision of every policy id ever used, for
	// the tombstones of rows that are gone.
	Heads map[uuid.UUID]uuid.UUID
}

// SyncNode is one node and its rows, by policy id, of which nodes of one
// identity share the slice; and its artifacts, by kind and name.
type SyncNode struct {
	ID        policy.NodeID
	Rows      []Row
	Artifacts []SyncArtifact
}

// SyncArtifact is one artifact of a node.
type SyncArtifact struct {
	Name        string // <kind>.<name>
	Fingerprint compiler.Fingerprint
}

// SyncRows takes the rows of partitions, and a snapshot of the same moment to
// read payloads from; close it.
func (p *Projector) SyncRows(partitions []int) (SyncRows, *Snapshot) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	s := SyncRows{Seq: p.cursor.seq, Time: logTime(p.cursor.time), Heads: make(map[uuid.UUID]uuid.UUID, len(p.state.policies))}
	for id, pol := range p.state.policies {
		s.Heads[id] = pol.head
	}
	rows := map[*identity][]Row{}
	for _, part := range partitions {
		for _, n := range p.state.byOrdinal[part] {
			if n.identity == nil {
				continue
			}
			r, ok := rows[n.identity]
			if !ok {
				r = n.identity.rows()
				rows[n.identity] = r
			}
			s.Nodes = append(s.Nodes, SyncNode{n.id, r, n.syncArtifacts()})
		}
	}
	slices.SortFunc(s.Nodes, func(a, b SyncNode) int { return compareIDs(a.ID, b.ID) })
	return s, p.snapshot()
}

func (n *node) syncArtifacts() []SyncArtifact {
	if n.artifacts == nil {
		return nil
	}
	out := make([]SyncArtifact, len(n.artifacts.parts))
	for i, p := range n.artifacts.parts {
		out[i] = SyncArtifact{p.suffix(), p.fingerprint}
	}
	return out
}
