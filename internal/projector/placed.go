package projector

import (
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// Slugs are the slugs of policies, deleted ones among them. What is no policy of
// the project is left out.
func (m *model) Slugs(project uuid.UUID, ids []uuid.UUID) map[uuid.UUID]string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make(map[uuid.UUID]string, len(ids))
	for _, id := range ids {
		if p := m.state.policies[id]; p != nil && p.project.id == project {
			out[id] = p.slug
		}
	}
	return out
}

// Orders say where the heads of a project's policies stand among others. What is
// no live policy of the project is left out. The fold does not wait while heads
// are read.
func (m *model) Orders(project uuid.UUID, ids []uuid.UUID) (map[uuid.UUID]policy.Order, error) {
	m.mu.RLock()
	var heads []HeadRef
	for _, id := range ids {
		if p := (&View{m}).live(project, id); p != nil {
			heads = append(heads, HeadRef{Policy: id, seq: p.headSeq})
		}
	}
	snap := m.db.NewSnapshot()
	m.mu.RUnlock()
	defer snap.Close()
	out := make(map[uuid.UUID]policy.Order, len(heads))
	for _, h := range heads {
		r, err := revisionOf(snap, h)
		if err != nil {
			return nil, err
		}
		out[h.Policy] = r.Order
	}
	return out, nil
}
