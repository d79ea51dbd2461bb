package admission

import (
	"errors"
	"maps"
	"slices"
)

// matching is which policies a chain has to ask. They are matched again when a
// patch changes what policies are matched by: else whoever writes a policy of a
// lower level could choose which policies of a higher one see a request.
type matching struct {
	now Request // what policies are matched by; its payload is not looked at
	due []*Compiled
	// byType and byLabels: the payload says what they are. Else they stay what
	// the request says.
	byType, byLabels bool
	after            map[*Compiled]string // whose patch made it match
}

func (c *chain) match() {
	r := c.request
	c.policies = c.snapshot.match(r)
	service, _ := ServiceTypeOf(r.Payload)
	c.matching = matching{
		now: *r, due: slices.Clone(c.policies),
		byType: service == r.ServiceType, byLabels: maps.Equal(LabelsOf(r.Payload), r.Labels),
	}
}

// next is the policy to ask now; nil: all were asked.
func (c *chain) next() *Compiled {
	if len(c.matching.due) == 0 {
		return nil
	}
	p := c.matching.due[0]
	c.matching.due = c.matching.due[1:]
	return p
}

// rematch adds to the policies those that match since the patch. What matched
// before is asked all the same: a patch takes no request away from a policy. Those
// that would have stood before p are asked next, about the request as it is now.
func (c *chain) rematch(p *Compiled, patch map[string]any) {
	m := &c.matching
	if (patch[ServiceTypeLabel] == nil || !m.byType) && (!touches(patch, "metadata") || !m.byLabels) {
		return // taking the service type away makes nothing match
	}
	if m.byType {
		m.now.ServiceType, _ = ServiceTypeOf(c.payload)
	}
	if m.byLabels {
		m.now.Labels = LabelsOf(c.payload)
	}
	for _, found := range c.snapshot.match(&m.now) {
		at, known := slices.BinarySearchFunc(c.policies, found, inChain)
		if known {
			continue
		}
		c.policies = slices.Insert(c.policies, at, found)
		at, _ = slices.BinarySearchFunc(m.due, found, inChain)
		m.due = slices.Insert(m.due, at, found)
		if m.after == nil {
			m.after = map[*Compiled]string{}
		}
		m.after[found] = p.policy.ID
	}
}

// hides says whether a patch makes something of the service type or of the labels that no
// request may have: it would take the request past the policies that it is for. A kind of
// request that knows what it can have says so itself.
func (c *chain) hides(after, patch map[string]any) *RequestError {
	if c.request.Fits != nil || !touches(patch, ServiceTypeLabel) && !touches(patch, "metadata") {
		return nil
	}
	if _, err := NewRequest(c.payload, "", ""); err != nil {
		return nil // it was so before
	}
	var hidden *RequestError
	if _, err := NewRequest(after, "", ""); errors.As(err, &hidden) {
		return hidden
	}
	return nil
}

func touches(patch map[string]any, key string) bool {
	_, there := patch[key]
	return there
}
