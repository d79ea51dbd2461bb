package api

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// nodeReports say where nodes stand with what is asked of them.
type nodeReports struct {
	model       views
	convergence Convergence
	clock       func() time.Time
	past        *pastHandlers
}

const (
	defaultGroups = 100
	maxGroups     = 1000
)

var (
	stateParam = Param{
		Name: "state", In: "query", Summary: "Only nodes that stand so with what is asked of them: applied, lagging, refused or silent, or several of these behind commas.",
		Schema: &openapi.Schema{Type: "string", Pattern: "^(applied|lagging|refused|silent)(,(applied|lagging|refused|silent))*$"},
	}
	labelParam = queryText("label_selector", "Only nodes that this side of a selector matches, such as role=web,!retired.")
)

func (h *nodeReports) routes() []Route {
	summary := Route{
		Method: http.MethodGet, Tag: "nodes", Summary: "Count the nodes of the plane by where they stand, and by the value of a label",
		Params: []Param{
			queryText("by", "The key of the label by whose value to count as well."), labelParam, atParam,
			{
				Name: "limit", In: "query", Summary: "Groups to list; more than 1000 are 1000.",
				Schema: &openapi.Schema{Type: "integer", Minimum: openapi.N(1), Default: defaultGroups},
			},
			ifNoneMatchParam,
		},
		Answers:  cachedAnswer(eitherOf{resource.NodeCounts{}, resource.PastCounts{}}, "ETag"),
		Problems: pastProblems(policy.CodeSelectorSyntax, policy.CodeInvalidLabelKey, CodeStarting), serve: h.summaryAt,
	}
	plane, project := summary, summary
	plane.Pattern, plane.ID, plane.Needs = "/v1/nodes:summary", "countNodes", access.ReadPlane
	project.Pattern, project.ID, project.Needs = "/v1/projects/{project}/nodes:summary", "countProjectNodes", access.SeeProject
	project.Summary = "Count the nodes of a project, likewise"
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/v1/nodes", ID: "listAllNodes", Tag: "nodes", Needs: access.ReadPlane,
			Summary: "List the nodes of all projects by id, each with what it reported last", Params: []Param{stateParam, labelParam, limitParam, cursorParam, ifNoneMatchParam},
			Answers: cachedAnswer(resource.Page[resource.Node]{}, "ETag"), Problems: []string{CodeBadCursor, policy.CodeSelectorSyntax, CodeStarting},
			serve: h.list,
		},
		plane, project,
	}
}

// wantedStates reads which nodes are asked for, by where they stand; all when state is absent.
func wantedStates(c *call) (wanted [len(convergence.States)]bool, err error) {
	text := c.r.URL.Query().Get("state")
	if text == "" {
		for i := range wanted {
			wanted[i] = true
		}
		return wanted, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		at := slices.Index(convergence.States[:], name)
		if at < 0 {
			return wanted, broken(http.StatusBadRequest, CodeBadParameter, "/state", "%.40q is no state of a node; there are %s", name, strings.Join(convergence.States[:], ", "))
		}
		wanted[at] = true
	}
	return wanted, nil
}

// amongOf reads which nodes a request is about: those of its project, of the plane when
// the path has none, whose labels satisfy its selector.
func amongOf(c *call) (a convergence.Among, err error) {
	if a.Project, err = anyProject(c); err != nil {
		return a, err
	}
	a.Labels, err = c.labelSelector()
	return a, err
}

// census is where all nodes stand, or the problem that says to wait.
func (h *nodeReports) census(ctx context.Context) (*convergence.Census, error) {
	if h.convergence == nil {
		return nil, starting(errNoReports)
	}
	census, err := h.convergence.Census(ctx)
	return census, unheard(err)
}

var errNoReports = errors.New("nobody follows reports here")

// unheard turns an error of who follows reports into a problem, if it is one.
func unheard(err error) error {
	var early *convergence.NotReadyError
	if errors.As(err, &early) {
		return starting(err)
	}
	return err
}

func (h *nodeReports) list(c *call) error {
	limit, after, err := c.pageOf(cursorNodes)
	if err != nil {
		return err
	}
	among, err := amongOf(c)
	if err != nil {
		return err
	}
	wanted, err := wantedStates(c)
	if err != nil {
		return err
	}
	census, err := h.census(c.r.Context())
	if err != nil {
		return err
	}
	var items []resource.Node
	next, stop := iter.Pull(census.Above(among, wanted, policy.NodeID(after)))
	defer stop()
	for more := true; more && len(items) <= limit; {
		if err := c.r.Context().Err(); err != nil {
			return err
		}
		var ids []policy.NodeID
		if ids, more = taken(next, limit+1-len(items)); len(ids) == 0 {
			break
		}
		part, err := h.now(among, wanted, ids)
		if err != nil {
			return err
		}
		items = append(items, part...)
	}
	same := func(n resource.Node) resource.Node { return n }
	return tagged(c, cut(items, limit, cursorNodes, func(n resource.Node) string { return n.ID }, same))
}

// taken is up to n ids, and whether there may be more.
func taken(next func() (policy.NodeID, bool), n int) (ids []policy.NodeID, more bool) {
	for range n {
		id, ok := next()
		if !ok {
			return ids, false
		}
		ids = append(ids, id)
	}
	return ids, true
}

// now are those of some nodes that are meant and stand as wanted now. A census may
// be a second old, and what is shown of a node is not.
func (h *nodeReports) now(among convergence.Among, wanted [len(convergence.States)]bool, ids []policy.NodeID) ([]resource.Node, error) {
	var infos []projector.NodeInfo
	h.model.Read(func(v *projector.View) {
		for _, id := range ids {
			n, ok := v.Node(id)
			if ok && (among.Project == uuid.Nil || n.Project == among.Project) && among.Labels.Matches(n.Labels) {
				infos = append(infos, n)
			}
		}
	})
	out, err := h.with(infos)
	return slices.DeleteFunc(out, func(n resource.Node) bool {
		return !wanted[slices.Index(convergence.States[:], n.Report.State)]
	}), err
}

// with are nodes with what they reported; those that went meanwhile are left out.
func (h *nodeReports) with(infos []projector.NodeInfo) ([]resource.Node, error) {
	if h.convergence == nil {
		return nil, starting(errNoReports)
	}
	ids := make([]policy.NodeID, len(infos))
	for i, n := range infos {
		ids[i] = n.ID
	}
	all, err := h.convergence.Statuses(ids)
	if err != nil {
		return nil, unheard(err)
	}
	now, out := h.clock(), make([]resource.Node, 0, len(all))
	for _, n := range infos {
		if len(all) == 0 || all[0].Node != n.ID {
			continue
		}
		shown := showNode(n)
		shown.Report = showStatus(all[0], now)
		out, all = append(out, shown), all[1:]
	}
	return out, nil
}

func showStatus(s convergence.NodeStatus, now time.Time) *resource.NodeReport {
	out := &resource.NodeReport{State: s.State.String(), DesiredVersion: s.Desired}
	if !s.Reported() {
		return out
	}
	out.Version, out.TableVersion, out.Outcome, out.Reason = s.Version, s.Table, s.Outcome.String(), s.Reason
	since, age := s.Since.UTC(), max(0, now.Sub(s.Since).Seconds())
	out.Since, out.AgeSeconds = &since, &age
	return out
}

func (h *nodeReports) summary(c *call) error {
	among, key, limit, err := countedOf(c)
	if err != nil {
		return err
	}
	census, err := h.census(c.r.Context())
	if err != nil {
		return err
	}
	out := resource.NodeCounts{Seq: census.Seq(), ByState: showCounts(census.Count(among))}
	if key != "" {
		groups := census.Groups(among, key)
		n := len(groups)
		out.By, out.Values, out.Groups = key, &n, make([]resource.NodeGroup, 0, min(n, limit))
		for _, g := range groups[:min(n, limit)] {
			out.Groups = append(out.Groups, showGroup(g))
		}
	}
	return tagged(c, out)
}

// countedOf reads which nodes to count, by which label, if by any, and how many groups to list.
func countedOf(c *call) (among convergence.Among, key string, limit int, err error) {
	if among, err = amongOf(c); err != nil {
		return among, "", 0, err
	}
	if limit, err = c.limitOf(defaultGroups, maxGroups); err != nil {
		return among, "", 0, err
	}
	key = c.r.URL.Query().Get("by")
	if _, err := policy.NewLabels(map[string]string{key: ""}, ""); key != "" && err != nil {
		return among, "", 0, broken(http.StatusUnprocessableEntity, policy.CodeInvalidLabelKey, "/by", "%.80q is no key of a label", key)
	}
	return among, key, limit, nil
}

func showCounts(n convergence.Counts) resource.ByState {
	return resource.ByState{
		Nodes: n.Nodes(), Applied: n[convergence.StateApplied], Lagging: n[convergence.StateLagging],
		Refused: n[convergence.StateRefused], Silent: n[convergence.StateSilent],
	}
}

func showGroup(g convergence.Group) resource.NodeGroup {
	out := resource.NodeGroup{ByState: showCounts(g.Counts)}
	if !g.Absent {
		out.Value = &g.Value
	}
	return out
}
