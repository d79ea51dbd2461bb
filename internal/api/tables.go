package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

const (
	patternDatapath = "/v1/nodes/{node}/datapath"
	patternExplain  = "/v1/nodes/{node}/explain"
)

// Codes of faults in a table or in a question about one.
const (
	CodeTooManyEntries   = "too_many_entries"
	CodeTooManyLevels    = "too_many_priorities"
	CodeUnknownDirection = "unknown_direction"
	CodePeerNotFound     = "peer_not_found"
	CodeNoAddress        = "node_without_addresses" // a warning
)

// tableHandlers serve nodes' tables, and explain what they say.
type tableHandlers struct {
	reads  *reads
	tables *snapshot.Tables
}

func (h *tableHandlers) routes() []Route {
	minSeq := querySeq("min_seq", "Answer once the fold has passed this log sequence; the log's head when absent.")
	tables := readProblems(CodeNodeNotFound, CodeTooManyEntries, CodeTooManyLevels, CodeTooManyAtOnce)
	text := func(name, summary string, required bool, schema *openapi.Schema) Param {
		return Param{Name: name, In: "query", Summary: summary, Required: required, Schema: schema}
	}
	return []Route{
		{
			Method: http.MethodGet, Pattern: patternDatapath, ID: "getNodeDatapath", Tag: "node", Needs: access.ReadNode,
			Summary: "Read the table that a node looks flows up in",
			Params:  []Param{minSeq, {Name: "If-None-Match", In: "header", Summary: "An ETag; an equal table is 304.", Schema: &openapi.Schema{Type: "string"}}},
			Answers: []Answer{
				{Status: http.StatusOK, MediaType: mediaJSON, Body: resource.Datapath{}, Headers: []string{"ETag"}},
				{Status: http.StatusNotModified, Headers: []string{"ETag"}},
			},
			Problems: tables, serve: h.datapath,
		},
		{
			Method: http.MethodGet, Pattern: patternExplain, ID: "explainFlow", Tag: "node", Needs: access.ReadNode,
			Summary: "Say what a node does with a flow, and why",
			Params: []Param{
				text("direction", "Which way the flow begins, seen from the node.", true, &openapi.Schema{Type: "string", Enum: []any{"egress", "ingress"}}),
				text("peer", "The other end: a node of the project, or an address.", true, &openapi.Schema{Type: "string"}),
				text("protocol", "The flow's protocol.", true, &openapi.Schema{Type: "string", Enum: []any{"tcp", "udp", "sctp", "icmp"}}),
				text("port", "The port at the flow's destination; of tcp, udp and sctp alone.", false, &openapi.Schema{Type: "integer", Minimum: openapi.N(1), Maximum: openapi.N(65535)}),
				minSeq,
			},
			Answers:  jsonAnswer(http.StatusOK, resource.FlowVerdict{}),
			Problems: append(tables[:len(tables):len(tables)], explainFaults()...),
			serve:    h.explain,
		},
	}
}

func explainFaults() []string {
	return []string{
		CodePeerNotFound, CodeUnknownDirection, policy.CodeMissing, policy.CodeUnknownProtocol, policy.CodePortsRequired,
		policy.CodePortsForbidden, policy.CodePortOutOfRange,
	}
}

// tableOf is the table of the node in the path, as fresh as a node's state.
func (h *tableHandlers) tableOf(c *call) (snapshot.Answer, error) {
	id, err := c.pathNode()
	if err != nil {
		return snapshot.Answer{}, err
	}
	if err := h.reads.fresh(c); err != nil {
		return snapshot.Answer{}, err
	}
	ctx, end := untilStop(c.r.Context())
	defer end()
	a, ok, err := h.tables.Of(ctx, id)
	if err == nil && !ok { // it may have come since
		if err := h.reads.catchUp(c, 0); err != nil {
			return a, err
		}
		a, ok, err = h.tables.Of(ctx, id)
	}
	var refused *snapshot.TableError
	switch {
	case errors.As(err, &refused):
		p := problem(http.StatusUnprocessableEntity, refusalCode(err), "%s", refused.Error())
		p.Errors = []resource.Fault{{Pointer: "/entries", Code: p.Code, Detail: refused.Err.Error()}}
		return a, p
	case err == nil && !ok:
		return a, nodeNotFound(id)
	}
	return a, busy(err)
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
	a, err := h.tableOf(c)
	if err != nil {
		return err
	}
	header := c.w.Header()
	header.Set("Cache-Control", "no-cache")
	// The version is not part of what the tag names: the same table stays right
	// while the log goes on.
	header.Set("ETag", "W/"+a.ETag)
	if noneMatch(c.r.Header.Values("If-None-Match"), a.ETag) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := make([]byte, 0, len(a.Body)+512)
	body = append(append(body, `{"node_id":"`...), a.Node.ID...)
	body = strconv.AppendUint(append(body, `","version":`...), a.Seq, 10)
	body = append(append(body, `,"fingerprint":"`...), a.Fingerprint.String()...)
	body = append(append(body, `",`...), a.Body...)
	if warnings := tableWarnings(a); len(warnings) > 0 {
		if body, err = appendMember(body, "warnings", warnings); err != nil {
			return err
		}
	}
	if refused := showRefused(a.Refused); refused != nil {
		if body, err = appendMember(body, "refused", refused); err != nil {
			return err
		}
	}
	c.bytes(http.StatusOK, mediaJSON, append(body, '}'))
	return nil
}

// tableWarnings are where the lack of an address was taken for any: one of the
// node's own a policy, of which the first rule stands for the others, and one of
// the table's members.
func tableWarnings(a snapshot.Answer) []resource.Fault {
	var out []resource.Fault
	if n := len(a.Unaddressed); n > 0 {
		out = append(out, resource.Fault{
			Pointer: "/identities", Code: CodeNoAddress,
			Detail: fmt.Sprintf("%d peers, the first %s, have no addresses and are taken to lie in every CIDR of the table; register their addresses", n, slices.Min(a.Unaddressed)),
		})
	}
	last := ""
	for _, x := range a.Assumed {
		if x.Rule.Policy == last {
			continue
		}
		last = x.Rule.Policy
		out = append(out, resource.Fault{
			Pointer: fmt.Sprintf("/policies/%s/rules/%d", x.Rule.Policy, x.Rule.Index), Code: CodeNoAddress,
			Detail: fmt.Sprintf("node %s has no addresses, so it is taken to lie in %s and every other CIDR of the policy; register its addresses", a.Node.ID, x.CIDR),
		})
	}
	return out
}

// flow is the question of an explain.
type flow struct {
	direction datapath.Direction
	peer      string
	protocol  datapath.Protocol
	port      uint16
}

func (c *call) flow() (f flow, err error) {
	q := c.r.URL.Query()
	port, err := c.queryUint("port", 0)
	if err != nil {
		return f, err
	}
	if q.Get("port") != "" && port == 0 {
		return f, broken(http.StatusBadRequest, CodeBadParameter, "/port", "port 0 is none of a flow; ports are 1 to 65535")
	}
	f.port = uint16(port)
	var faults policy.Violations
	note := func(name, code, detail string) {
		faults = append(faults, policy.Violation{Pointer: "/" + name, Code: code, Detail: detail})
	}
	for _, name := range []string{"direction", "peer", "protocol"} {
		if q.Get(name) == "" {
			note(name, policy.CodeMissing, name+" is required")
		}
	}
	f.peer = q.Get("peer")
	if s := q.Get("direction"); s != "" {
		if f.direction, err = datapath.ParseDirection(s); err != nil {
			note("direction", CodeUnknownDirection, err.Error())
		}
	}
	known := false
	if s := q.Get("protocol"); s != "" {
		if f.protocol, err = datapath.ParseProtocol(s); err != nil || f.protocol == datapath.AnyProtocol {
			note("protocol", policy.CodeUnknownProtocol, fmt.Sprintf("%.32q is not the protocol of a flow; use tcp, udp, sctp or icmp", s))
		} else {
			known = true
		}
	}
	switch hasPorts := f.protocol != datapath.ICMP; {
	case port > 65535:
		note("port", policy.CodePortOutOfRange, fmt.Sprintf("%d is not a port; ports are 1 to 65535", port))
	case !known:
	case port == 0 && hasPorts:
		note("port", policy.CodePortsRequired, f.protocol.String()+" needs a port")
	case port != 0 && !hasPorts:
		note("port", policy.CodePortsForbidden, f.protocol.String()+" has no ports; remove it")
	}
	if len(faults) > 0 {
		return f, invalid(faults)
	}
	return f, nil
}

func (h *tableHandlers) explain(c *call) error {
	a, err := h.tableOf(c)
	if err != nil {
		return err
	}
	f, err := c.flow()
	if err != nil {
		return err
	}
	peer, ok := a.Find(f.peer)
	if !ok {
		return problem(http.StatusNotFound, CodePeerNotFound, "%.80q is neither a node of the project nor an address", f.peer)
	}
	out := resource.FlowVerdict{Considered: []resource.Considered{}, Refused: showRefused(a.Refused)}
	steps, decided := a.Walk(f.direction, peer.ID, f.protocol, f.port)
	for _, s := range steps {
		out.Considered = append(out.Considered, resource.Considered{RuleRef: *showRef(s.Rule.Ref), Matched: s.Matched, Reason: s.Reason})
	}
	entry, found := a.Lookup(f.direction, peer.ID, f.protocol, f.port)
	out.Verdict = datapath.Deny.String()
	if found {
		shown := showEntry(entry)
		out.Entry, out.Rule, out.Verdict = &shown, shown.Rule, shown.Verdict
	}
	if !decided {
		out.Reason = byDefault(a.DefaultVerdict(f.direction), f.direction, len(steps))
	}
	return c.json(http.StatusOK, out)
}

func byDefault(v datapath.Verdict, d datapath.Direction, asked int) string {
	switch {
	case asked == 0:
		return fmt.Sprintf("no rule of the node is about %s: all of it is allowed", d)
	case v == datapath.Allow:
		return fmt.Sprintf("no rule decides, and no policy closes %s: it is allowed", d)
	}
	return fmt.Sprintf("no rule decides, and the node has rules about %s: it is denied", d)
}

func showRef(r datapath.Ref) *resource.RuleRef {
	return &resource.RuleRef{Policy: uuid.MustParse(r.Policy), Revision: uuid.MustParse(r.Revision), Index: r.Index}
}

func showEntry(e datapath.Entry) resource.Entry {
	out := resource.Entry{
		Direction: e.Direction.String(), Identity: uint32(e.Identity), Protocol: e.Protocol.String(),
		Port: e.Port, Prefix: e.Bits, Verdict: e.Verdict.String(), Precedence: e.Precedence,
		ProxyPort: e.ProxyPort, Auth: e.Auth.String(),
	}
	if !e.Default() {
		out.Rule = showRef(e.Rule)
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
