package projector

import (
	"github.com/edictdev/edict/compiler"
)

// payloads decides how long a rule payload is kept: while a head has it, and
// after that while an edge may still announce it. An edge announces the head as
// it was at its event, so a payload that no head has had since sequence s is
// needed only by edges up to s.
type payloads struct {
	heads   map[compiler.Fingerprint]int
	retired []retirement
	last    map[compiler.Fingerprint]uint64 // latest retirement of each
}

type retirement struct {
	seq uint64
	fp  compiler.Fingerprint
}

func newPayloads() payloads {
	return payloads{heads: map[compiler.Fingerprint]int{}, last: map[compiler.Fingerprint]uint64{}}
}

// take counts one more head; fresh is true when the payload must be stored.
func (p *payloads) take(fp compiler.Fingerprint) (fresh bool) {
	p.heads[fp]++
	if p.heads[fp] > 1 {
		return false
	}
	_, kept := p.last[fp]
	return !kept
}

// release counts one head less; retired is true when it was the last.
func (p *payloads) release(fp compiler.Fingerprint, seq uint64) (retired bool) {
	p.heads[fp]--
	if p.heads[fp] > 0 {
		return false
	}
	delete(p.heads, fp)
	p.retire(fp, seq)
	return true
}

func (p *payloads) retire(fp compiler.Fingerprint, seq uint64) {
	p.retired = append(p.retired, retirement{seq, fp})
	p.last[fp] = seq
}

// sweep takes the retirements that no edge at or above oldest can need and
// calls drop for each, with gone set when the payload itself can go too.
func (p *payloads) sweep(oldest uint64, drop func(r retirement, gone bool)) {
	n := 0
	for ; n < len(p.retired) && p.retired[n].seq < oldest; n++ {
		r := p.retired[n]
		gone := p.last[r.fp] == r.seq && p.heads[r.fp] == 0
		if p.last[r.fp] == r.seq {
			delete(p.last, r.fp)
		}
		drop(r, gone)
	}
	p.retired = p.retired[n:]
}
