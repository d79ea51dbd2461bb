package access

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"time"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Snapshot is who may do what at one log sequence. It never changes; the next
// one shares with it what did not change.
type Snapshot struct {
	version     uint64
	principals  shards[policy.PrincipalID, *entry]
	credentials shards[key, credential]
}

// entry is a principal and the keys that lead to it.
type entry struct {
	Principal
	keys map[key]credential
}

// credential is whom a key proves. Where several principals list one, it proves
// none of them, unless the file does: nobody is to come to another's rights by
// naming what is his.
type credential struct {
	principal policy.PrincipalID
	expires   int64 // unix ns; 0: never
	filed     bool  // the file says so
	other     *credential
}

// without is the same key where id does not list it; nil: nobody does.
func (c *credential) without(id policy.PrincipalID) *credential {
	if c == nil {
		return nil
	}
	rest := c.other.without(id)
	if c.principal == id {
		return rest
	}
	kept := *c
	kept.other = rest
	return &kept
}

// holder is the one whom the key proves; nil: it is nobody's alone.
func (c *credential) holder() *credential {
	if c.other == nil {
		return c
	}
	var filed *credential
	for o := c; o != nil; o = o.other {
		if o.filed {
			if filed != nil {
				return nil
			}
			filed = o
		}
	}
	return filed
}

// shards is a map in parts, so that a change copies one part.
type shards[K comparable, V any] [256]map[K]V

// find answers by a credential's key.
func (s *Snapshot) find(k key, now time.Time) *Principal {
	first, ok := s.credentials[k[0]][k]
	if !ok {
		return nil
	}
	c := first.holder()
	if c == nil || c.expires != 0 && now.UnixNano() >= c.expires {
		return nil
	}
	if e := s.principals[shardOf(c.principal)][c.principal]; e != nil {
		return &e.Principal
	}
	return nil
}

// Taken is the principal, other than id, that lists a credential of d, and
// where in d; "" when there is none.
func (s *Snapshot) Taken(id policy.PrincipalID, d policy.Principal) (by policy.PrincipalID, pointer string) {
	for p := range proofs(d) {
		c, ok := s.credentials[p.key[0]][p.key]
		if !ok {
			continue
		}
		if other := c.without(id); other != nil {
			return other.principal, fmt.Sprintf("/%s/%d", p.list, p.at)
		}
	}
	return "", ""
}

// shardOf spreads ids: the last letters of names differ most.
func shardOf(id policy.PrincipalID) byte {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return byte(h ^ h>>8 ^ h>>16 ^ h>>24)
}

// draft is a snapshot being made of another. Parts are copied when they are
// first written.
type draft struct {
	Snapshot
	ownPrincipals, ownCredentials [256]bool
}

// setCredential has principal c.principal list k, or not.
func (d *draft) setCredential(k key, c credential, there bool) {
	d.credentials[k[0]] = own(d.credentials[k[0]], &d.ownCredentials[k[0]])
	m := d.credentials[k[0]]
	var rest *credential
	if old, ok := m[k]; ok {
		rest = old.without(c.principal)
	}
	switch {
	case there:
		c.other = rest
		m[k] = c
	case rest != nil:
		m[k] = *rest
	default:
		delete(m, k)
	}
}

func (d *draft) setPrincipal(id policy.PrincipalID, e *entry) {
	i := shardOf(id)
	if old := d.principals[i][id]; old != nil {
		for k, c := range old.keys {
			d.setCredential(k, c, false)
		}
	}
	d.principals[i] = own(d.principals[i], &d.ownPrincipals[i])
	if e == nil {
		delete(d.principals[i], id)
		return
	}
	d.principals[i][id] = e
	for k, c := range e.keys {
		d.setCredential(k, c, true)
	}
}

func own[K comparable, V any](m map[K]V, mine *bool) map[K]V {
	if !*mine {
		*mine = true
		if m = maps.Clone(m); m == nil {
			m = map[K]V{}
		}
	}
	return m
}

// next is the snapshot after some principals changed in the log. Those of the
// file have what it says beside that.
func (s *Snapshot) next(version uint64, changed []projector.Principal, file File) *Snapshot {
	d := draft{Snapshot: *s}
	d.version = version
	for _, p := range changed {
		d.setPrincipal(p.ID, merge(p, file[p.ID]))
	}
	return &d.Snapshot
}

// proof is one credential that a principal lists.
type proof struct {
	key     key
	expires int64  // as in credential
	list    string // of the document
	at      int    // in the list
}

// endOf is a moment as a credential has it. Beyond what nanoseconds reach lies never, and before
// them what is over.
func endOf(at time.Time) int64 {
	switch {
	case at.After(time.Unix(0, math.MaxInt64)):
		return 0
	case at.Before(time.Unix(0, 1)):
		return 1
	}
	return at.UnixNano()
}

func proofs(d policy.Principal) iter.Seq[proof] {
	return func(yield func(proof) bool) {
		for i, t := range d.Tokens {
			p := proof{key: tokenKey(t.Hash), list: "tokens", at: i}
			if !t.Expires.IsZero() {
				p.expires = endOf(t.Expires)
			}
			if !yield(p) {
				return
			}
		}
		for i, id := range d.SPIFFE {
			if !yield(proof{key: spiffeKey(id), list: "spiffe_ids", at: i}) {
				return
			}
		}
		for i, o := range d.OIDC {
			if !yield(proof{key: oidcKey(o), list: "oidc", at: i}) {
				return
			}
		}
	}
}

// merge makes an entry of what the log and the file know of one id; nil when
// that is no principal.
func merge(p projector.Principal, f *Entry) *entry {
	kind := policy.PrincipalKind("")
	var relations []policy.Relation
	keys := map[key]credential{}
	add := func(d policy.Principal, filed bool) {
		kind = d.Kind
		for x := range proofs(d) {
			keys[x.key] = credential{principal: p.ID, expires: x.expires, filed: filed}
		}
	}
	if p.Document != nil {
		add(*p.Document, false)
	}
	if f != nil {
		add(f.Principal, true)
		relations = append(relations, f.Relations...)
	}
	if kind == "" {
		return nil
	}
	for _, g := range p.Relations {
		relations = append(relations, g.Relation)
	}
	return &entry{Principal: *NewPrincipal(p.ID, kind, relations...), keys: keys}
}
