//go:build faults

package fault

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// On reports whether this binary was built to be struck.
const On = true

// strike says when the process dies at a point.
type strike struct {
	left int        // passes still to come; 0: by chance
	p    float64    // of each pass
	draw *rand.Rand // for p
}

// mutation is a mutant that is on.
type mutation struct {
	seed uint64
	draw *rand.Rand
}

var (
	mu        sync.Mutex
	strikes   = map[Point]*strike{}
	mutations = map[Mutant]*mutation{}
)

func init() {
	if err := configure(os.Getenv("EDICT_FAULT"), os.Getenv("EDICT_MUTANT")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// configure reads the two variables.
func configure(faults, mutants string) error {
	for name, when := range entries(faults) {
		if !slices.Contains(Points(), Point(name)) {
			return fmt.Errorf("EDICT_FAULT: %q is no point: choose of %v", name, Points())
		}
		s, err := parseStrike(when)
		if err != nil {
			return fmt.Errorf("EDICT_FAULT: %s:%s: want a number of passes, such as 17, or p0.01@5: %w", name, when, err)
		}
		strikes[Point(name)] = s
	}
	for name, text := range entries(mutants) {
		if !slices.Contains(Mutants(), Mutant(name)) {
			return fmt.Errorf("EDICT_MUTANT: %q is no mutant: choose of %v", name, Mutants())
		}
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("EDICT_MUTANT: %s:%s: want a seed: %w", name, text, err)
		}
		Mutate(Mutant(name), seed)
	}
	return nil
}

// entries yields name and rest of each name:rest of a list.
func entries(list string) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for _, e := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
			name, rest, _ := strings.Cut(e, ":")
			if !yield(name, rest) {
				return
			}
		}
	}
}

func parseStrike(when string) (*strike, error) {
	chance, ok := strings.CutPrefix(when, "p")
	if !ok {
		n, err := strconv.Atoi(when)
		if err == nil && n < 1 {
			err = fmt.Errorf("%d is not positive", n)
		}
		return &strike{left: n}, err
	}
	p, at, _ := strings.Cut(chance, "@")
	odds, err := strconv.ParseFloat(p, 64)
	if err != nil {
		return nil, err
	}
	seed, err := strconv.ParseUint(at, 10, 64)
	return &strike{p: odds, draw: newDraw(seed)}, err
}

func newDraw(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x6661756c74)) }

// Pass marks that the process is at p, and kills it as kill -9 does when that
// was asked for.
func Pass(p Point) {
	mu.Lock()
	defer mu.Unlock()
	s := strikes[p]
	if s == nil {
		return
	}
	if s.draw != nil {
		if s.draw.Float64() >= s.p {
			return
		}
	} else if s.left--; s.left != 0 {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // under the lock: nothing passes any more
}

// Mutate turns a mutant on, until undo is called.
func Mutate(m Mutant, seed uint64) (undo func()) {
	mu.Lock()
	defer mu.Unlock()
	mutations[m] = &mutation{seed: seed, draw: newDraw(seed)}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		delete(mutations, m)
	}
}

// Always reports whether m is on.
func Always(m Mutant) bool {
	mu.Lock()
	defer mu.Unlock()
	return mutations[m] != nil
}

// Sometimes reports whether m is on and acts this time: every other time or
// so, as its seed draws it.
func Sometimes(m Mutant) bool {
	mu.Lock()
	defer mu.Unlock()
	x := mutations[m]
	return x != nil && x.draw.IntN(2) == 0
}

// Picks reports whether m is on and its seed picks i of n.
func Picks(m Mutant, i, n int) bool {
	mu.Lock()
	defer mu.Unlock()
	x := mutations[m]
	return x != nil && x.seed%uint64(n) == uint64(i) //nolint:gosec // counts
}
