package datapath

// auth reports whether a flow of f that line w decides needs authentication. An
// explicit auth counts of a line of w's precedence, or of w's level that covers w's
// key: of the one with the longest key, then for some peers before any, then required
// before disabled (S17). Lines that a pass skips do not count, nor does anything on a
// deny.
func (r *resolver) auth(f *frame, w int32) bool {
	decided := &r.lines[w]
	if decided.rule.Verdict == Deny || len(r.auths) == 0 {
		return false
	}
	at := r.keyOf(w)
	speaks := authLine{line: none}
	for _, a := range r.auths {
		l := &r.lines[a.line]
		if a.line > f.tiers[l.tier].passes {
			continue
		}
		// Both parts of an entry's key: the port prefix, and whom it is for.
		covers := a.key.covers(at) && (l.any() || !decided.any())
		equal := l.prec == decided.prec || covers && l.prec>>8 == decided.prec>>8
		if equal && r.nearer(a, speaks) {
			speaks = a
		}
	}
	return speaks.line != none && r.lines[speaks.line].auth == AuthRequired
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
