package datapath

// auth reports whether a flow of f that line w decides needs authentication. An
// explicit auth counts, in this order:
//
//   - of a line of w's precedence, or of w's level that covers w's key: the one
//     with the longest key, then for some peers before any, then required before
//     disabled (S17);
//   - of a line behind w that lies strictly below w's key: the first by
//     precedence, then as above (S18).
//
// Lines that a pass skips do not count, nor does anything on a deny.
func (r *resolver) auth(f *frame, w int32) bool {
	decided := &r.lines[w]
	if decided.rule.Verdict == Deny || len(r.auths) == 0 {
		return false
	}
	at := r.keyOf(w)
	beside, below := authLine{line: none}, authLine{line: none}
	for _, a := range r.auths {
		l := &r.lines[a.line]
		if a.line > f.tiers[l.tier].passes {
			continue
		}
		// From here on covers and under speak of both parts of an entry's key.
		covers := a.key.covers(at) && (l.any() || !decided.any())
		under := at.covers(a.key) && (decided.any() || !l.any()) && (at != a.key || decided.any() != l.any())
		switch {
		case l.prec == decided.prec, covers && l.prec>>8 == decided.prec>>8:
			if r.nearer(a, beside) {
				beside = a
			}
		case under && l.prec < decided.prec:
			if first := below.line == none || l.prec > r.lines[below.line].prec; first ||
				l.prec == r.lines[below.line].prec && r.nearer(a, below) {
				below = a
			}
		}
	}
	switch {
	case beside.line != none:
		return r.lines[beside.line].auth == AuthRequired
	case below.line != none:
		return r.lines[below.line].auth == AuthRequired
	}
	return false
}

// nearer reports whether a speaks before b where their precedence does not say.
func (r *resolver) nearer(a, b authLine) bool {
	if b.line == none {
		return true
	}
	la, lb := &r.lines[a.line], &r.lines[b.line]
	switch {
	case a.key.depth() != b.key.depth():
		return a.key.depth() > b.key.depth()
	case la.any() != lb.any():
		return lb.any()
	}
	return la.auth == AuthRequired && lb.auth == AuthDisabled
}

// keyOf is the key by which the flows of the chain meet line w.
func (r *resolver) keyOf(w int32) key {
	t := r.lines[w].tier
	for i := range r.chain {
		if r.chain[i].tiers[t].decides == w {
			return r.chain[i].key
		}
	}
	return wholeKey
}
