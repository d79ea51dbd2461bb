package api

import (
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

const cursorRevisions = "r"

// revisionHandlers serve what a policy was before.
type revisionHandlers struct{ reads *reads }

func (h *revisionHandlers) routes() []Route {
	return []Route{
		{
			Method: http.MethodGet, Pattern: patternPolicy + "/revisions", ID: "listRevisions", Tag: "revisions", Needs: access.ReadPolicy,
			Summary:  "List a policy's revisions, newest first",
			Params:   []Param{limitParam, cursorParam, ifNoneMatchParam},
			Answers:  cachedAnswer(resource.Page[resource.Revision]{}, "ETag"),
			Problems: readProblems(CodeBadCursor, CodePolicyNotFound), serve: h.list,
		},
		{
			Method: http.MethodGet, Pattern: patternPolicy + "/revisions/{revision}", ID: "getRevision", Tag: "revisions", Needs: access.ReadPolicy,
			Summary:  "Read one revision of a policy",
			Answers:  jsonAnswer(http.StatusOK, resource.Revision{}),
			Problems: readProblems(CodePolicyNotFound, CodeRevisionNotFound), serve: h.get,
		},
		{
			Method: http.MethodGet, Pattern: patternPolicy + "/diff", ID: "diffRevisions", Tag: "revisions", Needs: access.ReadPolicy,
			Summary: "Compare the rules of two revisions of a policy",
			Params: []Param{
				queryUUID("from_revision", "The id of the revision to compare from."),
				queryUUID("to_revision", "The id of the revision to compare to."),
			},
			Answers:  jsonAnswer(http.StatusOK, resource.Diff{}),
			Problems: readProblems(CodePolicyNotFound, CodeRevisionNotFound, policy.CodeMissing), serve: h.diff,
		},
	}
}

func (h *revisionHandlers) list(c *call) error {
	project, id, err := c.pathIDs("policy")
	if err != nil {
		return err
	}
	limit, text, err := c.pageOf(cursorRevisions)
	if err != nil {
		return err
	}
	before := uint64(0)
	if text != "" {
		if before, err = strconv.ParseUint(text, 10, 64); err != nil || before == 0 {
			return badCursor()
		}
	}
	var items []projector.RevisionInfo
	err = h.reads.check(c, func(v *projector.View) (err error) {
		if _, err = livePolicy(v, project, id); err != nil {
			return err
		}
		items, err = v.Revisions(project, id, before, limit+1)
		return err
	})
	if err != nil {
		return err
	}
	end := func(r projector.RevisionInfo) string { return strconv.FormatUint(r.Seq, 10) }
	show := func(r projector.RevisionInfo) resource.Revision { return showLogged(id, r) }
	return tagged(c, cut(items, limit, cursorRevisions, end, show))
}

func (h *revisionHandlers) get(c *call) error {
	project, id, err := c.pathIDs("policy")
	if err != nil {
		return err
	}
	rid, err := c.pathID("revision")
	if err != nil {
		return err
	}
	var rev projector.RevisionInfo
	err = h.reads.check(c, func(v *projector.View) (err error) {
		rev, err = revisionOf(v, project, id, rid)
		return err
	})
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, showLogged(id, rev))
}

// showLogged is a revision with where it stands in the log, by which the policy is read as it
// was then.
func showLogged(of uuid.UUID, r projector.RevisionInfo) resource.Revision {
	out := showRevision(of, r.Revision)
	out.Seq = r.Seq
	return out
}

// revisionOf reads a revision of a live policy; one of another policy is as
// good as none.
func revisionOf(v *projector.View, project, id, revision uuid.UUID) (projector.RevisionInfo, error) {
	if _, err := livePolicy(v, project, id); err != nil {
		return projector.RevisionInfo{}, err
	}
	rev, ok, err := v.Revision(project, id, revision)
	if err == nil && !ok {
		err = problem(http.StatusNotFound, CodeRevisionNotFound, "policy %s has no revision %s", id, revision)
	}
	return rev, err
}

func (h *revisionHandlers) diff(c *call) error {
	project, id, err := c.pathIDs("policy")
	if err != nil {
		return err
	}
	from, err := c.queryID("from_revision")
	if err != nil {
		return err
	}
	to, err := c.queryID("to_revision")
	if err != nil {
		return err
	}
	var a, b projector.RevisionInfo
	err = h.reads.check(c, func(v *projector.View) (err error) {
		if a, err = revisionOf(v, project, id, from); err != nil {
			return err
		}
		b, err = revisionOf(v, project, id, to)
		return err
	})
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, Compare(a.Content(), b.Content()))
}
