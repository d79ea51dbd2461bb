package api

import (
	"errors"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// rolloutRoutes stage revisions, and roll them out.
func (h *policyHandlers) rolloutRoutes() []Route {
	route := func(path, id, summary string, body any, serve func(*call) error, more ...string) Route {
		return Route{
			Method: http.MethodPost, Pattern: patternPolicy + path, ID: id, Tag: "policies", Needs: access.ManagePolicy,
			Summary: summary, Params: writeParams(), BodyType: mediaJSON, Body: body,
			Answers:  jsonAnswer(http.StatusOK, resource.Waves{}, headerWarning),
			Problems: projectProblems(bodyProblems(append(more, CodePolicyNotFound, projector.CodeRevisionConflict, CodeKeyReused)...)...),
			serve:    serve,
		}
	}
	return []Route{
		route("/stage", "stageRevision", "Keep a revision beside the head; no node is sent it", resource.Preview{}, h.stage,
			ruleFaults(authorFaults(projector.CodeRolloutUnderWay)...)...),
		route("/promote", "promoteRevision", "Make the staged revision the head, at once or in waves", resource.Promotion{}, h.promote,
			projector.CodeRolloutUnderWay, projector.CodeNotStaged, policy.CodeMissing, policy.CodeInvalidUUID,
			policy.CodeSelectorSyntax, policy.CodeWavesOutOfRange, policy.CodePercentOutOfRange, policy.CodeUnknownOnRefusal),
		route("/waves", "openWave", "Open the next wave of a rollout, whatever nodes report", resource.NextWave{}, h.openWave,
			projector.CodeNoRollout, projector.CodeWaveConflict, policy.CodeMissing, policy.CodeInvalidUUID, policy.CodeWavesOutOfRange),
		route("/abort", "abortRollout", "End a rollout, or drop what is staged: all nodes have the head", resource.Abort{}, h.abort,
			projector.CodeNoRollout, policy.CodeMissing, policy.CodeInvalidUUID, policy.CodeTextTooLong, policy.CodeControlCharacter),
	}
}

func (h *policyHandlers) stage(c *call) error {
	project, id, err := c.pathIDs("policy")
	if err != nil {
		return err
	}
	content, err := decoded(c, policy.DecodePreview)
	if err != nil {
		return err
	}
	e := policy.RevisionCreated{Project: project, Policy: id}
	if err := h.sign(c, &e, "stage:"+id.String()); err != nil {
		return err
	}
	if err := h.reads.catchUp(c, 0); err != nil { // it names no head, and so means the present one
		return err
	}
	made := false
	err = h.reads.check(c, func(v *projector.View) error {
		pol, err := livePolicy(v, project, id)
		e.Slug, e.DisplayName, e.Revision.Parent = pol.Slug, pol.DisplayName, pol.Head.ID
		made = c.key != "" && !c.dry && v.WouldAccept(stagingOf(e), h.clock()).Duplicate
		return err
	})
	if err != nil {
		return err
	}
	if made { // what admission policies say now, and a quota, are of writes that are to be made
		if err := h.writes.sameBody(c.r.Context(), stagingOf(e), c.asked, 0); err != nil {
			return err
		}
		return h.answerStaged(c, stagingOf(e))
	}
	e.Revision.Selector, e.Revision.Order, e.Revision.Rules = content.Selector, content.Order, content.Rules
	name := e.DisplayName
	if err := h.admission.revision(c, &e); err != nil {
		return err
	}
	if e.DisplayName != name {
		c.keepName()
	}
	if _, err := h.writes.commit(c, stagingOf(e), false); err != nil {
		return err
	}
	return h.answerStaged(c, stagingOf(e))
}

// stagingOf is the event that stages a revision in place of publishing it.
func stagingOf(e policy.RevisionCreated) policy.RevisionStaged {
	return policy.RevisionStaged{ID: e.ID, Project: e.Project, Policy: e.Policy, Revision: e.Revision}
}

// answerStaged answers with the rollout that e began; of one in whose place another was staged
// since, as the write left it: whoever goes by the answer must not promote what somebody else
// staged.
func (h *policyHandlers) answerStaged(c *call, e policy.RevisionStaged) error {
	var out *resource.Waves
	h.model.Read(func(v *projector.View) { out = wavesOf(v, e.Project, e.Policy) })
	if out == nil {
		return policyNotFound(e.Policy) // deleted since
	}
	if out.RevisionID != e.Revision.ID {
		var err error
		if out, err = h.asStaged(c, e); err != nil {
			return err
		}
	}
	out.Admission = c.admitted
	return c.json(http.StatusOK, out)
}

// asStaged is the rollout that e began, as it was then. The log knows more of e where a try
// before this one wrote it.
func (h *policyHandlers) asStaged(c *call, e policy.RevisionStaged) (*resource.Waves, error) {
	began := projector.Rollout{Revision: e.Revision.ID, Parent: e.Revision.Parent, Phase: "staged", Time: e.Revision.CreatedAt}
	if h.writes.Event == nil || h.writes.NextOf == nil {
		return showWaves(began), nil
	}
	m, err := h.writes.made(c.r.Context(), e)
	if errors.Is(err, streams.ErrNotFound) { // the log was compacted since
		return showWaves(began), nil
	}
	if err != nil {
		return nil, unread(err)
	}
	if was, _ := policy.Decode(m.Body); was != nil {
		if first, ok := was.(policy.RevisionStaged); ok {
			began.Parent = first.Revision.Parent
		}
	}
	began.Time = m.Time
	return showWaves(began), nil
}

// keepName tells an author that a display name which admission policies gave is not
// staged: it belongs to the policy, which stays as it is until it is revised.
func (c *call) keepName() {
	const path = "/display_name"
	for i, p := range c.admitted.Patches {
		of := &c.admitted.Patches[i]
		of.Changes = slices.DeleteFunc(p.Changes, func(x resource.Change) bool { return x.Path == path })
		if len(of.Changes) < len(p.Changes) {
			of.Dropped = append(of.Dropped, path)
		}
	}
	c.warn("the display name stays as it is, because none is staged: %s was left out", path)
}

func (h *policyHandlers) promote(c *call) error {
	return move(h, c, "promote", policy.DecodePromotion, func(e policy.RevisionPromoted, of moveOf) policy.Event {
		e.ID, e.Project, e.Policy, e.Revision = of.event, of.project, of.policy, of.revision(e.Revision)
		return e
	})
}

func (h *policyHandlers) openWave(c *call) error {
	return move(h, c, "wave", policy.DecodeNextWave, func(e policy.WaveOpened, of moveOf) policy.Event {
		e.ID, e.Project, e.Policy, e.Revision = of.event, of.project, of.policy, of.revision(e.Revision)
		return e
	})
}

func (h *policyHandlers) abort(c *call) error {
	return move(h, c, "abort", policy.DecodeAbort, func(e policy.RolloutAborted, of moveOf) policy.Event {
		e.ID, e.Project, e.Policy, e.Revision = of.event, of.project, of.policy, of.revision(e.Revision)
		return e
	})
}

// moveOf is what an event about a rollout names.
type moveOf struct{ event, project, policy, latest uuid.UUID }

// revision is the one that was asked for, or the latest that was staged.
func (m moveOf) revision(asked uuid.UUID) uuid.UUID {
	if asked == uuid.Nil {
		return m.latest
	}
	return asked
}

// move appends the event that a body asks for. Whether anything is staged is for the
// fold to say.
func move[E any](h *policyHandlers, c *call, role string, decode func([]byte) (E, error), make func(E, moveOf) policy.Event) error {
	project, id, err := c.pathIDs("policy")
	if err != nil {
		return err
	}
	e, err := decoded(c, decode)
	if err != nil {
		return err
	}
	of := moveOf{project: project, policy: id}
	if of.event, err = h.writes.id(c, project, role+":"+id.String()); err != nil {
		return err
	}
	if err := h.reads.catchUp(c, 0); err != nil { // it may mean what is staged now
		return err
	}
	err = h.reads.check(c, func(v *projector.View) error {
		pol, err := livePolicy(v, project, id)
		if err != nil {
			return err
		}
		r, ok := projector.RolloutOf(v, project, id)
		if of.latest = r.Revision; !ok {
			of.latest = pol.Head.ID // which is not staged
		}
		return nil
	})
	if err != nil {
		return err
	}
	return h.moved(c, make(e, of), project, id)
}

// moved appends an event about a rollout, and answers with what it left.
func (h *policyHandlers) moved(c *call, e policy.Event, project, id uuid.UUID) error {
	made, err := h.writes.commit(c, e, false)
	if err != nil {
		return err
	}
	var r projector.Rollout
	var ok bool
	h.model.Read(func(v *projector.View) { r, ok = projector.RolloutOf(v, project, id) })
	if !ok {
		return policyNotFound(id) // deleted since
	}
	if c.key != "" && r.Seq != made.Seq {
		if r, err = h.asMoved(c, e, project, id, r); err != nil {
			return err
		}
	}
	out := showWaves(r)
	out.Admission = c.admitted
	return c.json(http.StatusOK, out)
}

// asMoved is the rollout that e was about, as e left it, where a try before this one wrote e:
// what was staged since is another rollout. now is the latest.
func (h *policyHandlers) asMoved(c *call, e policy.Event, project, id uuid.UUID, now projector.Rollout) (r projector.Rollout, err error) {
	if h.writes.Event == nil || h.writes.NextOf == nil {
		return now, nil
	}
	m, err := h.writes.made(c.r.Context(), e)
	if errors.Is(err, streams.ErrNotFound) { // the log was compacted since
		return now, nil
	}
	if err != nil {
		return r, unread(err)
	}
	switch first, _ := policy.Decode(m.Body); first := first.(type) {
	case policy.RevisionPromoted:
		r.Revision = first.Revision
	case policy.WaveOpened:
		r.Revision = first.Revision
	case policy.RolloutAborted:
		r.Revision = first.Revision
		now = projector.Rollout{Revision: first.Revision, Phase: projector.RolloutAborted, Reason: first.Reason, Time: m.Time} // unless it reached nodes, this is all that is known
	}
	h.model.Read(func(v *projector.View) {
		then, ok, failed := projector.RolloutAfter(v, project, id, r.Revision, m.Seq)
		if r, err = then, failed; !ok {
			r = now
		}
	})
	return r, err
}

// wavesOf is the latest rollout of a policy; nil: there was none.
func wavesOf(v *projector.View, project, id uuid.UUID) *resource.Waves {
	r, ok := projector.RolloutOf(v, project, id)
	if !ok {
		return nil
	}
	return showWaves(r)
}

func showWaves(r projector.Rollout) *resource.Waves {
	out := &resource.Waves{
		RevisionID: r.Revision, ParentRevisionID: r.Parent, Phase: r.Phase, Waves: []string{}, Opened: len(r.Opened),
		MinAppliedPercent: int(r.Gate.MinApplied), MaxRefusedPercent: int(r.Gate.MaxRefused), OnRefusal: r.Gate.OnRefusal(), Reason: r.Reason, UpdatedAt: r.Time,
	}
	for _, w := range r.Waves {
		out.Waves = append(out.Waves, w.String())
	}
	return out
}
