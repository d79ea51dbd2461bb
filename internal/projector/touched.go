package projector

import (
	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// maxTouched is how many label sets Touched has, at most: the fold waits meanwhile.
const maxTouched = 1 << 15

// Touched is what the tables of those nodes are made of that a selector matches, or
// one of some, by label set, at one moment. Its Enforcement is of no node. Close it.
type Touched struct {
	*Enforcement
	Sets []LabelSet
	// Whole is false when the selectors match more label sets than there are here.
	Whole bool
}

// LabelSet is one that nodes have, and the heads that match it, by policy id. Sets
// that the same selectors match share them.
type LabelSet struct {
	Labels  policy.Labels
	Matched []HeadRef
}

// Touched takes one of a project; it has no label sets where nobody used the
// project.
func (m *model) Touched(project uuid.UUID, sels ...policy.Selector) *Touched {
	m.mu.RLock()
	defer m.mu.RUnlock()
	t := &Touched{
		Enforcement: &Enforcement{Node: policy.Node{Project: project}, Seq: m.cursor.seq, of: m, snap: m.db.NewSnapshot()},
		Whole:       true,
	}
	proj := m.state.projects[project]
	if proj == nil {
		return t
	}
	t.Generation = proj.changed
	all := m.state.matchAny(proj, sels)
	if all.len() > maxTouched {
		t.Whole = false
		all = set{big: newBitmap(roaring.BitmapOf(all.members()[:maxTouched]...))}
	}
	found := m.state.cross(proj, &all)
	heads := make([][]HeadRef, len(found.found))
	for class, f := range found.found {
		heads[class] = headRefs(f.by)
	}
	for place, o := range found.ids {
		t.Sets = append(t.Sets, LabelSet{m.state.identities.at(o).labels, heads[found.class[place]]})
	}
	return t
}
