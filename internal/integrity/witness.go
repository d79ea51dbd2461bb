package integrity

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Witness is the log's witness as this process knows it.
type Witness struct {
	conn  *streams.Conn
	links []streams.Link // as the start found them

	mu      sync.Mutex
	chain   *streams.Chain
	at      uint64 // the last entry of chain
	last    streams.Link
	highest streams.Link // ever seen, whatever became of the witness
}

// OpenWitness reads the witness, makes it where there is none, and compares the
// log's identity and extent with it. alone says that nothing but the witness
// knows the log: no read model does. An error of a damaged log has its advice.
func OpenWitness(ctx context.Context, conn *streams.Conn, log Extent, alone bool) (*Witness, error) {
	chain, err := streams.OpenChain(ctx, conn)
	if err != nil {
		return nil, err
	}
	links, at, err := chain.Links(ctx)
	if err != nil {
		return nil, err
	}
	if alone {
		if err := streams.Unwitnessed(links); err != nil {
			return nil, Advise(err)
		}
	}
	w := &Witness{conn: conn, chain: chain, links: streams.EffectiveLinks(links)}
	w.note(at, w.links)
	return w, Advise(log.VerifyExtent(ctx, w.links))
}

// Extent is what is asked of the log about its identity and its end.
type Extent interface {
	VerifyExtent(ctx context.Context, links []streams.Link) error
}

// Links are those that counted when the witness was opened, oldest first.
func (w *Witness) Links() []streams.Link { return w.links }

// Last is the last sequence that the witness confirms.
func (w *Witness) Last() uint64 {
	_, _, last := w.end()
	return last.Seq
}

// LastID implements datadir.Witness.
func (w *Witness) LastID() (last policy.EventID) {
	for _, l := range w.links {
		last = max(last, l.LastID())
	}
	return last
}

// NotePutBack implements datadir.Witness.
func (w *Witness) NotePutBack(ctx context.Context, base uint64) error {
	chain, at, link := w.end()
	if link.Log == "" {
		return nil // it has not seen the log
	}
	link = streams.Link{Log: link.Log, Base: base, Seq: link.Seq, Hash: link.Hash, Restored: true}
	n, err := chain.Append(ctx, at, link)
	if err != nil {
		return fmt.Errorf("note in the witness that the log was put back: %w", err)
	}
	link.At = n
	w.note(n, []streams.Link{link})
	return nil
}

// note takes what is known of the witness now.
func (w *Witness) note(at uint64, links []streams.Link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at > w.at {
		w.at = at
	}
	if n := len(links); n > 0 && links[n-1].At >= w.last.At {
		w.last = links[n-1]
		if w.last.Seq >= w.highest.Seq {
			w.highest = w.last
		}
	}
}

// known is the highest link ever seen, as the log is asked about it; none: no
// link was.
func (w *Witness) known() []streams.Link {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.highest.Log == "" {
		return nil
	}
	return []streams.Link{w.highest}
}

// end is the witness, with its last entry and the link that it is known by. They
// belong together: what stands behind an entry of one is no entry of another.
func (w *Witness) end() (chain *streams.Chain, at uint64, last streams.Link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.chain, w.at, w.last
}

// reopen takes the witness that is there now: whoever removed the one before did
// not touch the log. Nothing is known of the new one yet.
func (w *Witness) reopen(ctx context.Context) error {
	chain, err := streams.OpenChain(ctx, w.conn)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chain, w.at, w.last = chain, 0, streams.Link{}
	return nil
}

// FindLinks reads what a server holds of the log's witness: all of its links, and
// its last entry. chain is nil where nobody witnessed the log.
func FindLinks(ctx context.Context, conn *streams.Conn) (chain *streams.Chain, links []streams.Link, at uint64, err error) {
	chain, err = streams.FindChain(ctx, conn)
	if errors.Is(err, streams.ErrNotFound) {
		return nil, nil, 0, nil
	}
	if err != nil {
		return nil, nil, 0, err
	}
	links, at, err = chain.Links(ctx)
	return chain, links, at, err
}
