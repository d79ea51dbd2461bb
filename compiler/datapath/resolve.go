package datapath

import "slices"

// resolver lays a list's lines into the entries of one identity after another.
// Its memory is reused.
//
// Every flow meets the lines whose keys cover it, and those keys form a chain. So
// the flows whose longest key is k are all answered alike, by the lines on the
// chain down to k. A sweep over the sorted keys walks all chains at once and
// keeps an entry only where the two look-ups would answer otherwise without it.
type resolver struct {
	*list
	pairs []uint64 // rank of a key << 32 | index of a line
	chain []frame
	auths []authLine // on the chain, explicit
	out   lpm
}

// frame is a key of the chain and what the lines down to it say.
type frame struct {
	key    key
	tiers  [tiers]first
	kept   int32 // index in out of the longest entry that covers key, -1
	auths  int   // how many of resolver.auths lie above
	anyone int32 // index of the longest entry of any identity that covers key, -1
}

// first is where one tier ends for the flows of a frame: the first line that
// decides and the first that passes.
type first struct{ decides, passes int32 }

// authLine is a line with an explicit auth, and the key of it on the chain.
type authLine struct {
	line int32
	key  key
}

// anyoneOf makes the entries that answer for any identity.
func (r *resolver) anyoneOf() lpm {
	r.pairs = r.pairs[:0]
	if r.open {
		r.pairs = append(r.pairs, uint64(uint32(none))) // the default is asked for everything
	}
	r.collect(func(l *line) bool { return l.any() })
	return r.sweep(nil)
}

// of makes the entries of an identity beside those of any identity, where holds
// tells by a peer's index whether the identity is one of the peer.
func (r *resolver) of(holds bitset, anyone lpm) lpm {
	r.pairs = r.pairs[:0]
	r.collect(func(l *line) bool { return l.any() || holds.has(l.peer) })
	return r.sweep(anyone)
}

// shut is how far a shape is shut in one tier: lines of the tier that come after
// a line that covers the shape whole reach no flow of it.
type shut struct {
	yes  bool
	prec uint32 // of the line that shut it
}

// collect pairs the keys of lines with the lines, and leaves out the lines that a
// line before them covers whole. An explicit auth stays, because it reaches below
// a verdict (S18), and so does a pass that can skip one. So do lines for any
// identity of the precedence that shut the shape: the second look-up prefers them
// where their key is longer, and an entry has to say who came first.
func (r *resolver) collect(meets func(*line) bool) {
	var done [shapes][tiers]shut
	var passes [tiers]bool
	end := uint32(0) // below this precedence no line reaches any flow
	for i := range r.lines {
		l := &r.lines[i]
		if l.prec < end && i > r.lastAuth {
			break
		}
		if !meets(l) {
			continue
		}
		if i > r.lastAuth || l.auth == AuthUnset && l.decides() {
			by := done[l.shape][l.tier]
			if all := done[shapeWhole][l.tier]; all.yes {
				by = all
			}
			if by.yes && !(l.any() && l.prec == by.prec) {
				continue
			}
		}
		for _, rank := range l.ranks {
			r.pairs = append(r.pairs, uint64(rank)<<32|uint64(i))
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
			passes[l.tier] = true
		}
	}
}

// sweep resolves the collected pairs. The result is the resolver's until the
// next sweep.
func (r *resolver) sweep(anyone lpm) lpm {
	slices.Sort(r.pairs)
	r.chain, r.auths, r.out = r.chain[:0], r.auths[:0], r.out[:0]
	for i := 0; i < len(r.pairs); {
		rank := r.pairs[i] >> 32
		f := r.push(r.keys[rank])
		for ; i < len(r.pairs) && r.pairs[i]>>32 == rank; i++ {
			r.meet(f, int32(uint32(r.pairs[i])))
		}
		f.anyone = anyone.over(f.key)
		r.settle(f, anyone)
	}
	return r.out
}

// push makes the frame of k the last of the chain.
func (r *resolver) push(k key) *frame {
	for len(r.chain) > 0 && !r.chain[len(r.chain)-1].key.covers(k) {
		last := &r.chain[len(r.chain)-1]
		r.auths = r.auths[:last.auths]
		r.chain = r.chain[:len(r.chain)-1]
	}
	f := frame{key: k, kept: -1, auths: len(r.auths)}
	if n := len(r.chain); n > 0 {
		f.tiers, f.kept = r.chain[n-1].tiers, r.chain[n-1].kept
	} else {
		for t := range f.tiers {
			f.tiers[t] = first{none, none}
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
	t := &f.tiers[l.tier]
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
