package projector

import (
	"bytes"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// besideMost bounds how many policies Beside reads.
const besideMost = 500

// Beside are the policies of a project, but one, that match a node which a
// selector matches, too: heads whole, by id, at most 500 of them.
func (p *Projector) Beside(project uuid.UUID, sel policy.Selector, but uuid.UUID) ([]policy.Policy, error) {
	p.mu.RLock()
	proj := p.state.projects[project]
	if proj == nil {
		p.mu.RUnlock()
		return nil, nil
	}
	found := map[uuid.UUID]*policyState{}
	for _, side := range []policy.Expr{sel.Source, sel.Destination} {
		ids := p.state.matchSide(proj, side)
		ids.each(func(o uint32) bool {
			for _, s := range p.state.identities[o].selectors {
				for _, other := range s.policies {
					if other.id != but {
						found[other.id] = other
					}
				}
			}
			return true
		})
	}
	out := make([]policy.Policy, 0, len(found))
	refs := map[uuid.UUID]HeadRef{}
	for id, other := range found {
		out = append(out, other.info())
		refs[id] = HeadRef{Policy: id, Revision: other.head, seq: other.headSeq}
	}
	snap := p.db.NewSnapshot()
	p.mu.RUnlock()
	defer snap.Close()
	slices.SortFunc(out, func(a, b policy.Policy) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	out = out[:min(len(out), besideMost)]
	for i := range out {
		r, err := revisionOf(snap, refs[out[i].ID])
		if err != nil {
			return nil, err
		}
		out[i].Head = r
	}
	return out, nil
}
