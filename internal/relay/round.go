package relay

import (
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// round hands what waits to streams that are ready, and signs what many of them
// are owed together: one signature for as many frames as a run takes, over all
// streams that read the dialect of runs. Frames of the others are signed by who
// writes them, one by one.
type round struct {
	clock   func() time.Time
	keys    artifact.Keys
	run     *artifact.NoticeRun
	in      []*stream // whose frames are in the run
	issued  time.Time
	payload []byte
	traced  Traced
}

// use has what follows signed by these keys.
func (r *round) use(keys artifact.Keys) {
	r.keys, r.run = keys, artifact.NewNoticeRun(keys.Current)
}

// give hands a stream that is ready what waits for it, if anything does.
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
	h.tellKey = s.mustHear(r.keys, r.issued)
	h.again = s.away && !s.sent && s.queue.len() == 0
	if len(h.list) == 0 && !h.tellKey && !h.again {
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

// end signs what is left, and reports what the round told.
func (r *round) end(began time.Time, to func(Traced)) {
	r.sign()
	if to != nil && len(r.traced.Traces) > 0 {
		r.traced.Began = began
		to(r.traced)
		r.traced = Traced{}
	}
	r.traced.Announcements = 0
	r.issued = time.Time{}
	if cap(r.payload) > framesHeld*4 {
		r.payload = nil // a rare giant is not kept
	}
}

// handed is what a stream is to write now.
type handed struct {
	list    []*news
	keys    artifact.Keys
	tellKey bool // of the current key, before all else
	issued  time.Time
	run     *artifact.SignedRun // over the list, from place first on; nil: each is to be signed
	first   int
	again   bool // then the stream is to join anew
}
