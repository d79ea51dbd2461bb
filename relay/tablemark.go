package relay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
)

// tableMark is the body of edict.mark.sync.table-<p>: what log events up to Seq
// did to tables alone is told. It names whom it tells; because a newer mark
// replaces it in the stream, that one says again whom the ones before named.
type tableMark struct {
	Log   string          `json:"log"`
	Seq   uint64          `json:"seq"`
	Nodes []policy.NodeID `json:"nodes,omitempty"`
	All   bool            `json:"all,omitempty"` // every node of the partition
	// Earlier are nodes that marks before this one named, and the sequence of the
	// last mark that did. Marks up to From are not in it.
	Earlier map[policy.NodeID]uint64 `json:"earlier,omitempty"`
	From    uint64                   `json:"from,omitempty"`
	// Before is the sequence of the mark that this one replaces.
	Before uint64 `json:"before,omitempty"`
}

// Bounds of a mark: of the names in it, and of those it repeats.
const (
	namedMost   = 8_000
	earlierMost = 1_000
)

// next is the mark that follows m, which stands at the sequence at.
func (m tableMark) next(at, seq uint64, nodes []policy.NodeID) tableMark {
	n := tableMark{Log: m.Log, Seq: seq, Nodes: nodes, Earlier: maps.Clone(m.Earlier), From: m.From, Before: at}
	if len(nodes) > namedMost {
		n.Nodes, n.All = nil, true
	}
	if m.All {
		n.From = at
	}
	for _, id := range m.Nodes {
		if n.Earlier == nil {
			n.Earlier = map[policy.NodeID]uint64{}
		}
		n.Earlier[id] = at
	}
	if len(n.Earlier) > earlierMost {
		seqs := slices.Sorted(maps.Values(n.Earlier))
		n.From = max(n.From, seqs[len(seqs)-1-earlierMost/2])
	}
	maps.DeleteFunc(n.Earlier, func(_ policy.NodeID, seq uint64) bool { return seq <= n.From })
	return n
}

func (m tableMark) message(partition int, expect uint64) streams.Outgoing {
	body, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and integers always marshal
	}
	return streams.Outgoing{
		Subject: tableSubject(partition), Body: body, Expect: expect, HasExpect: true,
		Header: []string{streams.HeaderEdictLogSeq, strconv.FormatUint(m.Seq, 10), streams.HeaderEdictLog, m.Log},
	}
}

func tableSubject(partition int) string { return tablePrefix + strconv.Itoa(partition) }

// placedMark is a table mark and its sequence in the node stream; 0: there is
// none. It never changes.
type placedMark struct {
	tableMark
	at    uint64
	named map[policy.NodeID]bool
}

func readTableMark(m streams.Message) (placedMark, error) {
	p := placedMark{at: m.Seq}
	if err := json.Unmarshal(m.Body, &p.tableMark); err != nil {
		return placedMark{}, fmt.Errorf("read the table mark at %d: %w", m.Seq, err)
	}
	p.named = make(map[policy.NodeID]bool, len(p.Nodes))
	for _, id := range p.Nodes {
		p.named[id] = true
	}
	return p, nil
}

// concerns reports whether a mark above n, and not above upTo, named a node, or
// might have.
func (p placedMark) concerns(node policy.NodeID, n, upTo uint64) bool {
	if p.at <= n {
		return false
	}
	earlier := p.Earlier[node]
	return p.at <= upTo && (p.All || p.named[node]) || earlier > n && earlier <= upTo || n < p.From
}

// seeTable notes the table mark of a partition and tells the nodes that it
// names. The hub may have missed the marks before it. Call with h.mu.
func (h *hub) seeTable(p int, m streams.Message) {
	next, err := readTableMark(m)
	if err != nil {
		h.log.Warn("a table mark cannot be read", "partition", p, "seq", m.Seq, "error", err)
		return
	}
	heard := max(h.passed[p], h.began)
	h.tables[p], h.passed[p] = next, m.Seq
	pull := &news{Message: streams.Message{Seq: m.Seq}, why: whyTable}
	if next.Before <= heard && !next.All {
		for _, id := range next.Nodes {
			for _, s := range h.subs[id] {
				s.push(pull)
			}
		}
		return
	}
	for id, subs := range h.subs {
		if id.Partition(h.partitions) != p || !next.concerns(id, heard, m.Seq) {
			continue
		}
		for _, s := range subs {
			s.push(pull)
		}
	}
}

// tableChanged reports whether a node that goes on after n missed a word about
// its table, up to at.
func (h *hub) tableChanged(node policy.NodeID, n, at uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tables[node.Partition(h.partitions)].concerns(node, n, at)
}
