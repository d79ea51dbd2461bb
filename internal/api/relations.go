package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

func (h *principalHandlers) relationRoutes() []Route {
	show := jsonAnswer(http.StatusOK, resource.Principal{}, "ETag")
	relation := queryText("relation", "The relation, as object#name.")
	relation.Required = true
	return []Route{
		{
			Method: http.MethodPost, Pattern: patternRelations, ID: "writeRelation", Tag: tagAccess, Needs: access.AdminPlane,
			Summary: "Give a principal a relation; one that it has already writes nothing", Params: writeParams(),
			BodyType: mediaJSON, Body: resource.Relation{}, Answers: show,
			Problems: writeProblems(bodyProblems(policy.CodeMissing, policy.CodeInvalidRelation, projector.CodeNodeIDTaken)...), serve: h.writeRelation,
		},
		{
			Method: http.MethodDelete, Pattern: patternRelations, ID: "removeRelation", Tag: tagAccess, Needs: access.AdminPlane,
			Summary: "Take a relation back; one that it does not have writes nothing",
			Params:  writeParams(relation),
			Answers: noContent(), Problems: writeProblems(policy.CodeInvalidRelation, CodeGivenByFile), serve: h.removeRelation,
		},
	}
}

func (h *principalHandlers) writeRelation(c *call) error {
	id, err := c.pathPrincipal()
	if err != nil {
		return err
	}
	rel, err := decoded(c, policy.DecodeRelation)
	if err != nil {
		return err
	}
	if err := h.checkNode(c, rel); err != nil {
		return err
	}
	e := policy.RelationWritten{Principal: id, Relation: rel, CreatedBy: c.principal}
	if e.ID, err = h.writes.id(c, uuid.Nil, fmt.Sprintf("write:relation:%s:%s", id, rel)); err != nil {
		return err
	}
	if _, err := h.writes.commit(c, e, false); err != nil {
		return err
	}
	return h.answer(c, id)
}

// checkNode refuses a relation to a node that names no project, or one that the
// node is not of. A node that is not there yet may be named.
func (h *principalHandlers) checkNode(c *call, rel policy.Relation) error {
	if !rel.Whole() {
		return broken(http.StatusUnprocessableEntity, policy.CodeInvalidRelation, "/relation",
			"%s names no project, and whoever names the node first would give its agent policies; write node:<project>/%s#%s", rel, rel.Node, rel.Name)
	}
	if rel.Kind != policy.ObjectNode {
		return nil
	}
	return h.reads.check(c, func(v *projector.View) error {
		if owner, known := v.ProjectOfNode(rel.Node); known && owner != rel.ID {
			return problem(http.StatusConflict, projector.CodeNodeIDTaken, "node id %s belongs to another project than %s; choose another id for the node", rel.Node, rel.ID)
		}
		return nil
	})
}

func (h *principalHandlers) removeRelation(c *call) error {
	id, err := c.pathPrincipal()
	if err != nil {
		return err
	}
	rel, err := policy.ParseRelation(c.r.URL.Query().Get("relation"))
	if err != nil {
		return invalid(err)
	}
	e := policy.RelationRemoved{Principal: id, Relation: rel, CreatedBy: c.principal}
	if e.ID, err = h.writes.id(c, uuid.Nil, fmt.Sprintf("remove:relation:%s:%s", id, rel)); err != nil {
		return err
	}
	_, err = h.writes.commit(c, e, false)
	if filed := h.access != nil && h.access.Filed(id, rel); filed && (err == nil || errors.Is(err, errDryRun)) {
		return problem(http.StatusConflict, CodeGivenByFile,
			"%s keeps %s: the file that the plane was started with (serve --access) gives it; take it out there, and start the plane again", id, rel)
	}
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
