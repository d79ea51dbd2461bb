package relay

import (
	"sync"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
)

// tails answers how many edges of the very sequence a fence stands in have
// something left to tell. Edges of that sequence are kept until the fence has
// left it, so that they are there says nothing; and of an edge that a whole
// plane hears of, only the last announcement counts. It is looked for once.
type tails struct {
	mu   sync.Mutex
	last map[int]sequenceTail // by partition
}

// sequenceTail is the last announcement of each edge of a sequence.
type sequenceTail struct {
	seq  uint64
	keys []Key
}

// left counts the edges of p that its fence has not told to the end.
func (t *tails) left(box Outbox, p PartitionStatus) (n int, err error) {
	if p.After.IsEnd() || box.EdgesFrom(p.ID) >= p.After.Seq {
		return 0, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tail := t.last[p.ID]
	if tail.seq != p.After.Seq {
		if tail, err = tailOf(box, p.ID, p.After.Seq); err != nil {
			return 0, err
		}
		if box.Seq() >= tail.seq { // all that it will ever have
			if t.last == nil {
				t.last = map[int]sequenceTail{}
			}
			t.last[p.ID] = tail
		}
	}
	for _, k := range tail.keys {
		if k.Compare(p.After) > 0 {
			n++
		}
	}
	return n, nil
}

func tailOf(box Outbox, partition int, seq uint64) (sequenceTail, error) {
	tail := sequenceTail{seq: seq}
	for e, err := range box.Edges(partition, seq) {
		if err != nil {
			return tail, err
		}
		if e.Seq > seq {
			break
		}
		if last := max(lastOf(e.Have), lastOf(e.Lost)); last != "" {
			tail.keys = append(tail.keys, Key{seq, nameOf(e), last})
		}
	}
	return tail, nil
}

func lastOf(nodes []policy.NodeID) policy.NodeID {
	if len(nodes) == 0 {
		return ""
	}
	return nodes[len(nodes)-1]
}

// nameOf is the last token of the subjects that an edge's announcements go to.
func nameOf(e projector.StoredEdge) string {
	if e.Artifact != "" {
		return artifactPrefix + e.Artifact
	}
	return e.Policy.String()
}
