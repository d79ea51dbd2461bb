package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/compiler/lint"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

const (
	patternDatapath     = "/v1/nodes/{node}/datapath"
	patternExplain      = "/v1/nodes/{node}/explain"
	patternNodePolicies = "/v1/nodes/{node}/policies"
)

// Codes of faults in a table or in a question about one.
const (
	CodeTooManyEntries   = lint.CodeTooManyEntries
	CodeTooManyLevels    = "too_many_priorities"
	CodeUnknownDirection = "unknown_direction"
	CodePeerNotFound     = "peer_not_found"
	CodeNoAddress        = "node_without_addresses" // a warning
	CodeOutside          = lint.CodeOutside         // a warning
)

// tableHandlers serve nodes' tables, and explain what they say.
type tableHandlers struct {
	reads  *reads
	tables *snapshot.Tables
	model  enforcements
	deltas *semaphore.Weighted // answers that are coded with another table
	past   *pastHandlers
}

func (h *tableHandlers) routes() []Route {
	tables := readProblems(CodeNodeNotFound, CodeTooManyEntries, CodeTooManyLevels, CodeTooManyAtOnce)
	return []Route{
		{
			Method: http.MethodGet, Pattern: patternDatapath, ID: "getNodeDatapath", Tag: "node", Needs: access.ReadNode,
			Summary:  "Read the table that a node looks flows up in",
			Params:   []Param{minSeqParam, atParam, ifNoneMatchParam, heldParam, modeParam},
			Answers:  append(cachedAnswer(resource.Datapath{}, "ETag", HeaderLogSeq), Answer{Status: http.StatusNoContent}),
			Problems: pastProblems(append(tables[:len(tables):len(tables)], policy.CodeUnknownMode)...), serve: h.datapathAt,
		},
		{
			Method: http.MethodGet, Pattern: patternExplain, ID: "explainFlow", Tag: "node", Needs: access.ReadNode,
			Summary:  "Say what a node does with a flow, and why",
			Params:   append(flowParams(), modeParam, minSeqParam, atParam, ifNoneMatchParam),
			Answers:  cachedAnswer(resource.FlowVerdict{}, "ETag"),
			Problems: pastProblems(append(append(tables[:len(tables):len(tables)], policy.CodeUnknownMode), explainFaults()...)...),
			serve:    h.explainAt,
		},
		{
			Method: http.MethodGet, Pattern: patternNodePolicies, ID: "listNodePolicies", Tag: "node", Needs: access.ReadNode,
			Summary:  "List the rules of a node's policies in the order in which they are tried",
			Params:   []Param{queryFlag("all", "Also the rules that do not apply to the node, with the reason."), minSeqParam, ifNoneMatchParam},
			Answers:  cachedAnswer(resource.NodePolicies{}, "ETag"),
			Problems: tables, serve: h.policies,
		},
	}
}

var modeParam = Param{
	Name: "mode", In: "query", Summary: "Audit: as it would be if policies in audit mode were in force. The table of a node that no such policy matches is 204 then.",
	Schema: &openapi.Schema{Type: "string", Enum: openapi.OneOfTexts(policy.Enforce, policy.Audit), Default: string(policy.Enforce)},
}

// audit reports whether the table in audit mode is asked for.
func (c *call) audit() (bool, error) {
	switch mode := c.r.URL.Query().Get(modeParam.Name); policy.Mode(mode) {
	case "", policy.Enforce:
		return false, nil
	case policy.Audit:
		return true, nil
	default:
		return false, invalid(policy.Violations{{Pointer: "/mode", Code: policy.CodeUnknownMode, Detail: fmt.Sprintf("%.32q is not a mode; use enforce or audit", mode)}})
	}
}

// audited reports whether a policy in audit mode matches the node in the path.
func (h *tableHandlers) audited(c *call) (bool, error) {
	id, err := c.pathNode()
	if err != nil {
		return false, err
	}
	if err := h.reads.fresh(c); err != nil {
		return false, err
	}
	if err := h.reads.node(c, id); err != nil {
		return false, err
	}
	return h.tables.Audited(id)
}

func (h *tableHandlers) tablesIn(audit bool) *snapshot.Tables {
	if audit {
		return h.tables.InAudit()
	}
	return h.tables
}

// tableOf is the table of the node in the path, as fresh as a node's state.
func (h *tableHandlers) tableOf(c *call, audit bool) (snapshot.Answer, error) {
	id, err := c.pathNode()
	if err != nil {
		return snapshot.Answer{}, err
	}
	if err := h.reads.fresh(c); err != nil {
		return snapshot.Answer{}, err
	}
	ctx, end := untilStop(c.r.Context())
	defer end()
	tables := h.tablesIn(audit)
	a, ok, err := tables.Of(ctx, id)
	if err == nil && !ok { // it may have come since
		if err := h.reads.catchUp(c, 0); err != nil {
			return a, err
		}
		a, ok, err = tables.Of(ctx, id)
	}
	if err == nil && !ok {
		err = nodeNotFound(id)
	}
	return a, tableFault(err)
}

// tableFault is err, as a problem where the node's table was refused.
func tableFault(err error) error {
	var refused *snapshot.TableError
	if errors.As(err, &refused) {
		p := problem(http.StatusUnprocessableEntity, refusalCode(err), "%s", refused.Error())
		p.Errors = []resource.Fault{{Pointer: "/entries", Code: p.Code, Detail: refused.Err.Error()}}
		return p
	}
	return busy(err)
}

// busy is err, as a problem where too many wait for what a project has computed,
// and where the server stops.
func busy(err error) error {
	var many *snapshot.BusyError
	switch {
	case errors.As(err, &many):
		return problem(http.StatusServiceUnavailable, CodeTooManyAtOnce, "%s", many.Error())
	case errors.Is(err, errStopping):
		return problem(http.StatusServiceUnavailable, CodeTooManyAtOnce, "this worker stops; ask another, or again")
	}
	return err
}

func refusalCode(err error) string {
	var levels *datapath.LevelsError
	if errors.As(err, &levels) {
		return CodeTooManyLevels
	}
	return CodeTooManyEntries
}

func showRefused(r *snapshot.Refusal) *resource.Refused {
	if r == nil {
		return nil
	}
	return &resource.Refused{NodeID: string(r.Node), Code: refusalCode(r.Err), Detail: r.Err.Error(), AsOf: r.AsOf}
}

// datapath sends the table's bytes as they were made once; what is
// the node's own stands around them.
func (h *tableHandlers) datapath(c *call) error {
	audit, err := c.audit()
	if err != nil {
		return err
	}
	if audit {
		switch audited, err := h.audited(c); {
		case err != nil:
			return err
		case !audited:
			c.w.WriteHeader(http.StatusNoContent)
			return nil
		}
	}
	a, err := h.tableOf(c, audit)
	if err != nil {
		return err
	}
	header := c.w.Header()
	header.Set("Cache-Control", "no-cache")
	// The version is not part of what the tag names: the same table stays right
	// while the log goes on.
	header.Set("ETag", "W/"+a.ETag)
	header.Set(HeaderLogSeq, strconv.FormatUint(a.Seq, 10))
	if noneMatch(c.r.Header.Values(headerIfNoneMatch), a.ETag) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body, err := tableBody(a, h.warnings(a))
	if err != nil {
		return err
	}
	if !h.delta(c, h.tablesIn(audit), a, body) {
		c.coded(http.StatusOK, mediaJSON, body)
	}
	return nil
}

// tableBody puts the table's bytes between what is the node's own.
func tableBody(a snapshot.Answer, warnings []resource.Fault) (body []byte, err error) {
	body = make([]byte, 0, len(a.Body)+512)
	body = append(append(body, `{"node_id":"`...), a.Node.ID...)
	body = strconv.AppendUint(append(body, `","version":`...), a.Seq, 10)
	body = append(append(body, `,"fingerprint":"`...), a.Fingerprint.String()...)
	body = append(append(body, `",`...), a.Body...)
	if len(warnings) > 0 {
		if body, err = appendMember(body, "warnings", warnings); err != nil {
			return nil, err
		}
	}
	if refused := showRefused(a.Refused); refused != nil {
		if body, err = appendMember(body, "refused", refused); err != nil {
			return nil, err
		}
	}
	return append(body, '}'), nil
}

// warnings are where the lack of an address was taken for any: one of the
// node's own a policy, of which the first rule stands for the others, and one of
// the table's members.
func (h *tableHandlers) warnings(a snapshot.Answer) []resource.Fault {
	var out []resource.Fault
	if n := len(a.Unaddressed); n > 0 {
		out = append(out, resource.Fault{
			Pointer: "/identities", Code: CodeNoAddress,
			Detail: fmt.Sprintf("%d peers, the first %s, have no addresses and are taken to lie in every CIDR of the table; register their addresses", n, slices.Min(a.Unaddressed)),
		})
	}
	return append(out, h.assumptions(a)...)
}

// assumptions are those about the node itself.
func (h *tableHandlers) assumptions(a snapshot.Answer) (out []resource.Fault) {
	ids := make([]uuid.UUID, len(a.Assumed))
	for i, x := range a.Assumed {
		ids[i] = uuid.MustParse(x.Rule.Policy)
	}
	slugs, last := h.model.Slugs(a.Node.Project, ids), ""
	for i, x := range a.Assumed {
		if x.Rule.Policy == last {
			continue
		}
		last = x.Rule.Policy
		out = append(out, resource.Fault{
			Pointer: fmt.Sprintf("/policies/%s/rules/%d", x.Rule.Policy, x.Rule.Index), Code: CodeNoAddress,
			Detail: fmt.Sprintf("node %s has no addresses, so it is taken to lie in %s and every other CIDR of policy %s; register its addresses", a.Node.ID, x.CIDR, slugs[ids[i]]),
		})
	}
	return out
}

// appendMember appends a member to the inside of an object.
func appendMember(b []byte, name string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	return append(append(append(append(b, `,"`...), name...), `":`...), text...), nil
}
