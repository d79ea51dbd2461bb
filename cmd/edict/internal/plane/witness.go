package plane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// witnessPause is how often the log's head is witnessed, if it moved, and the
// log is asked whether it still is the one that was folded.
const witnessPause = time.Minute

// reconnectLook is how often it is looked whether the connection was lost.
const reconnectLook = 100 * time.Millisecond

// confirmed reports whether the log is known to be the one that was folded:
// since it was last out of reach it was asked.
func (p *Plane) confirmed() bool {
	return p.conn.Connected() && p.conn.Reconnects() == p.vouched.Load() && p.guard.raised() == nil
}

// witness is the log's witness as this process knows it.
type witness struct {
	mu    sync.Mutex
	chain *streams.Chain
	at    uint64 // the last entry of chain
	last  streams.Link
	sure  streams.Link // the last one ever seen, whatever became of the witness
}

// openWitness reads what was witnessed and holds the log's birth and end
// against it.
func (p *Plane) openWitness(ctx context.Context) (err error) {
	w := &p.witness
	chain, err := streams.OpenChain(ctx, p.conn)
	if err != nil {
		return err
	}
	w.replace(chain)
	links, at, err := chain.Links(ctx)
	if err != nil {
		return err
	}
	if p.found.Store == nil {
		// No read model knows the log, either.
		if err := streams.Unwitnessed(links); err != nil {
			return advise(err)
		}
	}
	p.links = streams.Standing(links)
	w.note(at, p.links)
	return advise(p.stream.Vouch(ctx, p.links))
}

// note takes what is known of the witness now.
func (w *witness) note(at uint64, links []streams.Link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at > w.at {
		w.at = at
	}
	if n := len(links); n > 0 && links[n-1].At >= w.last.At {
		w.last = links[n-1]
		if w.last.Seq >= w.sure.Seq {
			w.sure = w.last
		}
	}
}

func (w *witness) surest() streams.Link {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sure
}

// end is the witness, with its last entry and the link that it is known by. They
// belong together: what stands behind an entry of one is no entry of another.
func (w *witness) end() (chain *streams.Chain, at uint64, last streams.Link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.chain, w.at, w.last
}

// replace goes by another witness, of which nothing is known yet.
func (w *witness) replace(chain *streams.Chain) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chain, w.at, w.last = chain, 0, streams.Link{}
}

// LastID implements datadir.Witness.
func (p *Plane) LastID() (last policy.EventID) {
	for _, l := range p.links {
		last = max(last, l.LastID())
	}
	return last
}

// NotePutBack implements datadir.Witness.
func (p *Plane) NotePutBack(ctx context.Context, base uint64) error {
	chain, at, link := p.witness.end()
	if link.Log == "" {
		return nil // it has not seen the log
	}
	link = streams.Link{Log: link.Log, Base: base, Seq: link.Seq, Hash: link.Hash, Restored: true}
	n, err := chain.Append(ctx, at, link)
	if err != nil {
		return fmt.Errorf("note in the witness that the log was put back: %w", err)
	}
	link.At = n
	p.witness.note(n, []streams.Link{link})
	return nil
}

func (p *Plane) witnessEvery() time.Duration { return cmp.Or(p.opt.witnessEvery, witnessPause) }

// witnessed is the last sequence that the witness vouches for.
func (p *Plane) witnessed() uint64 {
	_, _, last := p.witness.end()
	return last.Seq
}

// watchLog compares the fold with the witness, and lengthens it, until ctx
// ends or the alarm is raised.
func (p *Plane) watchLog(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { p.followWitness(ctx) })
	parts.Go(func() { p.auditLog(ctx) })
	p.keepWitness(ctx)
	parts.Wait()
}

// followWitness has the fold compared with every link as it is written, by
// whoever writes it.
func (p *Plane) followWitness(ctx context.Context) {
	w := &p.witness
	for ctx.Err() == nil {
		chain, at, _ := w.end()
		for links, err := range chain.Follow(ctx, at+1) {
			if err != nil {
				p.log.Warn("the log's witness cannot be followed; trying again", "stream", streams.ChainStream, "error", err)
				break
			}
			standing := streams.Standing(links)
			if err := p.rebased(standing); err != nil {
				p.guard.leave(err)
				return
			}
			w.note(links[len(links)-1].At, standing)
			if err := p.store.Witness(standing); err != nil {
				p.guard.raise(err)
				return
			}
		}
		if ctx.Err() == nil {
			p.reopenWitness(ctx)
		}
	}
}

// reopenWitness takes the witness that is there now: whoever removed the one
// before did not touch the log.
func (p *Plane) reopenWitness(ctx context.Context) {
	const pause = time.Second
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return
	}
	chain, err := streams.OpenChain(ctx, p.conn)
	if err != nil {
		return // said when it is followed
	}
	p.witness.replace(chain)
}

// keepWitness lengthens the witness where this process is the one to do it, and
// asks the log, now and then and whenever the connection to it was lost,
// whether it still is the one that was folded.
func (p *Plane) keepWitness(ctx context.Context) {
	every := p.witnessEvery()
	minute := time.NewTicker(every)
	defer minute.Stop()
	look := time.NewTicker(min(every, reconnectLook))
	defer look.Stop()
	for {
		changed := p.store.Changed()
		_ = p.lengthen(ctx, false) // said; tried again
		select {
		case <-changed:
		case <-look.C:
			if n := p.conn.Reconnects(); n != p.vouched.Load() && p.vouch(ctx) {
				p.vouched.Store(n)
			}
		case <-minute.C:
			p.vouch(ctx)
			_ = p.lengthen(ctx, true) // said; tried again
		case <-ctx.Done():
			return
		}
	}
}

// vouch asks the log whether it still is the one that was folded and
// witnessed, and raises the alarm when it is not. It is false when the log did
// not answer.
func (p *Plane) vouch(ctx context.Context) bool {
	var links []streams.Link
	if sure := p.witness.surest(); sure.Log != "" {
		links = append(links, sure)
	}
	err := p.stream.Vouch(ctx, links)
	if err == nil {
		err = p.whole(ctx, links)
	}
	if damaged(err) {
		p.guard.raise(err)
	}
	return err == nil || damaged(err)
}

// whole holds the log's end against the fold's. A process that runs has folded
// this very log: what is missing or differs now is damage.
func (p *Plane) whole(ctx context.Context, links []streams.Link) error {
	err := p.store.Verify(ctx, p.stream)
	var other *projector.OtherLogError
	if !errors.As(err, &other) || other.Seq == 0 {
		return err
	}
	if err := p.stream.Vouch(ctx, links); err != nil {
		return err // it may have been replaced since it was asked
	}
	s, err := p.stream.State(ctx)
	if err != nil {
		return err
	}
	d := &streams.DamagedError{Damage: streams.DamageChanged, From: other.Seq, To: other.Seq, Detail: other.Error()}
	if s.Last < other.Seq {
		d.Damage, d.From = streams.DamageTruncated, s.Last+1
	}
	return d
}

// lengthen appends the fold's links that the witness lacks, and with head one
// for where the fold stands. It is the business of one worker, but no harm is
// done when two try: the entry that another wrote first is read, and compared,
// like any.
func (p *Plane) lengthen(ctx context.Context, head bool) error {
	_, _, last := p.witness.end()
	if !head && p.store.Applied()/projector.LinkEvery <= last.Seq/projector.LinkEvery || !p.leads() {
		return nil
	}
	return p.append(ctx, head)
}

// append is lengthen, whoever's business it is.
func (p *Plane) append(ctx context.Context, head bool) error {
	chain, at, last := p.witness.end()
	if p.guard.raised() != nil {
		return nil
	}
	links := p.store.Links()
	if head {
		links = append(links, p.store.Head())
	}
	verified := false
	for _, l := range links {
		if l.Seq <= last.Seq {
			continue
		}
		// What is witnessed is the log, not this process's memory of it.
		if !verified && !p.vouch(ctx) || p.guard.raised() != nil {
			return nil
		}
		verified = true
		l.Base = p.stream.Base()
		n, err := chain.Append(ctx, at, l)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, streams.ErrWrongSequence) {
				p.log.Debug("the log's witness was not written; trying again", "error", err)
			}
			return err
		}
		l.At = n
		at, last = n, l
		p.witness.note(n, []streams.Link{l})
	}
	return nil
}

// endWitness leaves a link where the fold stopped, so that a tail that goes
// missing while nothing runs is missed: each worker does, and those that follow
// find it there. Nobody follows the witness any more: an
// entry that landed in the end, its acknowledgement lost with the stop, is read.
func (p *Plane) endWitness(ctx context.Context) {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for p.conn.Connected() && errors.Is(p.append(ctx, true), streams.ErrWrongSequence) {
		chain, _, _ := p.witness.end()
		links, at, err := chain.Links(ctx)
		if err != nil {
			return
		}
		standing := streams.Standing(links)
		p.witness.note(at, standing)
		if err := p.store.Witness(standing); err != nil {
			p.guard.raise(err)
			return
		}
	}
}
