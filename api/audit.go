package api

import (
	"net/http"

	"github.com/edictdev/edict/access"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
)

func auditRoutes() []Route {
	return []Route{{
		Method: http.MethodGet, Pattern: "/v1/audit", ID: "listAudit", Tag: tagAccess, Needs: access.ReadPlane, early: true,
		Summary: "List the events of the log with who wrote them, oldest first",
		Params: []Param{
			limitParam,
			querySeq("after", "Those above this log sequence; next_cursor is one."),
		},
		Answers: jsonAnswer(http.StatusOK, resource.Page[resource.AuditEntry]{}), Problems: []string{CodeLogUnavailable},
		serve: (*plane).listAudit,
	}}
}

// listAudit reads the log itself: nothing between it and the answer could leave
// an event out.
func (p *plane) listAudit(c *call) error {
	limit, err := c.limit()
	if err != nil {
		return err
	}
	after, err := c.queryUint("after", 0)
	if err != nil {
		return err
	}
	if p.Trail == nil {
		return problem(http.StatusServiceUnavailable, CodeLogUnavailable, "this worker does not read the log for others")
	}
	items, err := p.Trail(c.r.Context(), after, limit+1)
	if err != nil {
		return problem(http.StatusServiceUnavailable, CodeLogUnavailable, "the log cannot be read: %v", err)
	}
	refused, err := p.refusedAmong(items)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, pageBySeq(items, limit, func(m streams.Message) uint64 { return m.Seq }, func(m streams.Message) resource.AuditEntry {
		out := showAudit(m)
		out.Rejected = refused[m.Seq]
		return out
	}))
}

// refusedAmong are the codes of those events that the fold rejected, by log
// sequence.
func (p *plane) refusedAmong(items []streams.Message) (map[uint64]string, error) {
	if len(items) == 0 {
		return nil, nil
	}
	all, err := p.Model.Rejections(items[0].Seq-1, len(items))
	codes := make(map[uint64]string, len(all))
	for _, r := range all {
		codes[r.Seq] = r.Code
	}
	return codes, err
}

func showAudit(m streams.Message) resource.AuditEntry {
	return resource.AuditEntry{
		Seq: m.Seq, Time: m.Time.UTC(), Subject: m.Subject, Type: m.Get("ce-type"), EventID: m.Get("ce-id"),
		Principal: m.Get(streams.HeaderPrincipal), CorrelationID: m.Get(streams.HeaderCorrelation),
		Detail: auditDetail(m),
	}
}

// auditDetail is what an event gave or took that its subject does not say.
func auditDetail(m streams.Message) string {
	switch m.Get("ce-type") {
	case policy.TypeRelationWritten, policy.TypeRelationRemoved, policy.TypeKeyRotated:
	default:
		return "" // and spare the reading of what may be large
	}
	e, _ := policy.Decode(m.Body) // whoever appends may append anything
	switch e := e.(type) {
	case policy.RelationWritten:
		return e.Relation.String()
	case policy.RelationRemoved:
		return e.Relation.String()
	case policy.KeyRotated:
		return e.Previous + " to " + e.Key
	}
	return ""
}
