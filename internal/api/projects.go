package api

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

const (
	tagProjects    = "projects"
	patternProject = "/v1/projects/{project}"
	cursorProjects = "pr"
)

// projectHandlers serve projects, and their quotas.
type projectHandlers struct {
	model  views
	writes *writes
	clock  func() time.Time
}

func (h *projectHandlers) routes() []Route {
	show := jsonAnswer(http.StatusOK, resource.Project{})
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/v1/projects", ID: "listProjects", Tag: tagProjects, Needs: access.ReadPlane,
			Summary: "List the projects by id, with what they use of their quotas", Params: []Param{limitParam, cursorParam},
			Answers: jsonAnswer(http.StatusOK, resource.Page[resource.Project]{}), Problems: []string{CodeBadCursor}, serve: h.list,
		},
		{
			Method: http.MethodGet, Pattern: patternProject, ID: "getProject", Tag: tagProjects, Needs: access.SeeProject,
			Summary: "Read a project's quota and what it uses of it", Answers: show, serve: h.get,
		},
		{
			Method: http.MethodPut, Pattern: patternProject + "/quota", ID: "putProjectQuota", Tag: tagProjects, Needs: access.AdminPlane,
			Summary: "Say what a project may have and add", Params: writeParams(), BodyType: mediaJSON, Body: resource.Quota{}, Answers: show,
			Problems: writeProblems(bodyProblems(CodeKeyReused, policy.CodeInvalidQuota)...), serve: h.put,
		},
		{
			Method: http.MethodPatch, Pattern: patternProject, ID: "archiveProject", Tag: tagProjects, Needs: access.AdminPlane,
			Summary: "Archive a project that has no nodes, or restore it", Params: writeParams(), BodyType: mediaJSON, Body: resource.ProjectChange{}, Answers: show,
			Problems: writeProblems(bodyProblems(CodeKeyReused, policy.CodeMissing, policy.CodeWrongType, projector.CodeProjectInUse)...), serve: h.patch,
		},
	}
}

func (h *projectHandlers) list(c *call) error {
	limit, after, err := c.pageOf(cursorProjects)
	if err != nil {
		return err
	}
	var items []resource.Project
	h.model.Read(func(v *projector.View) {
		for _, id := range projector.QuotasOf(v).Projects() {
			if len(items) <= limit && id.String() > after {
				items = append(items, showProject(v, id, h.clock()))
			}
		}
	})
	id := func(p resource.Project) string { return p.ID }
	return c.json(http.StatusOK, cut(items, limit, cursorProjects, id, func(p resource.Project) resource.Project { return p }))
}

func (h *projectHandlers) get(c *call) error {
	id, err := c.pathID("project")
	if err != nil {
		return err
	}
	return h.answer(c, id)
}

func (h *projectHandlers) answer(c *call, id uuid.UUID) error {
	var out resource.Project
	h.model.Read(func(v *projector.View) { out = showProject(v, id, h.clock()) })
	return c.json(http.StatusOK, out)
}

func (h *projectHandlers) put(c *call) error {
	id, err := c.pathID("project")
	if err != nil {
		return err
	}
	q, err := decoded(c, policy.DecodeQuota)
	if err != nil {
		return err
	}
	e := policy.ProjectQuotaUpdated{Project: id, Quota: q, CreatedBy: c.principal}
	if e.ID, err = h.writes.id(c, uuid.Nil, "put:quota:"+id.String()); err != nil {
		return err
	}
	if _, err := h.writes.commit(c, e, false); err != nil {
		return err
	}
	return h.answer(c, id)
}

// patch archives a project, or restores it.
func (h *projectHandlers) patch(c *call) error {
	id, err := c.pathID("project")
	if err != nil {
		return err
	}
	archived, err := decoded(c, policy.DecodeProjectChange)
	if err != nil {
		return err
	}
	event, err := h.writes.id(c, uuid.Nil, "patch:project:"+id.String())
	if err != nil {
		return err
	}
	to := policy.ProjectArchived{ID: event, Project: id, CreatedBy: c.principal}
	var e policy.Event = to
	if !archived {
		e = policy.ProjectRestored(to)
	}
	if _, err := h.writes.commit(c, e, false); err != nil {
		return err
	}
	return h.answer(c, id)
}

func showProject(v *projector.View, id uuid.UUID, now time.Time) resource.Project {
	q := projector.QuotasOf(v).Of(id, now)
	out := resource.Project{
		ID: id.String(), Quota: resource.Quota(q.Limits), Seq: q.Seq,
		Used: resource.ProjectUse{
			Policies: q.Used.Policies, Nodes: q.Used.Nodes, LabelSets: q.Used.LabelSets, BytesPerDay: q.Used.BytesPerDay, EventsPerDay: q.Used.EventsPerDay,
		},
	}
	if !q.Ready.IsZero() {
		out.Ready = &q.Ready
	}
	if !q.Since.IsZero() {
		out.ArchivedAt = &q.Since
	}
	return out
}
