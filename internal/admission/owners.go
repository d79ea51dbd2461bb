package admission

import (
	"runtime"
	"sync"
)

// spareCores is how many cores work that takes long may have: one is left to others.
func spareCores() int { return max(1, runtime.GOMAXPROCS(0)-1) }

// share is how many of those places one owner may have: half is left to others.
func share(places int) int { return max(1, places/2) }

// owners give each of those who ask for work that takes long a lane of its own, of so
// many places.
type owners struct {
	share int
	mu    sync.Mutex
	of    map[string]*owner
}

type owner struct {
	running chan struct{}
	users   int // of this value; without any it is forgotten
}

// lane is that of an owner, until as many have called forget.
func (os *owners) lane(name string) chan struct{} {
	os.mu.Lock()
	defer os.mu.Unlock()
	if os.of == nil {
		os.of = map[string]*owner{}
	}
	o := os.of[name]
	if o == nil {
		o = &owner{running: make(chan struct{}, os.share)}
		os.of[name] = o
	}
	o.users++
	return o.running
}

func (os *owners) forget(name string) {
	os.mu.Lock()
	defer os.mu.Unlock()
	if o := os.of[name]; o != nil {
		if o.users--; o.users == 0 {
			delete(os.of, name)
		}
	}
}
