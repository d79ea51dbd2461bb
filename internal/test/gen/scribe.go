package gen

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Event is one message for the log: where it goes, its id (the Nats-Msg-Id)
// and its body.
type Event struct {
	Subject string
	ID      string
	Type    string
	Body    []byte
}

// Scribe writes steps down as events of the log. It keeps what a producer must
// know: which id a slug has now and which revision is its head. Ids and times
// follow from the seed and the number of events written.
type Scribe struct {
	Project string
	g       *Gen
	written int
	heads   map[string]head // by slug
}

type head struct {
	policy, revision string
	staged           string // a revision that is staged or under way
	waves            int    // of its rollout
}

// NewScribe writes for one project.
func NewScribe(project string, seed uint64) *Scribe {
	return &Scribe{Project: project, g: New(seed ^ 0x5c41be), heads: map[string]head{}}
}

// Head tells the ids a slug has now; ok is false when it has none.
func (s *Scribe) Head(slug string) (policy, revision string, ok bool) {
	h, ok := s.heads[slug]
	return h.policy, h.revision, ok
}

type revisionJSON struct {
	ID       string   `json:"id"`
	ParentID *string  `json:"parent_id"`
	Selector Selector `json:"selector"`
	Order
	Rules     []Rule `json:"rules"`
	CreatedAt string `json:"created_at"`
	CreatedBy string `json:"created_by"`
	// CorrelationID is null: generated authors give none.
	CorrelationID *string `json:"correlation_id"`
}

type eventJSON struct {
	ID          string             `json:"id"`
	Type        string             `json:"type"`
	ProjectID   string             `json:"project_id"`
	PolicyID    string             `json:"policy_id,omitempty"`
	NodeID      string             `json:"node_id,omitempty"`
	Slug        string             `json:"slug,omitempty"`
	DisplayName string             `json:"display_name,omitempty"`
	Revision    *revisionJSON      `json:"revision,omitempty"`
	Labels      *map[string]string `json:"labels,omitempty"`
	Addresses   *[]string          `json:"addresses,omitempty"`
	RevisionID  string             `json:"revision_id,omitempty"`
	Waves       *[]string          `json:"waves,omitempty"`
	Applied     *int               `json:"min_applied_percent,omitempty"`
	Refused     *int               `json:"max_refused_percent,omitempty"`
	Wave        int                `json:"wave,omitempty"`
	OnRefusal   string             `json:"on_refusal,omitempty"`
	Reason      string             `json:"reason,omitempty"`
}

// Write is the event of the next step. It panics on a step that cannot follow
// the ones before it, which is a mistake of the test.
func (s *Scribe) Write(step Step) Event {
	s.written++
	e := eventJSON{ID: s.uuid(), ProjectID: s.Project}
	switch step.Kind {
	case Create, Revise:
		s.revision(&e, step)
	case Delete:
		e.Type, e.PolicyID = "policy_deleted", s.mustHead(step).policy
		delete(s.heads, step.Slug)
	case Register:
		e.Type, e.NodeID, e.Labels, e.Addresses = "node_updated", step.Node.ID, &step.Node.Labels, &step.Node.Addresses
	case Stage, Promote, Open, Stop, Abort:
		s.rollout(&e, step)
	case Remove:
		e.Type, e.NodeID = "node_removed", step.Node.ID
	}
	subject := "edict.log." + s.Project + ".node." + e.NodeID
	if e.PolicyID != "" {
		subject = "edict.log." + s.Project + ".policy." + e.PolicyID
	}
	return Event{subject, e.ID, e.Type, marshal(e)}
}

// WriteAll is Write for each step.
func (s *Scribe) WriteAll(steps []Step) []Event {
	events := make([]Event, len(steps))
	for i, step := range steps {
		events[i] = s.Write(step)
	}
	return events
}

func (s *Scribe) revision(e *eventJSON, step Step) {
	r := s.revisionOf(step)
	h := head{policy: s.uuid(), revision: r.ID}
	if step.Kind == Revise {
		old := s.mustHead(step)
		h.policy, r.ParentID = old.policy, &old.revision
	}
	s.heads[step.Slug] = h
	e.Type, e.PolicyID, e.Slug, e.DisplayName, e.Revision = "policy_revision_created", h.policy, step.Slug, step.Policy.DisplayName, r
}

// revisionOf is a revision of the step's policy, without a parent.
func (s *Scribe) revisionOf(step Step) *revisionJSON {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).Add(time.Duration(s.written) * time.Second)
	return &revisionJSON{
		ID: s.uuid(), Selector: step.Policy.Selector, Order: step.Policy.Order, Rules: step.Policy.Rules,
		CreatedAt: now.Format(time.RFC3339), CreatedBy: "gen",
	}
}

func (s *Scribe) mustHead(step Step) head {
	h, ok := s.heads[step.Slug]
	if !ok {
		panic("gen: cannot " + step.String() + ": no such policy")
	}
	return h
}

// uuid is a version 7 UUID whose time part is the number of events written.
func (s *Scribe) uuid() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], (0x019000000000+uint64(s.written))<<16|0x7000|s.g.r.Uint64()&0x0fff)
	binary.BigEndian.PutUint64(b[8:], s.g.r.Uint64()>>2|0x8000000000000000)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
