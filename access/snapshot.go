package access

import (
	"maps"
	"time"

	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
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

type credential struct {
	principal policy.PrincipalID
	expires   int64 // unix ns; 0: never
}

// shards is a map in parts, so that a change copies one part.
type shards[K comparable, V any] [256]map[K]V

// find answers by a credential's key.
func (s *Snapshot) find(k key, now time.Time) *Principal {
	c, ok := s.credentials[k[0]][k]
	if !ok || c.expires != 0 && now.UnixNano() >= c.expires {
		return nil
	}
	if e := s.principals[shardOf(c.principal)][c.principal]; e != nil {
		return &e.Principal
	}
	return nil
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

func (d *draft) setCredential(k key, c credential, there bool) {
	d.credentials[k[0]] = own(d.credentials[k[0]], &d.ownCredentials[k[0]])
	if there {
		d.credentials[k[0]][k] = c
	} else if d.credentials[k[0]][k].principal == c.principal {
		delete(d.credentials[k[0]], k)
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

// merge makes an entry of what the log and the file know of one id; nil when
// that is no principal.
func merge(p projector.Principal, f *Entry) *entry {
	kind := policy.PrincipalKind("")
	var relations []policy.Relation
	keys := map[key]credential{}
	add := func(d policy.Principal) {
		kind = d.Kind
		for _, t := range d.Tokens {
			c := credential{principal: p.ID}
			if !t.Expires.IsZero() {
				c.expires = t.Expires.UnixNano()
			}
			keys[tokenKey(t.Hash)] = c
		}
		for _, id := range d.SPIFFE {
			keys[spiffeKey(id)] = credential{principal: p.ID}
		}
		for _, o := range d.OIDC {
			keys[oidcKey(o)] = credential{principal: p.ID}
		}
	}
	if p.Document != nil {
		add(*p.Document)
	}
	if f != nil {
		add(f.Principal)
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
