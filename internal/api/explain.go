package api

import (
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

// flowParams name the flow that is asked about.
func flowParams() []Param {
	text := func(name, summary string, required bool, schema openapi.Schema) Param {
		return Param{Name: name, In: "query", Summary: summary, Required: required, Schema: &schema}
	}
	return []Param{
		text("direction", "Which way the flow begins, seen from the node.", true, openapi.Schema{Type: "string", Enum: []any{"egress", "ingress"}}),
		text("peer", "The other end: a node of the project, or an address.", true, openapi.Schema{Type: "string"}),
		text("protocol", "The flow's protocol.", true, openapi.Schema{Type: "string", Enum: []any{"tcp", "udp", "sctp", "icmp"}}),
		text("port", "The port at the flow's destination; of tcp, udp and sctp alone.", false, openapi.Schema{Type: "integer", Minimum: openapi.N(1), Maximum: openapi.N(65535)}),
	}
}

func explainFaults() []string {
	return []string{
		CodePeerNotFound, CodeUnknownDirection, policy.CodeMissing, policy.CodeUnknownProtocol, policy.CodePortsRequired,
		policy.CodePortsForbidden, policy.CodePortOutOfRange,
	}
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
	f.port, f.peer = uint16(port), q.Get("peer")
	var faults policy.Violations
	note := func(name, code, detail string) {
		faults = append(faults, policy.Violation{Pointer: "/" + name, Code: code, Detail: detail})
	}
	for _, name := range []string{"direction", "peer", "protocol"} {
		if q.Get(name) == "" {
			note(name, policy.CodeMissing, name+" is required")
		}
	}
	if s := q.Get("direction"); s != "" {
		if f.direction, err = datapath.ParseDirection(s); err != nil {
			note("direction", CodeUnknownDirection, err.Error())
		}
	}
	f.setProtocol(q.Get("protocol"), q.Get("port") != "", port, note)
	if len(faults) > 0 {
		return f, invalid(faults)
	}
	return f, nil
}

// setProtocol reads the protocol, and notes what is wrong with it and with a port
// beside it.
func (f *flow) setProtocol(text string, given bool, port uint64, note func(name, code, detail string)) {
	known := false
	if text != "" {
		var err error
		f.protocol, err = datapath.ParseProtocol(text)
		if known = err == nil && f.protocol != datapath.AnyProtocol; !known {
			note("protocol", policy.CodeUnknownProtocol, fmt.Sprintf("%.32q is not the protocol of a flow; use tcp, udp, sctp or icmp", text))
		}
	}
	switch hasPorts := f.protocol != datapath.ICMP; {
	case given && (port == 0 || port > 65535):
		note("port", policy.CodePortOutOfRange, fmt.Sprintf("%d is not a port; ports are 1 to 65535", port))
	case !known:
	case port == 0 && hasPorts:
		note("port", policy.CodePortsRequired, f.protocol.String()+" needs a port")
	case port != 0 && !hasPorts:
		note("port", policy.CodePortsForbidden, f.protocol.String()+" has no ports; remove it")
	}
}

func (h *tableHandlers) explain(c *call) error {
	id, err := c.pathNode()
	if err != nil {
		return err
	}
	if err := h.reads.node(c, id); err != nil {
		return err
	}
	audit, err := c.audit()
	if err != nil {
		return err
	}
	f, err := c.flow() // before the table, which may be much work
	if err != nil {
		return err
	}
	a, list, err := h.listOf(c, audit)
	if err != nil {
		return err
	}
	peer, ok := a.Find(f.peer)
	if !ok {
		return problem(http.StatusNotFound, CodePeerNotFound, "%.80q is neither a node of the project nor an address", f.peer)
	}
	return tagged(c, verdictOf(a, list, f, peer.ID))
}

// verdictOf says what the table does with a flow, and which rules were asked.
func verdictOf(a snapshot.Answer, list nodeList, f flow, peer datapath.ID) resource.FlowVerdict {
	steps, decided := a.Walk(f.direction, peer, f.protocol, f.port)
	out := resource.FlowVerdict{Considered: list.considered(f.direction, steps, decided), Warnings: list.warnings, Refused: showRefused(a.Refused)}
	entry, found := a.Lookup(f.direction, peer, f.protocol, f.port)
	out.Verdict = datapath.Deny.String()
	if found {
		shown := showEntry(entry)
		out.Entry, out.Verdict = &shown, shown.Verdict
	}
	if decided { // by the rule of the entry: the look-up answers as the walk
		rule := list.place(steps[len(steps)-1].Rule)
		out.Rule = &rule
		return out
	}
	otherwise := list.byDefault(a, f.direction)
	out.Default, out.Reason = &otherwise, byDefault(a, f.direction, len(steps))
	return out
}

func byDefault(a snapshot.Answer, d datapath.Direction, asked int) string {
	v := a.DefaultVerdict(d)
	switch {
	case a.Closed():
		return "no rule decides, and only plain policies match the node, or none: it is denied"
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
