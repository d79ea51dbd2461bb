package projector

import "slices"

// crossed says which selectors match each of many identities. It visits the selectors and
// not the identities one by one: the fold waits for its readers.
type crossed struct {
	ids  []uint32 // of the identities, ascending
	from []uint32 // by place in ids, where those that match it begin in by; one more at the end
	by   []*selector
}

// of are the selectors that match the identity at a place in ids, by ordinal.
func (c *crossed) of(place int) []*selector { return c.by[c.from[place]:c.from[place+1]] }

// cross crosses identities of a project with its selectors.
func (s *state) cross(p *project, ids *set) crossed {
	c := crossed{ids: ids.members(), from: make([]uint32, ids.len()+1)}
	if few(len(c.ids), p) || len(c.ids)*64 < len(s.identities) { // or place would be large for them
		for at, o := range c.ids {
			c.by = append(c.by, s.identities[o].selectors()...)
			c.from[at+1] = uint32(len(c.by))
		}
		return c
	}
	place := make([]uint32, len(s.identities))
	for at, o := range c.ids {
		place[o] = uint32(at)
	}
	type match struct {
		place uint32
		by    *selector
	}
	var matches []match
	for _, x := range s.meeting(p, ids) {
		for o := range x.identities.both(ids) {
			matches = append(matches, match{place[o], x})
			c.from[place[o]+1]++
		}
	}
	for at := range c.ids {
		c.from[at+1] += c.from[at]
	}
	c.by = make([]*selector, len(matches))
	next := slices.Clone(c.from)
	for _, m := range matches {
		c.by[next[m.place]] = m.by
		next[m.place]++
	}
	return c
}

// few reports whether to find the selectors of each of so many identities takes less than a
// look at every selector of the project, which takes about an eighth of the time.
func few(identities int, p *project) bool { return identities*8 < len(p.selectors) }

// meeting are the selectors of a project that match any of some identities, by ordinal.
func (s *state) meeting(p *project, ids *set) (out []*selector) {
	if few(ids.len(), p) {
		ids.each(func(o uint32) bool {
			out = append(out, s.identities[o].selectors()...)
			return true
		})
	} else {
		for _, x := range p.selectors {
			if x.identities.meets(ids) {
				out = append(out, x)
			}
		}
	}
	return eachOnce(out)
}
