package api

import (
	"context"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// auditHandlers serve the log's events with who wrote them.
type auditHandlers struct {
	model auditModel
	log   interface {
		State(ctx context.Context) (streams.State, error)
	}
	trail func(ctx context.Context, after uint64, limit int) ([]Trailed, error)
	seqAt func(ctx context.Context, at time.Time) (uint64, error)

	looked int // events that one answer looks through
	// searching is who reads a window for an answer that has some of the events alone.
	searching *semaphore.Weighted
}

// auditModel says what became of events, and how policies are called.
type auditModel interface {
	rejections
	Slugs(project uuid.UUID, ids []uuid.UUID) map[uuid.UUID]string
}

// rejections lists the events that the fold rejected.
type rejections interface {
	Rejections(after uint64, limit int) ([]streams.Rejection, error)
}

// Trailed is an event as the audit reads it: without a large body, and with the headers
// alone that the audit shows.
type Trailed struct {
	streams.Message
	// Direct: no worker of the plane appended it, so its headers say of its author
	// whatever its producer likes.
	Direct bool
	// Detail is what the event gave or took that its subject does not say.
	Detail string
}

// entry is an event as the audit shows it; code is why the fold refused it, or empty.
func (h *auditHandlers) entry(m Trailed, code string) resource.AuditEntry {
	out := showAudit(m)
	if m.Direct {
		out = asClaimed(out)
	}
	out.Rejected = code
	if about, ok := wire.ParseSubject(m.Subject); ok && about.Family == policy.FamilyPolicy {
		if id, ok := parseID(about.ID); ok {
			out.Policy = h.model.Slugs(about.Project, []uuid.UUID{id})[id]
		}
	}
	return out
}

// refusedAmong are the codes of those events that the fold rejected, by log
// sequence.
func (h *auditHandlers) refusedAmong(items []Trailed) (map[uint64]string, error) {
	if len(items) == 0 {
		return nil, nil
	}
	all, err := h.model.Rejections(items[0].Seq-1, len(items))
	codes := make(map[uint64]string, len(all))
	for _, r := range all {
		codes[r.Seq] = r.Code
	}
	return codes, err
}

func showAudit(m Trailed) resource.AuditEntry {
	return resource.AuditEntry{
		Seq: m.Seq, Time: m.Time.UTC(), Subject: m.Subject, Type: m.Get(wire.HeaderCEType), EventID: m.Get(wire.HeaderCEID),
		Principal: m.Get(wire.HeaderPrincipal), CorrelationID: m.Get(wire.HeaderCorrelation),
		Detail: m.Detail,
	}
}

// asClaimed is an entry of an event that a producer appended by itself, over NATS:
// what its headers say of who caused it is the producer's word, and nobody else's.
func asClaimed(e resource.AuditEntry) resource.AuditEntry {
	e.Via = viaNATS
	e.Claimed, e.Principal = e.Principal, ""
	e.ClaimedCorrelationID, e.CorrelationID = e.CorrelationID, ""
	return e
}

// viaNATS is how events come that did not come by way of the API.
const viaNATS = "nats"
