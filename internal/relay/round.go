package relay

import (
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// round gives waiting messages to the streams that are ready. Frames for streams in
// the dialect of runs are signed together, one signature for each full run, whatever
// streams they are for. Frames in other dialects are signed one by one, by the stream
// that writes them.
type round struct {
	clock   func() time.Time
	keys    artifact.Keys
	run     *artifact.NoticeRun
	in      []*stream // whose frames are in the run
	issued  time.Time
	payload []byte
	traced  Traced
}

// use sets the keys that sign from now on.
func (r *round) use(keys artifact.Keys) {
	r.keys, r.run = keys, artifact.NewNoticeRun(keys.Current)
}

// give gives a ready stream what waits for it, if anything does.
func (r *round) give(s *stream) {
	if !s.loaded {
		return // its past comes first
	}
	if r.issued.IsZero() {
		r.issued = r.clock()
	}
	h := &s.hand
	h.list = s.queue.take(h.list[:0], artifact.MaxRun)
	h.keys, h.issued, h.run = r.keys, r.issued, nil
	h.sendKey = s.mustSendKey(r.keys, r.issued)
	h.again = s.away && !s.sent && s.queue.len() == 0
	if len(h.list) == 0 && !h.sendKey && !h.again {
		return
	}
	s.sent = s.sent || h.again
	r.traced.Announcements += len(h.list)
	s.take(s.queue.len() > 0)
	if s.dialect != policy.DialectBatch || len(h.list) == 0 {
		s.handOver()
		return
	}
	if r.run.Len()+len(h.list) > artifact.MaxRun {
		r.sign()
	}
	h.first = r.run.Len()
	for _, n := range h.list {
		r.payload = n.appendPayload(r.payload[:0], s.node)
		r.run.Add(s.notice(n, r.payload, r.issued))
	}
	r.in = append(r.in, s)
}

// sign signs the run and lets its streams write.
func (r *round) sign() {
	if r.run.Len() == 0 {
		return
	}
	signed := r.run.Sign()
	for i, s := range r.in {
		s.hand.run = signed
		s.handOver()
		r.in[i] = nil
	}
	r.in = r.in[:0]
}

// end signs the rest, and reports the round.
func (r *round) end(began time.Time, to func(Traced)) {
	r.sign()
	if to != nil && len(r.traced.Traces) > 0 {
		r.traced.Began = began
		to(r.traced)
		r.traced = Traced{}
	}
	r.traced.Announcements = 0
	r.issued = time.Time{}
	if cap(r.payload) > writeSize*4 {
		r.payload = nil // do not keep a rare large buffer
	}
}

// handed is what the hub has given to a stream to write.
type handed struct {
	list    []*message
	keys    artifact.Keys
	sendKey bool // announce the current key first
	issued  time.Time
	run     *artifact.SignedRun // over the list, from index first on; nil: sign each
	first   int
	again   bool // after writing, the stream is to join again
}
