package projector

import "slices"

// crossed says which selectors match each of many identities. It visits selectors rather
// than identities, where that is less work: the fold waits for its readers.
type crossed struct {
	ids   []uint32   // of the identities, ascending
	class []uint32   // of each of them: the same selectors match all of a class
	found []*finding // by class
}

// of are the selectors that match the identity at a place in ids, by ordinal.
func (c *crossed) of(place int) []*selector { return c.found[c.class[place]].by }

// cross crosses identities of a project with its selectors.
func (s *state) cross(p *project, ids *set) crossed {
	c := crossed{ids: ids.members(), class: make([]uint32, ids.len())}
	if s.fewer(p, ids, 0) { // each is visited anyhow
		c.find(&s.identities)
	} else {
		c.split(&s.identities, p, ids)
	}
	return c
}

// find looks for the selectors of one identity after the other.
func (c *crossed) find(identities *paged[*identity]) {
	classes := map[*finding]uint32{}
	for at, o := range c.ids {
		f := identities.at(o).finding()
		class, known := classes[f]
		if !known {
			class = uint32(len(c.found))
			classes[f], c.found = class, append(c.found, f)
		}
		c.class[at] = class
	}
}

// step is a class on the way: those of another class that one more selector matches.
type step struct {
	from, length uint32
	by           *selector
	split        *selector // that divided the class last
	into         uint32    // the class of those it matches
}

// split begins with one class of all identities, and has each selector divide classes
// into those that it matches and those that it does not.
func (c *crossed) split(identities *paged[*identity], p *project, ids *set) {
	steps := make([]step, 1, 16)
	for _, x := range p.meeting(ids) {
		at := 0
		for o := range x.identities.both(ids) {
			at += ahead(c.ids[at:], o)
			was := &steps[c.class[at]]
			if was.split == x {
				c.class[at] = was.into
				continue
			}
			was.split, was.into = x, uint32(len(steps))
			next := step{from: c.class[at], length: was.length + 1, by: x}
			c.class[at] = was.into
			steps = append(steps, next)
		}
	}
	classes := map[uint32]uint32{} // by step
	for at, end := range c.class {
		class, known := classes[end]
		if !known {
			class = uint32(len(c.found))
			classes[end], c.found = class, append(c.found, &finding{path(steps, end), p.index.refiled})
		}
		c.class[at] = class
		identities.at(c.ids[at]).found.Store(c.found[class])
	}
}

// path are the selectors that led to a class, the first of them first.
func path(steps []step, class uint32) []*selector {
	by := make([]*selector, steps[class].length)
	for n := len(by) - 1; n >= 0; n-- {
		by[n], class = steps[class].by, steps[class].from
	}
	return by
}

// ahead is the place of x in an ascending list that has it, mostly near its beginning.
func ahead(list []uint32, x uint32) int {
	step := 1
	for step < len(list) && list[step] < x {
		step *= 2
	}
	at, _ := slices.BinarySearch(list[step/2:min(step+1, len(list))], x)
	return step/2 + at
}

// fewer reports whether fewer selectors are looked at for each identity by itself than the
// project has. To visit an identity costs as much as so many looks.
func (s *state) fewer(p *project, ids *set, visit int) bool {
	rest := len(p.selectors)
	ids.each(func(o uint32) bool {
		rest -= visit + s.identities.at(o).candidates()
		return rest > 0
	})
	return rest > 0
}

// meeting are the selectors of a project that match any of some identities, by ordinal.
func (s *state) meeting(p *project, ids *set) (out []*selector) {
	if !s.fewer(p, ids, 1) {
		return p.meeting(ids)
	}
	seen := map[*finding]bool{}
	ids.each(func(o uint32) bool {
		if f := s.identities.at(o).finding(); !seen[f] {
			seen[f], out = true, append(out, f.by...)
		}
		return true
	})
	return eachOnce(out)
}

// meeting looks at every selector.
func (p *project) meeting(ids *set) (out []*selector) {
	for _, x := range p.selectors {
		if x.identities.meets(ids) {
			out = append(out, x)
		}
	}
	return eachOnce(out)
}
