// Package resource is the JSON that travels between the plane's HTTP API and
// its clients: resources, pages and problems, and nothing that computes. The
// server writes these types and the client reads them, so that the two cannot
// drift apart. The doc tag of a field is its description in the OpenAPI document.
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
	From uint16 `json:"from" doc:"The first port."`
	To   uint16 `json:"to" doc:"The last port, not below the first."`
}

// Rule is one line of a policy, as its author writes it. A side is a CIDR or a
// selector.
type Rule struct {
	Action              string `json:"action" doc:"What happens to the traffic. Log never decides; pass leaves it to the next tier; redirect allows it by way of the node's proxy."`
	Protocol            string `json:"protocol" doc:"The protocol the rule matches."`
	SourceCIDR          string `json:"source_cidr,omitempty" doc:"The prefix the traffic comes from, masked, of the family of the other one; absent where a selector stands in its place."`
	DestinationCIDR     string `json:"destination_cidr,omitempty" doc:"The prefix the traffic goes to, masked, of the family of the other one; absent where a selector stands in its place."`
	Ports               *Ports `json:"ports,omitempty" doc:"The ports at the destination: tcp, udp and sctp need them, icmp and any have none."`
	SourceSelector      string `json:"source_selector,omitempty" doc:"In place of source_cidr: of the nodes at the source, those that it matches. The clauses are read in any order and shown sorted."`
	DestinationSelector string `json:"destination_selector,omitempty" doc:"In place of destination_cidr: of the nodes at the destination, those that it matches. The clauses are read in any order and shown sorted."`
	ProxyPort           uint16 `json:"proxy_port,omitempty" doc:"Of a redirect, which needs one: the port of the node's proxy."`
	ListenerPriority    uint8  `json:"listener_priority,omitempty" doc:"Of a redirect: among redirects of one level the lowest wins; absent, it comes after all of them."`
	Auth                string `json:"auth,omitempty" doc:"Of an allow or a redirect: whether both ends must prove who they are. Absent, it is inherited from a broader rule of the same or a higher place."`
	Direction           string `json:"direction,omitempty" doc:"The end of a flow at which the rule is asked: egress at its source, ingress at its destination. Absent: at both."`
}

// Order is where a revision's rules stand among those of other policies. What is
// empty or nil is not set.
type Order struct {
	Tier        string  `json:"tier,omitempty"`
	Priority    *uint32 `json:"priority,omitempty"`
	DefaultDeny *bool   `json:"default_deny,omitempty" doc:"False: the policy has no part in denying what no rule matches. Absent, it is true."`
	Mode        string  `json:"mode,omitempty" doc:"Audit: no rule of the policy is in force, and nodes that can count do count what it would deny. Absent, it is enforce."`
}

// Selector names the nodes that take part in a policy, a side each.
type Selector struct {
	Source      string `json:"source" doc:"The nodes at the source: clauses k=v, k!=v, k in (a,b), k and !k, all of which hold, joined by commas."`
	Destination string `json:"destination" doc:"The nodes at the destination: clauses k=v, k!=v, k in (a,b), k and !k, all of which hold, joined by commas."`
}

// Draft is what an author sends to create a policy.
type Draft struct {
	Slug        string   `json:"slug"`
	DisplayName string   `json:"display_name,omitempty"`
	Selector    Selector `json:"selector" doc:"Whom the policy is for."`
	Order
	Rules []Rule `json:"rules"`
}

// NewOrder is an Order whole: what is nil is set no longer.
type NewOrder struct {
	Tier        *string `json:"tier"`
	Priority    *uint32 `json:"priority"`
	DefaultDeny *bool   `json:"default_deny"`
	Mode        *string `json:"mode"`
}

// Whole is o with what it does not set said.
func (o Order) Whole() *NewOrder {
	whole := &NewOrder{Priority: o.Priority, DefaultDeny: o.DefaultDeny}
	if o.Tier != "" {
		whole.Tier = &o.Tier
	}
	if o.Mode != "" {
		whole.Mode = &o.Mode
	}
	return whole
}

// Order is o without what it does not set.
func (o NewOrder) Order() Order {
	order := Order{Priority: o.Priority, DefaultDeny: o.DefaultDeny}
	if o.Tier != nil {
		order.Tier = *o.Tier
	}
	if o.Mode != nil {
		order.Mode = *o.Mode
	}
	return order
}

// Patch is what an author sends to revise a policy; what is nil stays as it
// is. ExpectedRevisionID makes the change conditional on the head.
type Patch struct {
	DisplayName        *string    `json:"display_name,omitempty"`
	Selector           *Selector  `json:"selector,omitempty" doc:"Whom the policy is for from now on."`
	*NewOrder                     // nil: as it is
	Rules              []Rule     `json:"rules,omitzero"`
	ExpectedRevisionID *uuid.UUID `json:"expected_revision_id,omitempty" doc:"The head the change was made for; another head is a conflict. Null asks for none."`
}

// Preview is what an author sends to a dry run.
type Preview struct {
	Selector Selector `json:"selector" doc:"Whom it would be for."`
	Order
	Rules []Rule `json:"rules"`
}

// NewPreview is what an author sends to a dry run of a policy that does not exist yet.
type NewPreview struct {
	Slug        string `json:"slug,omitempty" doc:"The slug that it would have, for admission policies; absent: they see none."`
	DisplayName string `json:"display_name,omitempty" doc:"The name that it would have, likewise."`
	Preview
}

// Policy is the aggregate. Head is nil in lists, which have its Order instead. The
// times are log timestamps.
type Policy struct {
	ID             uuid.UUID `json:"id" doc:"The id of the policy."`
	ProjectID      uuid.UUID `json:"project_id" doc:"The id of the project it belongs to."`
	Slug           string    `json:"slug"`
	DisplayName    string    `json:"display_name"`
	HeadRevisionID uuid.UUID `json:"head_revision_id" doc:"The id of the revision in force."`
	Order
	CreatedAt time.Time `json:"created_at" doc:"When its first revision was stored, by the log's clock."`
	UpdatedAt time.Time `json:"updated_at" doc:"When its head was stored, by the log's clock."`
	Head      *Revision `json:"head,omitempty" doc:"The revision in force."`
	Waves     *Waves    `json:"waves,omitempty" doc:"In lists and reads: the revision that is or was staged last, and how far its rollout has come. Absent when there never was one."`
	// Admission is in the answer to a write alone; nil: policies left it as it came.
	Admission *AdmissionNote `json:"admission,omitempty" doc:"What admission policies made of what was sent; in the answer to a write, absent when they left it as it was."`
	Warnings  []Warning      `json:"warnings,omitempty" doc:"In the answer to a write that asked for them: what a dry run would have warned of."`
}

// Revision is one published state of a policy.
type Revision struct {
	ID       uuid.UUID  `json:"id" doc:"The id of the revision."`
	Seq      uint64     `json:"seq,omitempty" doc:"The log sequence of the event that published or staged it; absent in the head of a policy."`
	PolicyID uuid.UUID  `json:"policy_id" doc:"The id of its policy."`
	ParentID *uuid.UUID `json:"parent_id" doc:"The id of the revision it followed; null of the first."`
	Selector Selector   `json:"selector" doc:"Whom it is for."`
	Order
	Rules         []Rule    `json:"rules"`
	CreatedAt     time.Time `json:"created_at" doc:"When its author's worker made it."`
	CreatedBy     string    `json:"created_by" doc:"Who published it."`
	CorrelationID *string   `json:"correlation_id" doc:"What its author said it belongs to."`
}

// Diff is the change between two revisions, as far as it is about rules. The
// parts are in canonical order. Rules that match the same and do something else
// are Modified.
type Diff struct {
	Added    []Rule     `json:"added" doc:"Rules of the second list alone."`
	Removed  []Rule     `json:"removed" doc:"Rules of the first list alone."`
	Modified []Modified `json:"modified" doc:"Rules that match the same and do something else."`
	// Order is nil where both stand at the same place among other policies.
	Order *OrderChange `json:"order,omitempty" doc:"Where the rules stand among those of other policies; absent when that stays."`
	// Reordered: the rules of an ordered policy are the same and decide in another
	// order.
	Reordered bool `json:"reordered,omitempty" doc:"The rules of an ordered policy stay and decide in another order."`
}

// Empty reports whether the revisions say the same.
func (d Diff) Empty() bool {
	return len(d.Added)+len(d.Removed)+len(d.Modified) == 0 && d.Order == nil && !d.Reordered
}

// OrderChange is another place among the rules of other policies.
type OrderChange struct {
	Before Order `json:"before" doc:"Where the rules stood."`
	After  Order `json:"after" doc:"Where they stand."`
}

// Modified is one rule that does something else than before.
type Modified struct {
	Before Rule `json:"before" doc:"The rule as it was."`
	After  Rule `json:"after" doc:"The rule as it became."`
}

// DryRun is what a revision would do, were it published now.
type DryRun struct {
	MatchedNodeIDs     []string  `json:"matched_node_ids" doc:"The nodes it would match, by id."`
	RuleDiff           Diff      `json:"rule_diff" doc:"What it would change in the rules of the head."`
	PeerPairsAffected  uint64    `json:"peer_pairs_affected" doc:"How many pairs of a node that the source side selects and another that the destination side selects would get other rules. It is no number of flows: those are in flows."`
	UnreachableNodeIDs []string  `json:"unreachable_node_ids" doc:"Matched nodes without an address, by id."`
	Warnings           []Warning `json:"warnings" doc:"What may be published and is likely not meant; docs/lint.md lists the codes."`
	// Flows is what would become of flows; nil where the plane does not say.
	Flows *FlowChanges `json:"flows,omitempty" doc:"What would become of flows of the nodes that it matches or matched; docs/datapath.md says which are compared."`
	// Admission is what admission policies made of it; nil when nothing.
	Admission *AdmissionEffect `json:"admission,omitempty" doc:"The policy as admission policies would patch it, which is what all else is about; absent when they leave it as it is."`
}

// AdmissionEffect is a policy as admission policies patched it.
type AdmissionEffect struct {
	Status          string   `json:"status"`
	SnapshotVersion uint64   `json:"snapshot_version" doc:"The version of the set of admission policies: the log sequence of its last change."`
	Selector        Selector `json:"selector" doc:"Whom it would be for."`
	Order
	Rules   []Rule           `json:"rules" doc:"Its rules."`
	Patches []AdmissionPatch `json:"patches,omitempty" doc:"What each policy changed, in the order of the chain."`
}

// AdmissionNote says what admission policies made of what an author sent.
type AdmissionNote struct {
	Status          string           `json:"status"`
	SnapshotVersion uint64           `json:"snapshot_version" doc:"The version of the set of admission policies: the log sequence of its last change."`
	Patches         []AdmissionPatch `json:"patches" doc:"What each policy changed, in the order of the chain."`
}

// AdmissionPatch is what one admission policy changed.
type AdmissionPatch struct {
	Policy  Deciding `json:"policy" doc:"The admission policy."`
	Changes []Change `json:"changes,omitempty" doc:"What it changed, as a JSON patch (RFC 6902)."`
	Dropped []string `json:"dropped,omitempty" doc:"JSON pointers to what of its patch was left out: a policy for every service type sets what a network policy does not have."`
}

// Change is one operation of a JSON patch.
type Change struct {
	Op    string          `json:"op" doc:"add, remove or replace."`
	Path  string          `json:"path" doc:"A JSON pointer into the policy."`
	Old   json.RawMessage `json:"old,omitempty" doc:"The value before; absent of what is added."`
	Value json.RawMessage `json:"value,omitempty" doc:"The value now; absent of what is removed."`
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
	ProjectID uuid.UUID         `json:"project_id" doc:"The id of the project it belongs to."`
	Labels    map[string]string `json:"labels"`
	Addresses []string          `json:"addresses"`
	Version   uint64            `json:"version" doc:"The log sequence of the event that gave it these facts."`
	Report    *NodeReport       `json:"report,omitempty" doc:"Where it stands with what is asked of it; absent where nobody asked for that."`
}

// BatchResult says what became of the lines of a batch of nodes.
type BatchResult struct {
	Applied   int            `json:"applied" doc:"Lines that changed a node."`
	Unchanged int            `json:"unchanged" doc:"Lines that said what was so already."`
	Rejected  []RejectedLine `json:"rejected" doc:"Lines that were refused, by number."`
}

// RejectedLine is a line that changed nothing; lines count from 1. ID is empty
// when the line was too broken to name one.
type RejectedLine struct {
	Line   int    `json:"line" doc:"Its number, from 1."`
	ID     string `json:"id" doc:"The node it is about; empty when it was too broken to name one."`
	Code   string `json:"code" doc:"Why, for programs: a code of a problem or of the fold."`
	Detail string `json:"detail" doc:"Why, for people."`
}

// NodeState is a node's whole desired state. Edict fills Policy; the
// other members are reserved.
type NodeState struct {
	Peers        []json.RawMessage `json:"peers" doc:"Empty until a part of the plane owns it."`
	Reachability json.RawMessage   `json:"reachability"`
	Policy       *NodePolicy       `json:"policy" doc:"What the node enforces; null when no policy matches it."`
	Bridge       json.RawMessage   `json:"bridge"`
	State        json.RawMessage   `json:"state"`
	Reports      json.RawMessage   `json:"reports"`
	Executions   []json.RawMessage `json:"executions" doc:"Empty until a part of the plane owns it."`
	Sessions     json.RawMessage   `json:"sessions"`
}

// NodePolicy is a node's merged policy block: of all policies that match it,
// by ascending policy id; or, where these conflict or are ordered, the node's rules in
// the order in which they decide.
type NodePolicy struct {
	RevisionID   uuid.UUID `json:"revision_id" doc:"The id of the first of the revisions."`
	Fingerprint  string    `json:"fingerprint"`
	Rules        []Rule    `json:"rules" doc:"Each policy's rules in canonical order, one policy after the other; where resolved is true, one list of which the first rule that matches decides."`
	RulesOmitted int       `json:"rules_omitted,omitempty" doc:"How many rules of the policies are left out because this block cannot express them; absent when none are. GET …/datapath has them all."` // that the contract cannot express
	Resolved     bool      `json:"resolved,omitempty" doc:"True where the rules of the node's policies conflict or are ordered: the first rule that matches decides, and the default of each direction stands at the end. Absent otherwise."`
}

// Ruleset is one policy's compiled rules on one node. RulePayload is verbatim:
// its SHA-256 is the fingerprint.
type Ruleset struct {
	PolicyID    uuid.UUID `json:"policy_id" doc:"The id of the policy."`
	RevisionID  uuid.UUID `json:"revision_id" doc:"The id of the revision it was compiled from."`
	Fingerprint string    `json:"fingerprint"`
	RulePayload string    `json:"rule_payload" doc:"The rules as compact JSON, verbatim: the text that the fingerprint is of."`
	CompiledAt  time.Time `json:"compiled_at" doc:"When that revision was stored, by the log's clock."`
}

// Rejection is an event of the log that the fold refused.
type Rejection struct {
	Seq        uint64    `json:"seq" doc:"Its log sequence."`
	Subject    string    `json:"subject" doc:"The subject it stands on."`
	EventID    string    `json:"event_id" doc:"Its own id; empty when none could be read."`
	Type       string    `json:"type" doc:"Its type; empty when none could be read."`
	Code       string    `json:"code" doc:"Why, for programs."`
	Detail     string    `json:"detail" doc:"Why, for people."`
	Violations []Fault   `json:"violations,omitempty" doc:"Every rule that it breaks, when it breaks any."`
	Time       time.Time `json:"time" doc:"When it was stored, by the log's clock."`
}

// Key is a public key of the plane, current or still trusted.
type Key struct {
	KeyID     string     `json:"key_id"`
	Alg       string     `json:"alg" doc:"What it signs with."`
	Plane     string     `json:"plane" doc:"The plane of what it signs."`
	PublicKey string     `json:"public_key" doc:"Base64 of its 32 bytes."`               // base64 of the raw 32 bytes
	Status    string     `json:"status" doc:"current signs; previous is still trusted."` // current or previous
	NotAfter  *time.Time `json:"not_after" doc:"When trust in it ends; null while it does not."`
}

// Status is the plane as its operator sees it from one worker.
type Status struct {
	Head       uint64      `json:"head" doc:"The log's last sequence."`
	Applied    uint64      `json:"applied" doc:"How far this worker has folded it."`
	Log        LogStatus   `json:"log" doc:"The log's birth and size."`
	Workers    []Worker    `json:"workers" doc:"The workers known here."`
	Partitions []Partition `json:"partitions" doc:"Who publishes to which part of the nodes on NATS, and how far."`
	Rejected   uint64      `json:"rejected" doc:"Events that the fold refused so far."`
	Nodes      int         `json:"nodes" doc:"Registered nodes."`
	Identities int         `json:"identities" doc:"Distinct label sets among them."`
	Policies   int         `json:"policies" doc:"Live policies."`
	Past       Past        `json:"past" doc:"How far back this worker can say what nodes missed."`
	Shares     Shares      `json:"shares" doc:"What projects took of the log in the last day."`
	Durability string      `json:"durability" doc:"Whether an acknowledged write survives power loss."`
	Digest     string      `json:"digest,omitempty" doc:"SHA-256 over the state at applied, when asked for."` // 64 hex digits, of the state at Applied
	// Convergence is nil while the worker has not read what nodes reported.
	Convergence *Convergence `json:"convergence,omitempty" doc:"How many nodes hold what they must; absent while this worker has not read what they reported."`
}

// Shares are what projects took of the log lately.
type Shares struct {
	Limit uint64 `json:"limit" doc:"The bytes that a project may take in so many hours before its writes are refused; 0: any number."` // bytes of a project in Hours; 0: any number
	Hours int    `json:"hours" doc:"How many hours, by the log's clock, with the one that is not over."`
	Over  int    `json:"over" doc:"How many projects have had their share."` // how many projects have had theirs
	// Projects are all that are over or shut out, and of the others those that took most, up
	// to 20 together if fewer are over; the largest first.
	Projects []Share `json:"projects" doc:"All projects that have had their share or are shut out, and of the others those that took most, up to 20 together if fewer are over; the largest first."`
}

// Share is what one project took of the log.
type Share struct {
	Project string `json:"project_id" doc:"The project."`
	Bytes   uint64 `json:"bytes" doc:"The bytes of its events, with subjects and headers."`
	Over    bool   `json:"over" doc:"Whether its writes are refused, but for deletions."` // its writes are refused, but for deletions
	// ShutOut is nil while its producers may connect.
	ShutOut *time.Time `json:"shut_out_until,omitempty" doc:"Until when this worker's embedded NATS server shuts its producers out, because they sent more than its quota lets be applied, or than the log takes; absent while it does not."`
}

// LogStatus is the log's birth, its size on disk, and how it grows.
type LogStatus struct {
	Created time.Time `json:"created" doc:"When the log was made: its identity."`
	Bytes   uint64    `json:"bytes" doc:"Its size on disk."`
	Begins  uint64    `json:"begins,omitempty" doc:"The first event that it has: its origin, if it was compacted; absent where it is not known."`
	Archive string    `json:"archive,omitempty" doc:"What the archive of the events before is called; absent where nobody named one."`
	// The rest of its growth is absent where it is not known.
	BytesPerEvent *float64 `json:"bytes_per_event,omitempty" doc:"Mean size of its events on disk; absent while it has none."`
	BytesPerDay   *uint64  `json:"bytes_per_day,omitempty" doc:"How many bytes it grows by in 24 hours: the events of the last 24, each as large as the mean of all; absent while the log is younger than an hour, or was not measured yet."`
	RoomBytes     *uint64  `json:"room_bytes,omitempty" doc:"How many bytes it may still take: until the stream's max_bytes, or until the disk of an embedded server is so full that writes are refused, whichever is less; absent where there is no limit that this worker knows of."`
	FullInSeconds *float64 `json:"full_in_seconds,omitempty" doc:"Seconds until that room is used up at that pace; absent while one of them is not known, or nothing was written for 24 hours."`
	NATS          string   `json:"nats,omitempty" doc:"URL of the NATS server that has it, without a password; absent when only this process reaches it."` // where NATS clients reach it; empty: nowhere
}

// Worker is one process that folds the log.
type Worker struct {
	Name    string    `json:"name" doc:"Its name."`
	Owner   string    `json:"owner" doc:"The id of this start of it."`                      // of this process start
	HTTP    string    `json:"http" doc:"Where its API answers; empty when it serves none."` // host:port of its API; empty: it serves none
	Started time.Time `json:"started" doc:"When it started."`
	Applied uint64    `json:"applied" doc:"How far it had folded the log in its last sign of life, seconds ago."`
	Lag     uint64    `json:"lag" doc:"How many events it was behind the log's head then."`
}

// Partition is who publishes to a part of the nodes on NATS, and how far.
type Partition struct {
	ID        int    `json:"id" doc:"Its number."`
	Publisher string `json:"publisher" doc:"The name of the worker that publishes to it on NATS; empty when nobody does."` // the worker's name; empty: nobody
	Owner     string `json:"owner,omitempty" doc:"The owner of that worker, which tells it from others of its name; absent when nobody does."`
	UpTo      uint64 `json:"upto" doc:"The log sequence up to which it is published."` // log sequence up to which it is published
}

// Published sums up how far partitions are published: how many events the publisher that is
// farthest behind had folded and not published when it was last heard of, and how many partitions
// nobody publishes. What came since a worker was heard is not late. Of a publisher that is none
// of the workers what it lacks of folded counts.
func Published(all []Partition, workers []Worker, folded uint64) (behind uint64, nobodys int) {
	said := make(map[string]uint64, len(workers))
	for _, w := range workers {
		said[w.Owner] = w.Applied
	}
	for _, p := range all {
		due, known := said[p.Owner]
		if !known || p.Owner == "" {
			due = folded
		}
		switch {
		case p.Publisher == "":
			nobodys++
		case p.UpTo < due:
			behind = max(behind, due-p.UpTo)
		}
	}
	return behind, nobodys
}

// Past is how far back this worker can say what nodes missed.
type Past struct {
	From    uint64 `json:"from" doc:"A node that resumes at this log sequence or below pulls; 0 when the past goes back to the first event."` // who resumes at this log sequence or below pulls; 0: nobody
	Records int    `json:"records" doc:"Records that it takes: of policies that left a selector, of nodes that changed labels, of artifacts that were withdrawn."`
	Bytes   int    `json:"bytes" doc:"What they take, about."`
	Dropped uint64 `json:"dropped" doc:"Records dropped since the start because --past-bytes was reached; those older than --past are not counted."` // records dropped for want of space since the start
}

// Readiness is the verbose answer of /readyz.
type Readiness struct {
	Status string  `json:"status" doc:"ready: a worker that is not answers with a problem."` // ready
	Checks []Check `json:"checks" doc:"What the worker needs in order to serve."`
}

// Check is one thing a worker needs in order to serve.
type Check struct {
	Name   string `json:"name" doc:"What is checked."`
	Status string `json:"status" doc:"info is information only and does not make the worker unready."` // ok, failed or info
	Detail string `json:"detail,omitempty" doc:"Why it failed, or what it tells."`
}
