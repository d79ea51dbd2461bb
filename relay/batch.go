package relay

import (
	"encoding/json"
	"strconv"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/fault"
	"github.com/edictdev/edict/streams"
)

// batchBytes bounds one atomic batch (design section 6).
const batchBytes = 8 << 20

// line is one announcement of a batch, with what it tells: rules, or the
// payload of an artifact's.
type line struct {
	announcement
	rules   *artifact.PreparedRules
	payload []byte
}

// part is what a batch carries for one partition: the fence that states where
// the partition is afterwards, and the announcements up to there.
type part struct {
	p     *partition
	fence Fence
	lines []line
	ends  bool   // the last batch of a sync: it carries the sync mark
	told  uint64 // in follow: nothing is left up to this log sequence; 0: cut short
}

// batch is one atomic batch in the making: all fences, then all announcements
// (design section 6).
type batch struct {
	parts    []part
	messages int // room used so far
	bytes    int
	limit    int // messages
}

// room is how many messages may still be added.
func (b *batch) room() int { return b.limit - b.messages }

// full reports whether nothing more than a fence would fit.
func (b *batch) full() bool { return b.room() < 2 || b.bytes >= batchBytes }

func (b *batch) add(x part) {
	b.parts = append(b.parts, x)
	b.messages += 1 + len(x.lines)
	b.bytes += envelopeRoom
	if x.ends {
		b.messages++
		b.bytes += envelopeRoom
	}
	for i := range x.lines {
		b.bytes += x.lines[i].room()
	}
}

// claims is a batch of fences alone, which take their partitions.
func claims(ps []*partition) *batch {
	b := &batch{limit: len(ps)}
	for _, p := range ps {
		b.add(part{p: p, fence: p.claim()})
	}
	return b
}

func (b *batch) partitions() []*partition {
	ps := make([]*partition, len(b.parts))
	for i, x := range b.parts {
		ps[i] = x.p
	}
	return ps
}

func (b *batch) announcements() (n int) {
	for _, x := range b.parts {
		n += len(x.lines)
	}
	return n
}

// build signs the batch on every core, keeping its order.
func (b *batch) build(s *sealer) ([]streams.Outgoing, error) {
	msgs := make([]streams.Outgoing, len(b.parts), b.messages)
	for i, x := range b.parts {
		msgs[i] = streams.Outgoing{
			Subject:   streams.FenceSubject(x.p.id),
			Body:      x.fence.Body(),
			Expect:    x.p.fence.Seq,
			HasExpect: !fault.Always(fault.OldOwner),
			MsgID:     x.fence.MsgID(x.p.id),
		}
	}
	lines := make([]line, 0, b.messages)
	for _, x := range b.parts {
		lines = append(lines, x.lines...)
	}
	at := len(msgs)
	msgs = msgs[:at+len(lines)]
	if err := s.seal(lines, msgs[at:]); err != nil {
		return nil, err
	}
	for _, x := range b.parts {
		if x.ends {
			msgs = append(msgs, syncMark(x.p.id, x.fence.After.Seq, s.log))
		}
	}
	return msgs, nil
}

// stored tells the partitions that the batch stands, its first message at seq.
func (b *batch) stored(seq uint64) {
	for i, x := range b.parts {
		x.p.stored(placed{x.fence, seq + uint64(i)})
		if x.told > 0 {
			x.p.told, x.p.scan = x.told, false
		}
	}
}

// mark is the body of edict.mark.sync.<p>: rows at Seq were compared with the
// stream, and what was equal was not told.
type mark struct {
	Seq uint64 `json:"seq"`
}

func syncMark(partition int, seq uint64, log string) streams.Outgoing {
	body, err := json.Marshal(mark{seq})
	if err != nil {
		panic(err) // an integer always marshals
	}
	return streams.Outgoing{
		Subject: streams.SyncMarkSubject(partition),
		Header:  []string{streams.HeaderEdictLogSeq, strconv.FormatUint(seq, 10), streams.HeaderEdictLog, log},
		Body:    body,
	}
}
