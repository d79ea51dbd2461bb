package projector

import (
	"bytes"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// maxOverlapping is how many policies OverlappingPolicies reads, at most.
const maxOverlapping = 500

// OverlappingPolicies returns the policies of a project, except one, that match a
// node which the selector matches as well: with their heads, by id, at most 500.
func (m *model) OverlappingPolicies(project uuid.UUID, sel policy.Selector, except uuid.UUID) ([]policy.Policy, error) {
	m.mu.RLock()
	proj := m.state.projects[project]
	if proj == nil {
		m.mu.RUnlock()
		return nil, nil
	}
	found := map[uuid.UUID]*policyState{}
	ids := m.state.matchAny(proj, []policy.Selector{sel})
	for _, s := range m.state.meeting(proj, &ids) {
		for _, other := range s.policies {
			if other.id != except {
				found[other.id] = other.itself()
			}
		}
	}
	out := make([]policy.Policy, 0, len(found))
	refs := map[uuid.UUID]HeadRef{}
	for id, other := range found {
		out = append(out, other.info())
		refs[id] = HeadRef{Policy: id, Revision: other.head, seq: other.headSeq}
	}
	snap := m.db.NewSnapshot()
	m.mu.RUnlock()
	defer snap.Close()
	slices.SortFunc(out, func(a, b policy.Policy) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	out = out[:min(len(out), maxOverlapping)]
	for i := range out {
		r, err := revisionOf(snap, refs[out[i].ID])
		if err != nil {
			return nil, err
		}
		out[i].Head = r
	}
	return out, nil
}
