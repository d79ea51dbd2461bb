package api

import (
	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// changed adds to an applied event what it changed and how many nodes it was sent to, as
// far as the read model knows that: it tells who may not read a policy nothing of its rules.
func (h *logEventHandlers) changed(e *resource.LogEvent, m Trailed, who *access.Principal) error {
	about, ok := wire.ParseSubject(m.Subject)
	if !ok || h.views == nil || e.Verdict != verdictApplied {
		return nil
	}
	var err error
	h.views.Read(func(v *projector.View) {
		switch about.Family {
		case policy.FamilyPolicy:
			id, ok := parseID(about.ID)
			if ok && (who == nil || who.MayRead(about.Project, id)) {
				e.Change, err = headChange(v, about.Project, id, m.Seq)
			}
		case policy.FamilyNode:
			e.Change = nodeChange(v, about.Project, m)
		case policy.FamilyArtifact:
		default:
			return
		}
		if n, ok := projector.Sent(v, m.Seq); ok {
			e.Nodes = &n
		}
	})
	return err
}

func headChange(v *projector.View, project, id uuid.UUID, seq uint64) (*resource.EventChange, error) {
	head, before, ok, err := projector.HeadAt(v, project, id, seq)
	if err != nil || !ok {
		return nil, err
	}
	out, old := &resource.HeadChange{RevisionID: head.ID}, policy.Content{}
	sel := &resource.Selectors{After: showSelector(head.Selector)}
	if before != nil {
		old, out.ParentRevisionID = before.Content(), &before.ID
		was := showSelector(before.Selector)
		sel.Before = &was
	}
	if sel.Before == nil || *sel.Before != sel.After {
		out.Selectors = sel
	}
	out.Rules = Compare(old, head.Content())
	return &resource.EventChange{Policy: out}, nil
}

// nodeChange is what an event made of a node. What it was before, the kept past says.
func nodeChange(v *projector.View, project uuid.UUID, m Trailed) *resource.EventChange {
	e, err := policy.Decode(m.Body)
	if err != nil {
		return nil
	}
	switch e := e.(type) {
	case policy.NodeUpdated:
		was, ok := projector.NodeAsBefore(v, project, e.Node, m.Seq)
		if !ok {
			return nil
		}
		out := &resource.NodeChange{Created: !was.There, Before: was.Labels.Map(), After: e.Labels.Map()}
		if was.Same {
			out.Before = out.After
		}
		for _, a := range e.Addresses {
			out.Addresses = append(out.Addresses, a.String())
		}
		return &resource.EventChange{Node: out}
	case policy.NodeRemoved:
		was, ok := projector.NodeAsBefore(v, project, e.Node, m.Seq)
		if !ok {
			return nil
		}
		return &resource.EventChange{Node: &resource.NodeChange{Removed: true, Before: was.Labels.Map()}}
	}
	return nil
}
