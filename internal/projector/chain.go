package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/streams"
)

// LinkEvery is at which sequences every fold knows its chain hash: the
// multiples of it. The witness holds a link for each, and some between.
const LinkEvery = 1000

// What a fold remembers of its own chain: the hash at each of the last few
// events, for links made at the log's head, and at the last multiples of
// LinkEvery, for links that come late.
const (
	recentKept = 4096
	linksKept  = 64
)

// maxHeld bounds the events that wait for the link above them to confirm
// them. Links are at most LinkEvery apart, unless nobody witnessed for a time.
const maxHeld = 8 * LinkEvery

// heldBytes bounds them by what they weigh, too.
const heldBytes = 24 << 20

// witness is the fold's half of the log's witness: what it hashed itself, and
// the links ahead of it.
type witness struct {
	mu     sync.Mutex
	seq    uint64 // the last sequence hashed
	agreed uint64 // the last at which a link agreed
	ahead  []streams.Link
	recent [recentKept]Chain
	marks  [linksKept]Chain
}

// begin puts the fold at the cursor. One that has folded nothing stands before the
// log's first event, with no hash yet: a log that was accepted when it was empty
// has a link there.
func (w *witness) begin(c cursor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := c.position()
	at.Seq = c.stands()
	if w.seq == at.Seq {
		return
	}
	w.seq = at.Seq
	if c.older == nil && c.seq > 0 { // else it is not known what they were one event before
		w.note(Chain{Seq: c.seq - 1, Hash: c.prev})
	}
	w.note(at)
}

func (w *witness) note(c Chain) {
	w.recent[c.Seq%recentKept] = c
	if c.Seq%LinkEvery == 0 {
		w.marks[c.Seq/LinkEvery%linksKept] = c
	}
}

// own is the fold's hash at seq, if it still knows.
func (w *witness) own(seq uint64) (Chain, bool) {
	if c := w.recent[seq%recentKept]; c.Seq == seq && seq != 0 {
		return c, true
	}
	c := w.marks[seq/LinkEvery%linksKept]
	return c, c.Seq == seq && seq != 0
}

// learn takes links of the witness. Those that the fold has passed are compared
// at once, the others as it passes them.
func (w *witness) learn(links []streams.Link) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range links {
		if l.Accepted {
			w.ahead = w.ahead[:0]
		}
		if l.Seq > w.seq {
			i, _ := slices.BinarySearchFunc(w.ahead, l.Seq, func(a streams.Link, seq uint64) int { return cmp.Compare(a.Seq, seq) })
			w.ahead = slices.Insert(w.ahead, i, l)
			continue
		}
		c, known := w.own(l.Seq)
		if !known {
			continue // a later link speaks for it, too
		}
		if err := c.Compare(l, w.agreed); err != nil {
			return err
		}
		w.agreed = max(w.agreed, l.Seq)
	}
	return nil
}

// pass moves the fold's chain over entries, which follow it, and compares at
// each link. confirmed is the last sequence that may be folded: below the link
// that comes next, nothing is that the last one did not confirm.
func (w *witness) pass(c *Chain, entries []entry) (confirmed uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		c.pass(&e.msg, e.names, e.body)
		e.chain, e.older = c.Hash, c.older
		w.seq = c.Seq
		w.note(*c)
		for len(w.ahead) > 0 && w.ahead[0].Seq <= c.Seq {
			if err := c.Compare(w.ahead[0], w.agreed); err != nil {
				return w.agreed, err
			}
			w.agreed = c.Seq
			w.ahead = w.ahead[1:]
		}
	}
	if len(w.ahead) == 0 {
		return c.Seq, nil
	}
	return w.agreed, nil
}

// verifier prepares messages for the fold, and holds them back until the witness
// confirms them, as far as it has links for them.
type verifier struct {
	witness *witness
	chain   Chain
	next    uint64
	held    []entry
	weight  int // of held
	ours    func(*streams.Message) bool
}

// newVerifier begins after the last batch that was written.
func (p *Projector) newVerifier() *verifier {
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.witness.begin(p.cursor)
	return &verifier{witness: &p.witness, chain: p.cursor.position(), next: p.next(), ours: p.opt.Metrics.Ours}
}

// take prepares messages and returns those that may be folded, which come before the
// fault that the error names.
func (v *verifier) take(msgs []streams.Message) ([]entry, error) {
	entries, stop := prepareFrom(msgs, v.next, v.ours)
	v.next += uint64(len(entries))
	confirmed, err := v.witness.pass(&v.chain, entries)
	weight := v.weight + weigh(entries)
	if len(v.held) > 0 {
		entries = append(v.held, entries...)
	}
	v.held, v.weight = nil, 0
	if err == nil && (len(entries) > maxHeld || weight > heldBytes) {
		return entries, stop
	}
	n, _ := slices.BinarySearchFunc(entries, confirmed+1, func(e entry, seq uint64) int { return cmp.Compare(e.msg.Seq, seq) })
	v.held = entries[n:]
	v.weight = weight - weigh(entries[:n])
	return entries[:n:n], cmp.Or(err, stop)
}

func weigh(entries []entry) (weight int) {
	for i := range entries {
		weight += entries[i].weight
	}
	return weight
}

// rest returns what take held back.
func (v *verifier) rest() []entry {
	held := v.held
	v.held, v.weight = nil, 0
	return held
}

// Witness compares links of the witness, oldest first, with the fold's own
// chain hash: at once where the fold has passed them, else as it does, and keeps
// events back until the link above them has confirmed them. An error is a *streams.DamagedError: the fold must end.
func (p *Projector) Witness(links []streams.Link) error {
	id := p.linkOf(Chain{}).Log
	for _, l := range links {
		if l.Log != id && !fault.Always(fault.AnyLog) {
			return &streams.DamagedError{Damage: streams.DamageOther, Detail: fmt.Sprintf("this log has identity %s, the witness has links of %s", id, l.Log)}
		}
	}
	return p.witness.learn(links)
}

// Links are the fold's own links at the last multiples of LinkEvery that are
// applied, oldest first. After a start it knows those it has passed since.
func (p *Projector) Links() []streams.Link {
	applied := p.Applied()
	p.witness.mu.Lock()
	defer p.witness.mu.Unlock()
	links := make([]streams.Link, 0, linksKept)
	for _, c := range p.witness.marks {
		if c.Seq > 0 && c.Seq <= applied {
			links = append(links, p.linkOf(c))
		}
	}
	slices.SortFunc(links, bySeq)
	return links
}

// Agreed is the last sequence at which a link of the witness agreed with the
// fold, since the start; 0: none has.
func (p *Projector) Agreed() uint64 {
	p.witness.mu.Lock()
	defer p.witness.mu.Unlock()
	return p.witness.agreed
}

// Head is the fold's own link where it stands.
func (p *Projector) Head() streams.Link {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.linkOf(p.cursor.position())
}

func (p *Projector) linkOf(c Chain) streams.Link {
	return streams.Link{Log: strconv.FormatInt(p.opt.Created.UnixNano(), 10), Seq: c.Seq, Hash: c.Hash}
}

// Differ holds another worker's links against the fold's own chain hash. It
// returns the first sequence that both know and see differently (0: there is
// none), and the last below it that both see alike.
func (p *Projector) Differ(theirs []streams.Link) (seq, agreed uint64) {
	id := p.linkOf(Chain{}).Log
	p.witness.mu.Lock()
	defer p.witness.mu.Unlock()
	for _, l := range slices.SortedFunc(slices.Values(theirs), bySeq) {
		c, known := p.witness.own(l.Seq)
		switch {
		case !known || l.Log != id:
		case !c.agrees(l):
			return l.Seq, agreed
		default:
			agreed = l.Seq
		}
	}
	return 0, agreed
}

func bySeq(a, b streams.Link) int { return cmp.Compare(a.Seq, b.Seq) }

// Verify has the log prove that it still is the one folded: its event at the cursor, or
// at what was reached beyond it, must exist and continue the chain hash as it did. *OtherLogError when it does not;
// *streams.CompactedError when it was removed, and the store must begin at the origin.
func (p *Projector) Verify(ctx context.Context, log interface {
	Get(ctx context.Context, seq uint64) (streams.Message, error)
},
) error {
	p.mu.RLock()
	c := p.cursor.reached()
	p.mu.RUnlock()
	if p.before.seq > c.seq {
		c = p.before
	}
	if c.seq == 0 {
		return nil
	}
	m, err := log.Get(ctx, c.seq)
	if errors.Is(err, streams.ErrNotFound) && !errors.As(err, new(*streams.CompactedError)) {
		return &OtherLogError{Dir: p.dir, Detail: fmt.Sprintf("it reaches sequence %d, which the log lacks", c.seq), Seq: c.seq}
	}
	if err != nil {
		return fmt.Errorf("read event %d: %w", c.seq, err)
	}
	before := Chain{Seq: c.seq - 1, Hash: c.prev}
	if before.Add(m); before.Hash != c.chain {
		return &OtherLogError{Dir: p.dir, Detail: fmt.Sprintf("event %d differs from the one it folded", c.seq), Seq: c.seq}
	}
	return nil
}
