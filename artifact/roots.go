package artifact

import (
	"crypto/ed25519"
	"sync"
)

// maxRoots bounds the verified roots a TrustSet remembers per key: some 60 KiB.
// The messages of a run follow each other, so a few runs in flight is all that
// must be covered.
const maxRoots = 256

// verifiedRoot is a signature over the root of a run that was found good. The
// signature is part of it: a root seen before must not make a wrong signature
// pass, or one verifier would take what another refuses.
type verifiedRoot struct {
	root  digest
	size  int
	value [ed25519.SignatureSize]byte
}

// roots remembers the last signatures over runs that one key was seen to have
// made. The zero value remembers none. It is safe for concurrent use.
type roots struct {
	mu   sync.Mutex
	have map[verifiedRoot]struct{}
	ring []verifiedRoot // what is in have, in order of arrival
	next int            // the place in a full ring to be used next: the oldest
}

func (r *roots) knows(v verifiedRoot) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.have[v]
	return ok
}

// add remembers v, and forgets the oldest where there is no room.
func (r *roots) add(v verifiedRoot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.have[v]; ok {
		return
	}
	if r.have == nil {
		r.have = map[verifiedRoot]struct{}{}
	}
	if len(r.ring) < maxRoots {
		r.ring = append(r.ring, v)
	} else {
		delete(r.have, r.ring[r.next])
		r.ring[r.next] = v
		r.next = (r.next + 1) % maxRoots
	}
	r.have[v] = struct{}{}
}

// forget empties the memory.
func (r *roots) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.have, r.ring, r.next = nil, nil, 0
}
