package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

const (
	patternNodes = "/v1/projects/{project}/nodes"
	patternNode  = "/v1/projects/{project}/nodes/{node}"
	patternBatch = "/v1/projects/{project}/nodes:batch"
	cursorNodes  = "n"
)

// nodeHandlers serve the facts of nodes.
type nodeHandlers struct {
	model   views
	reads   *reads
	writes  *writes
	reports *nodeReports
}

func (h *nodeHandlers) routes() []Route {
	return slices.Concat(h.readRoutes(), h.writeRoutes())
}

func (h *nodeHandlers) readRoutes() []Route {
	report := queryFlag("report", "Add what each reported last, and where it stands.")
	return []Route{
		{
			Method: http.MethodGet, Pattern: patternNodes, ID: "listNodes", Tag: "nodes", Needs: access.SeeProject,
			Summary: "List a project's nodes by id",
			Params: []Param{
				limitParam, cursorParam, ifNoneMatchParam, queryText("prefix", "Only those whose ids begin so. It goes without state."),
				labelParam, stateParam, report,
			},
			Answers:  cachedAnswer(resource.Page[resource.Node]{}, "ETag"),
			Problems: []string{CodeBadCursor, CodeBadParameter, policy.CodeSelectorSyntax, CodeStarting},
			serve:    h.list,
		},
		{
			Method: http.MethodGet, Pattern: patternNode, ID: "getNode", Tag: "nodes", Needs: access.SeeProject,
			Summary: "Read a node's facts", Params: []Param{report},
			Answers: jsonAnswer(http.StatusOK, resource.Node{}, "ETag"), Problems: readProblems(CodeNodeNotFound, CodeStarting),
			serve: h.get,
		},
	}
}

func (h *nodeHandlers) writeRoutes() []Route {
	return []Route{
		{
			Method: http.MethodPut, Pattern: patternNode, ID: "putNode", Tag: "nodes", Needs: access.OperateProject,
			Summary:  "State a node's facts, whole; equal facts write nothing",
			Params:   writeParams(onlyIfMatchParam),
			BodyType: mediaJSON, Body: resource.Facts{},
			Answers: append(jsonAnswer(http.StatusCreated, resource.Node{}, "ETag"),
				jsonAnswer(http.StatusOK, resource.Node{}, "ETag")...),
			Problems: projectProblems(bodyProblems(factFaults(CodePreconditionFailed, CodeContended, projector.CodeNodeIDTaken, projector.CodeStaleEvent, CodeKeyReused)...)...),
			serve:    h.put,
		},
		{
			Method: http.MethodDelete, Pattern: patternNode, ID: "deleteNode", Tag: "nodes", Needs: access.OperateProject,
			Summary: "Remove a node", Params: writeParams(onlyIfMatchParam), Answers: noContent(),
			Problems: writeProblems(CodeNodeNotFound, CodePreconditionFailed, CodeContended), serve: h.delete,
		},
		{
			Method: http.MethodPost, Pattern: patternBatch, ID: "putNodes", Tag: "nodes", Needs: access.OperateProject,
			Summary:  "State the facts of many nodes, a JSON line each, and wait for the verdicts",
			Params:   writeParams(),
			BodyType: mediaNDJSON, Body: resource.NodeLine{},
			Answers:  jsonAnswer(http.StatusOK, resource.BatchResult{}),
			Problems: linesProblems(), serve: h.putAll,
		},
	}
}

func nodeNotFound(id policy.NodeID) error {
	return problem(http.StatusNotFound, CodeNodeNotFound, "there is no node %s here", id)
}

func (h *nodeHandlers) list(c *call) error {
	prefix := c.r.URL.Query().Get("prefix")
	if c.r.URL.Query().Get("state") != "" {
		if prefix != "" {
			return broken(http.StatusBadRequest, CodeBadParameter, "/prefix", "nodes are listed by prefix or by state, not by both")
		}
		return h.reports.list(c)
	}
	among, err := amongOf(c)
	if err != nil {
		return err
	}
	limit, after, err := c.pageOf(cursorNodes)
	if err != nil {
		return err
	}
	reported, err := c.queryFlag("report")
	if err != nil {
		return err
	}
	infos, err := h.above(c.r.Context(), among.Project, prefix, among.Labels, policy.NodeID(after), limit+1)
	if err != nil {
		return err
	}
	end := func(n projector.NodeInfo) string { return string(n.ID) }
	page := cut(infos, limit, cursorNodes, end, showNode)
	if reported {
		page.Items, err = h.reports.with(infos[:min(limit, len(infos))])
	}
	if err != nil {
		return err
	}
	return tagged(c, page)
}

// above returns the first nodes of a project above an id that begin with prefix and satisfy expr. It
// looks at them a part at a time, so that the fold waits for none of its lists.
func (h *nodeHandlers) above(ctx context.Context, project uuid.UUID, prefix string, expr policy.Expr, above policy.NodeID, limit int) (items []projector.NodeInfo, err error) {
	for more := true; more && len(items) < limit; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var part []projector.NodeInfo
		h.model.Read(func(v *projector.View) {
			part, above, more, err = v.Nodes(project, prefix, expr, above, limit-len(items))
		})
		if err != nil {
			return nil, err
		}
		items = append(items, part...)
	}
	return items, nil
}

// labelSelector reads the filter of a list; absent it matches all.
func (c *call) labelSelector() (policy.Expr, error) {
	text := c.r.URL.Query().Get("label_selector")
	if text == "" {
		return nil, nil
	}
	expr, faults := policy.ParseExpr(text)
	if len(faults) == 0 {
		return expr, nil
	}
	p := problem(http.StatusUnprocessableEntity, policy.CodeSelectorSyntax,
		"label_selector: at byte %d: %s", faults[0].Position, faults[0].Message)
	for _, f := range faults {
		p.Errors = append(p.Errors, resource.Fault{
			Pointer: "/label_selector", Code: policy.CodeSelectorSyntax,
			Detail: fmt.Sprintf("at byte %d: %s", f.Position, f.Message),
		})
	}
	return nil, p
}

// ownNode reads a node of a project, or says that there is none.
func ownNode(v *projector.View, project uuid.UUID, id policy.NodeID) (projector.NodeInfo, error) {
	n, ok := v.Node(id)
	if !ok || n.Project != project {
		return projector.NodeInfo{}, nodeNotFound(id)
	}
	return n, nil
}

func (c *call) pathProjectNode() (project uuid.UUID, id policy.NodeID, err error) {
	if project, err = c.pathID("project"); err == nil {
		id, err = c.pathNode()
	}
	return project, id, err
}

func (h *nodeHandlers) get(c *call) error {
	project, id, err := c.pathProjectNode()
	if err != nil {
		return err
	}
	var n projector.NodeInfo
	err = h.reads.check(c, func(v *projector.View) (err error) {
		n, err = ownNode(v, project, id)
		return err
	})
	if err != nil {
		return err
	}
	reported, err := c.queryFlag("report")
	if err != nil {
		return err
	}
	if !reported {
		return c.node(http.StatusOK, n)
	}
	shown, err := h.reports.with([]projector.NodeInfo{n})
	if err != nil {
		return err
	}
	if len(shown) == 0 {
		return nodeNotFound(id) // since a moment
	}
	c.w.Header().Set("ETag", versionTag(n.Version))
	return c.json(http.StatusOK, shown[0])
}

func (h *nodeHandlers) delete(c *call) error {
	project, id, err := c.pathProjectNode()
	if err != nil {
		return err
	}
	only, err := c.condition()
	if err != nil {
		return err
	}
	e := policy.NodeRemoved{Project: project, Node: id}
	if e.ID, err = h.writes.id(c, project, "remove:"+string(id)); err != nil {
		return err
	}
	return h.writes.removeIf(c, e, only, func(v *projector.View) (string, error) {
		n, err := ownNode(v, project, id)
		return versionTag(n.Version), err
	})
}
