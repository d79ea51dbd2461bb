package datapath

import (
	"math"
	"slices"
	"sort"
)

// resolver lays a list's lines into the entries of one identity after another.
// Its memory is reused.
//
// Every flow meets the lines whose keys cover it, and those keys form a chain. So
// the flows whose longest key is k are all answered alike, by the lines on the
// chain down to k. A sweep over the sorted keys walks all chains at once and
// keeps an entry only where the two look-ups would answer otherwise without it.
//
// The lines for any peer are laid once, into frames. An identity then sweeps the
// keys of its own lines, and of the frames below them those where its answer can
// be another than both look-ups give (see stops). With an explicit auth in the
// list, it sweeps all lines it meets.
type resolver struct {
	*list
	work  *Work
	mine  []int32 // lines that the identity meets, in order
	keys  []key
	pairs []uint64 // key << 32 | index of a line
	spare []uint64 // memory of sorting them
	precs []uint32 // of the paired lines, each once
	lifts bool     // a paired line passes
	below []int32  // frames to stop at, ascending
	chain []frame
	auths []authLine // on the chain, explicit
	out   lpm
}

// wildFrame is a key at which the lines for any peer say something else than
// above it.
type wildFrame struct {
	key    key
	parent int32        // index of the longest frame that covers this one, -1
	entry  int32        // index of the longest entry for any identity that covers it, -1
	tiers  [tiers]first // of lines for any peer
}

// frame is a key of the chain and what the lines down to it say.
type frame struct {
	key    key
	own    [tiers]first // of the lines that are swept
	tiers  [tiers]first // of all lines
	kept   int32        // index in out of the longest entry that covers key, -1
	auths  int          // how many of resolver.auths lie above
	anyone int32        // index of the longest entry of any identity that covers key, -1
	wild   int32        // of the sweep that makes frames: the last one made
}

// passed reports whether a line passes flows of f.
func (f *frame) passed() bool {
	for t := range f.tiers {
		if f.tiers[t].passes != none {
			return true
		}
	}
	return false
}

// first is where one tier ends for the flows of a frame: the first line that
// decides and the first that passes.
type first struct{ decides, passes int32 }

// authLine is a line with an explicit auth, and the key of it on the chain.
type authLine struct {
	line int32
	key  key
}

// anyoneOf makes the entries that answer for any identity, and the frames.
func (r *resolver) anyoneOf() (lpm, error) {
	r.mine = r.wild
	if err := r.collect(r.namedPasses); err != nil {
		return nil, err
	}
	if r.open {
		r.pairs = append(r.pairs, uint64(uint32(none))) // the default is asked for everything
	}
	return r.sweep(nil, r.lastAuth < 0)
}

// of makes the entries of an identity that is one of some peers, beside those of
// any identity.
func (r *resolver) of(peers []int32, anyone lpm) (lpm, error) {
	r.mine = r.mine[:0]
	for _, p := range peers {
		r.mine = append(r.mine, r.named[p]...)
	}
	if len(r.mine) == 0 {
		return nil, nil
	}
	if r.lastAuth >= 0 {
		r.mine = append(r.mine, r.wild...)
	}
	if err := r.work.spend(4 * len(r.mine)); err != nil {
		return nil, err
	}
	slices.Sort(r.mine)
	if r.lastAuth >= 0 {
		if err := r.collect([tiers]bool{}); err != nil {
			return nil, err
		}
		return r.sweep(anyone, false)
	}
	if err := r.collect(r.wildPasses); err != nil {
		return nil, err
	}
	return r.sweepBeside(anyone)
}

// shut is how far a shape is shut in one tier: lines of the tier that come after
// a line that covers the shape whole reach no flow of it.
type shut struct {
	yes  bool
	prec uint32 // of the line that shut it
}

// collect pairs the keys of the lines of mine with the lines, and leaves out the
// lines that a line before them covers whole. An explicit auth stays, because it
// speaks for others of its level (S17), and so does a pass that can skip one. So do lines
// for any identity of the precedence that shut the shape: the second look-up
// prefers them where their key is longer, and an entry has to say who came first.
// passes are the tiers in which a line passes that is not of mine.
func (r *resolver) collect(passes [tiers]bool) error {
	var done [shapes][tiers]shut
	r.pairs, r.precs, r.lifts = slices.Grow(r.pairs[:0], len(r.mine)), r.precs[:0], false
	end := uint32(0) // below this precedence no line reaches any flow
	for _, i := range r.mine {
		l := &r.lines[i]
		if l.prec < end && int(i) > r.lastAuth {
			break
		}
		if int(i) > r.lastAuth || l.auth == AuthUnset && l.decides() {
			by := done[l.shape][l.tier]
			if all := done[shapeWhole][l.tier]; all.yes {
				by = all
			}
			if by.yes && !(l.any() && l.prec == by.prec) {
				continue
			}
		}
		if err := r.pair(i); err != nil {
			return err
		}
		if l.whole && !done[l.shape][l.tier].yes {
			done[l.shape][l.tier] = shut{true, l.prec}
			if l.decides() && !passes[l.tier] {
				// No flow of the shape gets past this tier.
				for t := l.tier + 1; t < tiers; t++ {
					done[l.shape][t] = shut{true, l.prec}
				}
				if l.shape == shapeWhole {
					end = l.prec
				}
			}
		}
		if !l.decides() {
			passes[l.tier], r.lifts = true, true
		}
	}
	r.pairs, r.spare = sortByKey(r.pairs, r.spare)
	return nil
}

// What a key takes that is paired and sorted, and one that is swept, in steps.
const (
	stepsPerPair = 8
	stepsPerStop = 2
)

// pair pairs the keys of a line with it.
func (r *resolver) pair(i int32) error {
	l := &r.lines[i]
	r.keys = l.rule.appendKeys(r.keys[:0])
	for _, k := range r.keys {
		r.pairs = append(r.pairs, uint64(k)<<32|uint64(i))
	}
	if n := len(r.precs); n == 0 || r.precs[n-1] != l.prec {
		r.precs = append(r.precs, l.prec)
	}
	return r.work.spend(stepsPerPair * len(r.keys))
}

// sweep resolves the collected pairs. The result is the resolver's until the
// next sweep.
func (r *resolver) sweep(anyone lpm, frames bool) (lpm, error) {
	slices.Sort(r.pairs)
	r.chain, r.auths, r.out = r.chain[:0], r.auths[:0], r.out[:0]
	for i := 0; i < len(r.pairs); {
		f := r.push(key(r.pairs[i] >> 32))
		i = r.meets(f, i)
		f.tiers = f.own
		f.anyone = anyone.over(f.key)
		if err := r.work.spend(stepsPerStop + len(r.auths)); err != nil {
			return nil, err
		}
		r.settle(f, anyone)
		if frames {
			r.lay(f)
		}
	}
	return r.out, nil
}

// lay makes a frame of f, unless everything is there as it is above.
func (r *resolver) lay(f *frame) {
	kept := f.kept >= 0 && r.out[f.kept].key == f.key
	if f.wild >= 0 && !kept && r.frames[f.wild].tiers == f.tiers {
		return
	}
	at := int32(len(r.frames))
	r.frames = append(r.frames, wildFrame{f.key, f.wild, f.kept, f.tiers})
	f.wild = at
	if f.passed() {
		r.passed = append(r.passed, at)
	} else if a := r.answer(f); a.line != none {
		if r.byPrec == nil {
			r.byPrec = map[uint32][]int32{}
		}
		r.byPrec[a.prec] = append(r.byPrec[a.prec], at)
	}
}

// sweepBeside resolves the collected pairs, all of lines for some peers, beside
// the frames. The result is the resolver's until the next sweep.
func (r *resolver) sweepBeside(anyone lpm) (lpm, error) {
	if err := r.stops(); err != nil {
		return nil, err
	}
	r.chain, r.out = r.chain[:0], r.out[:0]
	for i, j := 0, 0; i < len(r.pairs) || j < len(r.below); {
		k, at := key(math.MaxUint32), int32(-1)
		if i < len(r.pairs) {
			k = key(r.pairs[i] >> 32)
		}
		if j < len(r.below) && r.frames[r.below[j]].key <= k {
			at = r.below[j]
			k = r.frames[at].key
			j++
		} else {
			at = r.over(k)
		}
		f := r.push(k)
		for i < len(r.pairs) && key(r.pairs[i]>>32) == k {
			i = r.meets(f, i)
		}
		f.tiers, f.anyone = f.own, -1
		if at >= 0 {
			f.join(&r.frames[at])
		}
		if err := r.work.spend(stepsPerStop); err != nil {
			return nil, err
		}
		r.settle(f, anyone)
	}
	return r.out, nil
}

// stops finds the frames below the keys of pairs at which a sweep has to stop.
//
// Without a pass, what decides a flow is the first of its lines, and the two
// look-ups come to it by precedence: that of the identity's own entry, which says
// the first of its own lines, and that of the entry for any identity. So only
// where both stand at one precedence may the longer key say the wrong one. A frame
// with a pass counts, because the pass may skip own lines; with an own pass all
// frames do, because it lifts what comes after it.
func (r *resolver) stops() error {
	r.below = r.below[:0]
	list, all := r.passed, r.lifts
	for _, prec := range r.precs {
		if at := r.byPrec[prec]; len(at) > 0 {
			all = all || len(list) > 0
			list = at
		}
	}
	if !all && len(list) == 0 {
		return nil
	}
	for i := 0; i < len(r.pairs); {
		from, to := key(r.pairs[i]>>32), key(r.pairs[i]>>32).last()
		for i < len(r.pairs) && key(r.pairs[i]>>32) <= to {
			i++
		}
		before := len(r.below)
		if all {
			for at := r.first(from); at < len(r.frames) && r.frames[at].key <= to; at++ {
				r.below = append(r.below, int32(at))
			}
		} else {
			at := sort.Search(len(list), func(n int) bool { return r.frames[list[n]].key >= from })
			for ; at < len(list) && r.frames[list[at]].key <= to; at++ {
				r.below = append(r.below, list[at])
			}
		}
		if err := r.work.spend(1 + len(r.below) - before); err != nil {
			return err
		}
	}
	return nil
}

// first is the index of the first frame at or after k.
func (l *list) first(k key) int {
	return sort.Search(len(l.frames), func(i int) bool { return l.frames[i].key >= k })
}

// over is the index of the longest frame that covers k, -1 where there is none.
func (l *list) over(k key) int32 {
	i := int32(sort.Search(len(l.frames), func(i int) bool { return l.frames[i].key > k })) - 1
	for i >= 0 && !l.frames[i].key.covers(k) {
		i = l.frames[i].parent
	}
	return i
}

// join adds what the lines for any peer say.
func (f *frame) join(w *wildFrame) {
	f.anyone = w.entry
	for t := range f.tiers {
		f.tiers[t].decides = min(f.tiers[t].decides, w.tiers[t].decides)
		f.tiers[t].passes = min(f.tiers[t].passes, w.tiers[t].passes)
	}
}

// meets notes that the flows of f meet the lines of the pairs from i on that have
// its key, and returns where the next key begins.
func (r *resolver) meets(f *frame, i int) int {
	for k := r.pairs[i] >> 32; i < len(r.pairs) && r.pairs[i]>>32 == k; i++ {
		r.meet(f, int32(uint32(r.pairs[i])))
	}
	return i
}

// push makes the frame of k the last of the chain.
func (r *resolver) push(k key) *frame {
	for len(r.chain) > 0 && !r.chain[len(r.chain)-1].key.covers(k) {
		last := &r.chain[len(r.chain)-1]
		r.auths = r.auths[:last.auths]
		r.chain = r.chain[:len(r.chain)-1]
	}
	f := frame{key: k, kept: -1, auths: len(r.auths), wild: -1}
	if n := len(r.chain); n > 0 {
		f.own, f.kept, f.wild = r.chain[n-1].own, r.chain[n-1].kept, r.chain[n-1].wild
	} else {
		for t := range f.own {
			f.own[t] = first{none, none}
		}
	}
	r.chain = append(r.chain, f)
	return &r.chain[len(r.chain)-1]
}

// meet notes that the flows of f meet a line.
func (r *resolver) meet(f *frame, i int32) {
	if i == none {
		return
	}
	l := &r.lines[i]
	t := &f.own[l.tier]
	if l.decides() {
		t.decides = min(t.decides, i)
	} else {
		t.passes = min(t.passes, i)
	}
	if l.auth != AuthUnset {
		r.auths = append(r.auths, authLine{i, f.key})
	}
}

// settle keeps an entry for f where the two look-ups would answer otherwise
// without it.
func (r *resolver) settle(f *frame, anyone lpm) {
	right := r.answer(f)
	given := answer{line: none}
	c := choose(r.out, f.kept, anyone, f.anyone)
	if c != nil {
		given = c.answer
	}
	// Nothing at all is a deny, and that is the default unless the list is open.
	// An entry that says the same at a lower precedence does not do: below it, the
	// look-up for any identity may find what a pass skips.
	if right.same(given) && right.prec <= given.prec && (c != nil || !r.open) {
		return
	}
	r.out = append(r.out, cell{key: f.key, parent: f.kept, answer: right})
	f.kept = int32(len(r.out)) - 1
}

// answer walks the tiers. A pass for some peers alone lifts what comes of it to
// the pass' own precedence: that is above every entry for any identity that the
// pass skips, and below those that come before it.
func (r *resolver) answer(f *frame) answer {
	lifted := none
	for t := range f.tiers {
		end := f.tiers[t]
		if end.decides < end.passes {
			a := answer{line: end.decides, prec: r.lines[end.decides].prec}
			if lifted != none {
				a.prec = r.lines[lifted].prec
			}
			if r.lastAuth >= 0 {
				a.auth = r.auth(f, end.decides)
			}
			return a
		}
		if end.passes != none && lifted == none && !r.lines[end.passes].any() {
			lifted = end.passes
		}
	}
	if lifted != none {
		return answer{line: none, prec: r.lines[lifted].prec}
	}
	return answer{line: none}
}
