// Package resource is the JSON that travels between the plane's HTTP API and
// its clients: resources, pages and problems, and nothing that computes. The
// server writes these types and the client reads them, so that the two cannot
// drift apart.
package resource

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Page is one page of a list. NextCursor is nil on the last one.
type Page[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

// Items is a list that is never cut into pages.
type Items[T any] struct {
	Items []T `json:"items"`
}

// Ports is an inclusive range of ports.
type Ports struct {
	From uint16 `json:"from"`
	To   uint16 `json:"to"`
}

// Rule is one line of a policy, as its author writes it. A side is a CIDR or a
// selector.
type Rule struct {
	Action              string `json:"action"`
	Protocol            string `json:"protocol"`
	SourceCIDR          string `json:"source_cidr,omitempty"`
	DestinationCIDR     string `json:"destination_cidr,omitempty"`
	Ports               *Ports `json:"ports,omitempty"`
	SourceSelector      string `json:"source_selector,omitempty"`
	DestinationSelector string `json:"destination_selector,omitempty"`
	ProxyPort           uint16 `json:"proxy_port,omitempty"`
	ListenerPriority    uint8  `json:"listener_priority,omitempty"`
	Auth                string `json:"auth,omitempty"`
}

// Order is where a revision's rules stand among those of other policies. What is
// empty or nil is not set.
type Order struct {
	Tier        string  `json:"tier,omitempty"`
	Priority    *uint32 `json:"priority,omitempty"`
	DefaultDeny *bool   `json:"default_deny,omitempty"`
}

// Selector names the nodes that take part in a policy, a side each.
type Selector struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
}

// Draft is what an author sends to create a policy.
type Draft struct {
	Slug        string   `json:"slug"`
	DisplayName string   `json:"display_name,omitempty"`
	Selector    Selector `json:"selector"`
	Order
	Rules []Rule `json:"rules"`
}

// NewOrder is an Order whole: what is nil is set no longer.
type NewOrder struct {
	Tier        *string `json:"tier"`
	Priority    *uint32 `json:"priority"`
	DefaultDeny *bool   `json:"default_deny"`
}

// Whole is o with what it does not set said.
func (o Order) Whole() *NewOrder {
	whole := &NewOrder{Priority: o.Priority, DefaultDeny: o.DefaultDeny}
	if o.Tier != "" {
		whole.Tier = &o.Tier
	}
	return whole
}

// Patch is what an author sends to revise a policy; what is nil stays as it
// is. ExpectedRevisionID makes the change conditional on the head.
type Patch struct {
	DisplayName        *string    `json:"display_name,omitempty"`
	Selector           *Selector  `json:"selector,omitempty"`
	*NewOrder                     // nil: as it is
	Rules              []Rule     `json:"rules,omitzero"`
	ExpectedRevisionID *uuid.UUID `json:"expected_revision_id,omitempty"`
}

// Preview is what an author sends to a dry run.
type Preview struct {
	Selector Selector `json:"selector"`
	Order
	Rules []Rule `json:"rules"`
}

// Policy is the aggregate. Head is nil in lists. The times are log timestamps.
type Policy struct {
	ID             uuid.UUID `json:"id"`
	ProjectID      uuid.UUID `json:"project_id"`
	Slug           string    `json:"slug"`
	DisplayName    string    `json:"display_name"`
	HeadRevisionID uuid.UUID `json:"head_revision_id"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
	Head           *Revision `json:"head,omitempty"`
}

// Revision is one published state of a policy.
type Revision struct {
	ID       uuid.UUID  `json:"id"`
	PolicyID uuid.UUID  `json:"policy_id"`
	ParentID *uuid.UUID `json:"parent_id"`
	Selector Selector   `json:"selector"`
	Order
	Rules         []Rule    `json:"rules"`
	CreatedAt     time.Time `json:"created_at"`
	CreatedBy     string    `json:"created_by"`
	CorrelationID *string   `json:"correlation_id"`
}

// Diff is the change between two revisions, as far as it is about rules. The
// parts are in canonical order. Rules that match the same and do something else
// are Modified.
type Diff struct {
	Added    []Rule     `json:"added"`
	Removed  []Rule     `json:"removed"`
	Modified []Modified `json:"modified"`
	// Order is nil where both stand at the same place among other policies.
	Order *OrderChange `json:"order,omitempty"`
	// Reordered: the rules of an ordered policy are the same and decide in another
	// order.
	Reordered bool `json:"reordered,omitempty"`
}

// Empty reports whether the revisions say the same.
func (d Diff) Empty() bool {
	return len(d.Added)+len(d.Removed)+len(d.Modified) == 0 && d.Order == nil && !d.Reordered
}

// OrderChange is another place among the rules of other policies.
type OrderChange struct {
	Before Order `json:"before"`
	After  Order `json:"after"`
}

// Modified is one rule that does something else than before.
type Modified struct {
	Before Rule `json:"before"`
	After  Rule `json:"after"`
}

// DryRun is what a revision would do, were it published now.
type DryRun struct {
	MatchedNodeIDs     []string `json:"matched_node_ids"`
	RuleDiff           Diff     `json:"rule_diff"`
	PeerPairsAffected  uint64   `json:"peer_pairs_affected"`
	UnreachableNodeIDs []string `json:"unreachable_node_ids"`
	Warnings           []Fault  `json:"warnings"`
	// Admission is what admission policies made of it; nil when nothing.
	Admission *AdmissionEffect `json:"admission,omitempty"`
}

// AdmissionEffect is a policy as admission policies patched it.
type AdmissionEffect struct {
	Status          string   `json:"status"`
	SnapshotVersion uint64   `json:"snapshot_version"`
	Selector        Selector `json:"selector"`
	Order
	Rules []Rule `json:"rules"`
}

// Facts are what a node is registered with.
type Facts struct {
	Labels    map[string]string `json:"labels"`
	Addresses []string          `json:"addresses"`
}

// NodeLine is one line of a batch of nodes.
type NodeLine struct {
	ID        string            `json:"id"`
	Labels    map[string]string `json:"labels"`
	Addresses []string          `json:"addresses"`
}

// Node is a registered node. Version is the log sequence of the event that
// gave it its present facts.
type Node struct {
	ID        string            `json:"id"`
	ProjectID uuid.UUID         `json:"project_id"`
	Labels    map[string]string `json:"labels"`
	Addresses []string          `json:"addresses"`
	Version   uint64            `json:"version"`
}

// BatchResult says what became of the lines of a batch of nodes.
type BatchResult struct {
	Applied   int            `json:"applied"`
	Unchanged int            `json:"unchanged"`
	Rejected  []RejectedLine `json:"rejected"`
}

// RejectedLine is a line that changed nothing; lines count from 1. ID is empty
// when the line was too broken to name one.
type RejectedLine struct {
	Line   int    `json:"line"`
	ID     string `json:"id"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// NodeState is a node's whole desired state. Edict fills Policy, the other
// members keep their places for whoever will own them.
type NodeState struct {
	Peers        []json.RawMessage `json:"peers"`
	Reachability json.RawMessage   `json:"reachability"`
	Policy       *NodePolicy       `json:"policy"`
	Bridge       json.RawMessage   `json:"bridge"`
	State        json.RawMessage   `json:"state"`
	Reports      json.RawMessage   `json:"reports"`
	Executions   []json.RawMessage `json:"executions"`
	Sessions     json.RawMessage   `json:"sessions"`
}

// NodePolicy is a node's merged policy block: of all policies that match it,
// by ascending policy id.
type NodePolicy struct {
	RevisionID   uuid.UUID `json:"revision_id"`
	Fingerprint  string    `json:"fingerprint"`
	Rules        []Rule    `json:"rules"`
	RulesOmitted int       `json:"rules_omitted,omitempty"` // that the contract cannot express
}

// Ruleset is one policy's compiled rules on one node. RulePayload is verbatim:
// its SHA-256 is the fingerprint.
type Ruleset struct {
	PolicyID    uuid.UUID `json:"policy_id"`
	RevisionID  uuid.UUID `json:"revision_id"`
	Fingerprint string    `json:"fingerprint"`
	RulePayload string    `json:"rule_payload"`
	CompiledAt  time.Time `json:"compiled_at"`
}

// Rejection is an event of the log that the fold refused.
type Rejection struct {
	Seq        uint64    `json:"seq"`
	Subject    string    `json:"subject"`
	EventID    string    `json:"event_id"`
	Type       string    `json:"type"`
	Code       string    `json:"code"`
	Detail     string    `json:"detail"`
	Violations []Fault   `json:"violations,omitempty"`
	Time       time.Time `json:"time"`
}

// Key is a public key of the plane, current or still trusted.
type Key struct {
	KeyID     string     `json:"key_id"`
	Alg       string     `json:"alg"`
	Plane     string     `json:"plane"`
	PublicKey string     `json:"public_key"` // base64 of the raw 32 bytes
	Status    string     `json:"status"`     // current or previous
	NotAfter  *time.Time `json:"not_after"`
}

// Status is the plane as its operator sees it from one worker.
type Status struct {
	Head       uint64      `json:"head"`
	Applied    uint64      `json:"applied"`
	Log        LogStatus   `json:"log"`
	Workers    []Worker    `json:"workers"`
	Partitions []Partition `json:"partitions"`
	Rejected   uint64      `json:"rejected"`
	Nodes      int         `json:"nodes"`
	Identities int         `json:"identities"`
	Policies   int         `json:"policies"`
	Past       Past        `json:"past"`
	Shares     Shares      `json:"shares"`
	Durability string      `json:"durability"`
	Digest     string      `json:"digest,omitempty"` // 64 hex digits, of the state at Applied
	// Convergence is nil while the worker has not read what nodes reported.
	Convergence *Convergence `json:"convergence,omitempty"`
}

// Shares are what projects took of the log lately.
type Shares struct {
	Limit uint64 `json:"limit"` // bytes of a project in Hours; 0: any number
	Hours int    `json:"hours"`
	Over  int    `json:"over"` // how many projects have had theirs
	// Projects are all that are over, and of the others those that took most, up to
	// 20 together if fewer are over; the largest first.
	Projects []Share `json:"projects"`
}

// Share is what one project took of the log.
type Share struct {
	Project string `json:"project_id"`
	Bytes   uint64 `json:"bytes"`
	Over    bool   `json:"over"` // its writes are refused, but for deletions
}

// LogStatus is the log's birth and its size on disk.
type LogStatus struct {
	Created time.Time `json:"created"`
	Bytes   uint64    `json:"bytes"`
	NATS    string    `json:"nats,omitempty"` // where NATS clients reach it; empty: nowhere
}

// Worker is one process that folds the log.
type Worker struct {
	Name    string    `json:"name"`
	Owner   string    `json:"owner"` // of this process start
	HTTP    string    `json:"http"`  // host:port of its API; empty: it serves none
	Started time.Time `json:"started"`
	Applied uint64    `json:"applied"`
	Lag     uint64    `json:"lag"`
}

// Partition is who publishes to a part of the nodes on NATS, and how far.
type Partition struct {
	ID        int    `json:"id"`
	Publisher string `json:"publisher"` // the worker's name; empty: nobody
	UpTo      uint64 `json:"upto"`      // log sequence up to which it is published
}

// Past is how far back this worker can say what nodes missed.
type Past struct {
	From    uint64 `json:"from"` // who resumes at this log sequence or below pulls; 0: nobody
	Records int    `json:"records"`
	Bytes   int    `json:"bytes"`
	Dropped uint64 `json:"dropped"` // records dropped for want of room since the start
}

// Readiness is the verbose answer of /readyz.
type Readiness struct {
	Status string  `json:"status"` // ready
	Checks []Check `json:"checks"`
}

// Check is one thing a worker needs in order to serve.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, failed or info
	Detail string `json:"detail,omitempty"`
}
