package artifact

import (
	"sync/atomic"
	"time"
)

// Keys are what a plane signs with at one moment.
type Keys struct {
	Current  *Signer
	Previous *Signer   // the key before it; nil: no transition is under way
	Until    time.Time // the end of the transition: nobody trusts Previous after it
}

// Keyring holds the Keys of a plane as they change. It is safe for concurrent
// use.
type Keyring struct {
	now atomic.Pointer[moment]
}

type moment struct {
	keys Keys
	over chan struct{} // closed when other keys come
}

// NewKeyring makes a ring of one key.
func NewKeyring(current *Signer) *Keyring {
	r := new(Keyring)
	r.now.Store(&moment{Keys{Current: current}, make(chan struct{})})
	return r
}

// Now are the keys; changed is closed when they are others.
func (r *Keyring) Now() (k Keys, changed <-chan struct{}) {
	m := r.now.Load()
	return m.keys, m.over
}

// Current is the key to sign with.
func (r *Keyring) Current() *Signer { return r.now.Load().keys.Current }

// Set changes the keys.
func (r *Keyring) Set(k Keys) {
	before := r.now.Swap(&moment{k, make(chan struct{})})
	close(before.over)
}
