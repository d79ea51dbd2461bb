package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"sync"
	"time"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/compiler/firstmatch"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Blocks makes the resolved blocks of nodes: where the rules of a node are ordered
// or conflict, its state has one list of which the first rule that matches decides,
// and which says what the node's table says (docs/datapath.md#agents-of-the-node-contract).
// It is safe for concurrent use.
type Blocks struct {
	tables *Tables

	mu       sync.Mutex
	faithful *keeper[faithKey, bool]
	made     *keeper[blockKey, State]
}

// NewBlocks makes the blocks that follow from tables.
func NewBlocks(t *Tables) *Blocks {
	return &Blocks{tables: t, faithful: newKeeper[faithKey, bool](t.bytes / 16), made: newKeeper[blockKey, State](t.bytes)}
}

// faithKey names the rows of a node and its addresses.
type faithKey [sha256.Size]byte

// blockKey names what a resolved block is made of.
type blockKey [sha256.Size]byte

// Of is the resolved state of a node; resolved is false where its rows say by
// themselves what the node enforces, and where there is no such node. The error
// is as that of Tables.Of, without *TableError: a node without a table denies
// everything.
func (b *Blocks) Of(ctx context.Context, id policy.NodeID) (s State, resolved bool, err error) {
	e, ok, err := b.tables.model.Enforcement(id)
	if !ok || err != nil {
		return State{}, false, err
	}
	heads, needs, err := b.needs(e)
	if err = errors.Join(err, e.Close()); err != nil || needs == needNone || fault.Always(fault.UnresolvedBlock) {
		return State{}, false, err
	}
	a, ok, err := b.tableOf(ctx, e.Node)
	var none *TableError
	switch {
	case errors.As(err, &none):
		return refusedState(e.Node.Addresses, heads), true, nil
	case err != nil || !ok:
		return State{}, false, err
	case needs == needIfSplit && !a.first().Split():
		return State{}, false, nil
	}
	return b.state(a, heads), true, nil
}

// A whole fleet may ask for its states at once, and a state is small: who asks for one
// is not sent away because many wait, as who asks for a table is.
const patience = 10 * time.Second

// tableOf is Tables.Of with patience.
func (b *Blocks) tableOf(ctx context.Context, n policy.Node) (a Answer, ok bool, err error) {
	var busy *BusyError
	if a, ok, err = b.tables.Of(ctx, n.ID); !errors.As(err, &busy) {
		return a, ok, err
	}
	waiting, end := context.WithTimeout(ctx, patience)
	defer end()
	for errors.As(err, &busy) && b.tables.rooms.wait(waiting, n.Project) {
		a, ok, err = b.tables.Of(ctx, n.ID)
		b.tables.rooms.came(n.Project)
	}
	return a, ok, err
}

// need is whether a node needs a resolved block.
type need int

const (
	needNone    need = iota
	needIfSplit      // where a CIDR holds one address of a peer and not another
	needAlways
)

// needs says whether a node needs a resolved block. Nodes without addresses have
// no flows that a plain rule would be wrong about.
func (b *Blocks) needs(e *projector.Enforcement) (heads []datapath.Head, n need, err error) {
	if len(e.Matched) == 0 {
		return nil, needNone, nil
	}
	ordered, extended, sums := false, false, sha256.New()
	for _, ref := range e.Matched {
		r, err := b.tables.head(e, ref)
		if err != nil {
			return nil, needNone, err
		}
		if r.Order.Audit {
			continue
		}
		heads = append(heads, datapath.Head{Policy: ref.Policy, Revision: r.Revision})
		sums.Write(r.sum[:])
		ordered = ordered || r.Order != (policy.Order{})
		extended = extended || r.Content().Extended()
	}
	switch addressed := len(e.Node.Addresses) > 0; {
	case ordered, extended && addressed:
		return heads, needAlways, nil
	case !addressed, len(heads) == 0:
		return nil, needNone, nil
	case !b.plain(e.Node, heads, sums):
		return heads, needAlways, nil
	case e.ManyHomed:
		return heads, needIfSplit, nil
	}
	return nil, needNone, nil
}

// plain is firstmatch.Faithful, remembered. What is written to h says what the heads
// are.
func (b *Blocks) plain(n policy.Node, heads []datapath.Head, h hash.Hash) bool {
	writeAddresses(h, n.Addresses)
	key := faithKey(h.Sum(nil))
	b.mu.Lock()
	known, ok := b.faithful.get(key)
	b.mu.Unlock()
	if ok {
		return known
	}
	known = firstmatch.Faithful(n, heads)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faithful.put(key, known, 0)
	return known
}

func writeAddresses(h hash.Hash, addrs policy.Addresses) {
	for _, a := range addrs {
		raw := a.As16()
		h.Write(raw[:])
	}
}

// state is the state of a node whose table is known. Nodes of one table and the same
// addresses share it.
func (b *Blocks) state(a Answer, heads []datapath.Head) State {
	h := sha256.New()
	h.Write(a.Fingerprint[:])
	h.Write(a.list[:])
	writeAddresses(h, a.Node.Addresses)
	h.Write(heads[0].Revision.ID[:])
	key := blockKey(h.Sum(nil))
	b.mu.Lock()
	s, ok := b.made.get(key)
	b.mu.Unlock()
	if ok {
		return s
	}
	var rules []policy.Rule
	var omitted int
	if len(a.Node.Addresses) == 0 {
		rules, omitted = firstmatch.Unaddressed(a.Table.Table, written(heads))
	} else {
		rules, omitted = a.first().Rules(a.Node.Addresses)
	}
	rules, omitted = mistaken(rules, omitted)
	s = blockState(rules, omitted, heads)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made.put(key, s, len(s.Body))
	return s
}

// mistaken is the mistakes of this package about rules.
func mistaken(rules []policy.Rule, omitted int) ([]policy.Rule, int) {
	if len(rules) > 1 && fault.Always(fault.SwappedRules) {
		rules[0], rules[1] = rules[1], rules[0]
	}
	if fault.Always(fault.ForgottenDefault) {
		rules = rules[:len(rules)-1]
	}
	if fault.Always(fault.UncountedRules) {
		omitted = 0
	}
	return rules, omitted
}

func blockState(rules []policy.Rule, omitted int, heads []datapath.Head) State {
	payload := compiler.AppendRules(nil, rules)
	block := compiler.Block{Revision: heads[0].Revision.ID, Fingerprint: compiler.FingerprintOf(payload), Rules: payload}
	return newState(stateBlock{Block: block, omitted: omitted, resolved: true}, true)
}

// refusedState denies everything: the node has no table, and never had one.
func refusedState(self policy.Addresses, heads []datapath.Head) State {
	omitted := 0
	for _, h := range heads {
		omitted += len(h.Revision.Rules)
	}
	return blockState(firstmatch.Closed(self), omitted, heads)
}

// written gives the rules of heads as their authors wrote them. A rule of an older
// head is not known: an older table is in force.
func written(heads []datapath.Head) func(datapath.Ref) policy.Rule {
	by := make(map[string]policy.Revision, len(heads))
	for _, h := range heads {
		by[h.Revision.ID.String()] = h.Revision
	}
	return func(r datapath.Ref) policy.Rule {
		if rules := by[r.Revision].Rules; r.Index < len(rules) {
			return rules[r.Index]
		}
		return policy.Rule{SourceSelector: "?"} // denied
	}
}
