// Package snapshot composes what one node must hold now: its merged state and
// its rows one by one, straight from the read model. It also replays a log
// into a fresh read model and says what came out.
//
// Equal facts give equal bytes: two workers at one log sequence answer a node
// with the same body. How a node learns that it should ask is the relay's
// business, and who may ask is the API's.
package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// View is the little this package asks of a consistent look at the read model.
type View interface {
	Generation(id policy.NodeID) (identity uint32, generation uint64, ok bool)
	Rows(id policy.NodeID) (projector.Rows, bool)
	Payload(fp compiler.Fingerprint) ([]byte, error)
}

// State is a node's NodeStateSnapshot (docs/design.md#http). Body and ETag are
// shared between callers: do not modify.
type State struct {
	Body []byte
	ETag string // quoted hex of sha256 of Body
	// Fingerprint of the block, to be reported once it is applied.
	Fingerprint compiler.Fingerprint
}

// Options has a useful zero value.
type Options struct {
	// CacheBytes bounds the bodies kept in memory, one per identity; 0 is 64 MiB.
	CacheBytes int
}

// Composer builds states. All nodes of one label set hold the same rows, so a
// fleet that pulls at once costs one merge per label set. It is safe for
// concurrent use.
type Composer struct {
	cache *cache
}

// NewComposer returns a composer with an empty cache. One composer belongs to
// one read model: identities are handles private to a store.
func NewComposer(opt Options) *Composer {
	if opt.CacheBytes <= 0 {
		opt.CacheBytes = 64 << 20
	}
	return &Composer{cache: newCache(opt.CacheBytes)}
}

// State is the state of node id. ok is false when the view holds no such node.
// An error is a corrupt row: the node must not be served.
func (c *Composer) State(v View, id policy.NodeID) (s State, ok bool, err error) {
	identity, generation, ok := v.Generation(id)
	if !ok {
		return State{}, false, nil
	}
	at := cacheKey{identity, generation}
	if s, hit := c.cache.get(at); hit {
		return s, true, nil
	}
	rows, _ := v.Rows(id)
	block, matched, omitted, err := merge(v, rows.Rows)
	if err != nil {
		return State{}, false, fmt.Errorf("state of node %s: %w", id, err)
	}
	s = newState(stateBlock{Block: block, omitted: omitted}, matched)
	c.cache.put(at, s)
	return s, true, nil
}

// merge reads the payloads of the rows and reduces them to the block that the node
// contract can express; omitted counts the rules that this leaves out.
func merge(v View, rows []projector.Row) (b compiler.Block, matched bool, omitted int, err error) {
	in := make([]compiler.Row, 0, len(rows))
	for _, r := range rows {
		payload, err := v.Payload(r.Fingerprint)
		if err != nil {
			return compiler.Block{}, false, 0, fmt.Errorf("policy %s: %w", r.Policy, err)
		}
		in = append(in, compiler.Row{
			Policy:      r.Policy,
			Revision:    r.Revision,
			Fingerprint: r.Fingerprint,
			Payload:     payload,
			CompiledAt:  r.CompiledAt,
		})
	}
	b, omitted, matched = compiler.MergePlain(in)
	return b, matched, omitted, nil
}

// stateBlock is the policy block of a state.
type stateBlock struct {
	compiler.Block
	omitted  int  // rules that are left out
	resolved bool // Rules are not those of the rows
}

// newState writes the eight members in the order agents and tests rely on
// (contracts, HTTP). The rules travel verbatim.
func newState(b stateBlock, matched bool) State {
	fingerprint := b.Fingerprint
	body := make([]byte, 0, len(b.Rules)+288)
	body = append(body, `{"peers":[],"reachability":null,"policy":`...)
	if matched {
		body = append(body, `{"revision_id":"`...)
		body = append(body, b.Revision.String()...)
		body = append(body, `","fingerprint":"`...)
		body = append(body, b.Fingerprint.String()...)
		body = append(body, `","rules":`...)
		body = append(body, b.Rules...)
		if b.omitted > 0 {
			body = strconv.AppendInt(append(body, `,"rules_omitted":`...), int64(b.omitted), 10)
		}
		if b.resolved {
			body = append(body, `,"resolved":true`...)
		}
		body = append(body, '}')
	} else {
		fingerprint = compiler.Empty.Fingerprint
		body = append(body, `null`...)
	}
	body = append(body, `,"bridge":null,"state":null,"reports":null,"executions":[],"sessions":null}`...)
	sum := sha256.Sum256(body)
	return State{Body: body, ETag: `"` + hex.EncodeToString(sum[:]) + `"`, Fingerprint: fingerprint}
}
