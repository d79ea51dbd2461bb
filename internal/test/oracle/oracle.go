// Package oracle recomputes, the slow and obvious way, what the plane must say
// about a node: its rows and the merged policy block of its state.
//
// It takes the accepted events as raw JSON in log order and shares nothing with
// the code it judges: its own selector matcher (strings and maps), its own
// canonical order (a sort of text keys), its own JSON printing, its own hash.
// It answers from the present facts alone, so two histories that end in the
// same facts must give the same answer. Whether an event is accepted is not its
// question: hand it what the fold applied, and it returns an error for anything
// it does not understand rather than guess.
package oracle

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Row is one Compiled Ruleset: what one policy asks of one node.
type Row struct {
	Policy      string
	Revision    string
	Fingerprint string // base64 std of sha256(Payload), 44 characters
	Payload     string // the canonical rule list as compact JSON
	// Said is the part of Payload that an announcement tells, and Omitted how many
	// rules it leaves out. Its fingerprint is of what is told.
	Said    string
	Omitted int
}

// EmptyFingerprint is the Fingerprint of the payload "[]".
const EmptyFingerprint = "T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="

// Plane holds the present facts. The zero value knows nothing.
type Plane struct {
	policies map[string]facts
	trials   map[string]*trial // of policies
	nodes    map[string]node
}

type facts struct {
	project, revision, payload string
	sayable                    string // the part of payload that a state can say
	omitted                    int    // rules of payload that it leaves out
	ordered                    bool   // it has a tier, a priority or a default
	source, destination        []clause
}

type node struct {
	project string
	labels  map[string]string
}

type event struct {
	Type      string            `json:"type"`
	ProjectID string            `json:"project_id"`
	PolicyID  string            `json:"policy_id"`
	NodeID    string            `json:"node_id"`
	Labels    map[string]string `json:"labels"`
	Revision  struct {
		ID string `json:"id"`
		Body
	} `json:"revision"`
	Waves     []string `json:"waves"`
	OnRefusal string   `json:"on_refusal"`
}

// Body is the part of a policy that decides what nodes apply, as HTTP requests
// and revisions in the log both spell it.
type Body struct {
	Selector struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	} `json:"selector"`
	Rules []Rule `json:"rules"`
	// Of ordered policies; absent: not set.
	Tier        json.RawMessage `json:"tier,omitempty"`
	Priority    json.RawMessage `json:"priority,omitempty"`
	DefaultDeny json.RawMessage `json:"default_deny,omitempty"`
	Mode        string          `json:"mode,omitempty"` // audit: no rule is in force
}

// Rule is a rule as its author wrote it.
type Rule struct {
	Action          string `json:"action"`
	Protocol        string `json:"protocol"`
	SourceCIDR      string `json:"source_cidr"`
	DestinationCIDR string `json:"destination_cidr"`
	Ports           *struct {
		From int `json:"from"`
		To   int `json:"to"`
	} `json:"ports"`
	SourceSelector      string `json:"source_selector"`
	DestinationSelector string `json:"destination_selector"`
	ProxyPort           int    `json:"proxy_port"`
	ListenerPriority    int    `json:"listener_priority"`
	Auth                string `json:"auth"`
	Direction           string `json:"direction"`
}

// Apply folds one accepted event.
func (p *Plane) Apply(body []byte) error {
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return fmt.Errorf("oracle: %w", err)
	}
	switch e.Type {
	case "policy_revision_created":
		return p.SetPolicy(e.ProjectID, e.PolicyID, e.Revision.ID, e.Revision.Body)
	case "policy_deleted":
		p.DeletePolicy(e.PolicyID)
	case "policy_revision_staged", "policy_revision_promoted", "policy_wave_opened", "policy_rollout_stopped", "policy_rollout_aborted":
		return p.rollout(e)
	case "node_updated":
		p.SetNode(e.ProjectID, e.NodeID, e.Labels)
	case "node_removed":
		delete(p.nodes, e.NodeID)
	case "signing_key_rotated", "project_quota_updated", "project_archived", "project_restored": // no fact of a policy or a node
	default:
		return fmt.Errorf("oracle: an event of type %q is not for me", e.Type)
	}
	return nil
}

// SetPolicy makes body the head revision of a policy, new or not. It serves
// tests that write over HTTP and learn the ids from the answer.
func (p *Plane) SetPolicy(project, id, revision string, body Body) error {
	f, err := factsOf(project, revision, body)
	if err != nil {
		return err
	}
	if p.policies == nil {
		p.policies = map[string]facts{}
	}
	p.policies[id] = f
	return nil
}

func factsOf(project, revision string, body Body) (f facts, err error) {
	source, err := parse(body.Selector.Source)
	if err != nil {
		return f, err
	}
	destination, err := parse(body.Selector.Destination)
	if err != nil {
		return f, err
	}
	if body.Mode == "audit" {
		body.Rules = nil
	}
	payload, err := Payload(body.Rules)
	if err != nil {
		return f, err
	}
	said, rest := split(body.Rules)
	sayable, err := Payload(said)
	if err != nil {
		return f, err
	}
	unsaid, err := Payload(rest)
	if err != nil {
		return f, err
	}
	return facts{project, revision, payload, sayable, strings.Count(unsaid, `"action":`), body.ordered(), source, destination}, nil
}

// ordered reports whether the body says where its rules stand among those of others,
// or what becomes of flows that none decides.
func (b Body) ordered() bool { return len(b.Tier)+len(b.Priority)+len(b.DefaultDeny)+len(b.Mode) > 0 }

// DeletePolicy forgets a policy.
func (p *Plane) DeletePolicy(id string) {
	delete(p.policies, id)
	delete(p.trials, id)
}

// SetNode states a node's project and labels, whole.
func (p *Plane) SetNode(project, id string, labels map[string]string) {
	if p.nodes == nil {
		p.nodes = map[string]node{}
	}
	p.nodes[id] = node{project, labels}
}

// RemoveNode forgets a node.
func (p *Plane) RemoveNode(id string) { delete(p.nodes, id) }

// Nodes lists the ids of all nodes, ascending.
func (p *Plane) Nodes() []string {
	ids := []string{}
	for id := range p.nodes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Rows are a node's rows, policy id ascending: one for each policy of its
// project that has the node's labels on either side of its selector. A node
// that is not there has none.
func (p *Plane) Rows(id string) []Row {
	if _, ok := p.nodes[id]; !ok {
		return nil
	}
	rows := []Row{}
	for pid := range p.policies {
		for _, r := range p.row(id, pid) {
			if r.Payload != "[]" { // else the policy is in audit mode
				rows = append(rows, r)
			}
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Policy, b.Policy) })
	return rows
}

// row is a node's row of one policy, if it has one.
func (p *Plane) row(node, id string) []Row {
	n, there := p.nodes[node]
	pol, known := p.says(id, n.labels)
	if !there || !known || pol.project != n.project || !holds(pol.source, n.labels) && !holds(pol.destination, n.labels) {
		return nil
	}
	return []Row{{id, pol.revision, Fingerprint(pol.payload), pol.payload, pol.sayable, pol.omitted}}
}

// Block is the merged policy block of a node's state: an object, or null when
// the node has no rows.
func (p *Plane) Block(id string) string {
	rows := p.Rows(id)
	if len(rows) == 0 {
		return "null"
	}
	stream, rules, omitted := "", []string{}, 0
	for _, r := range rows {
		pol, _ := p.says(r.Policy, p.nodes[id].labels)
		stream += pol.sayable
		omitted += pol.omitted
		if inner := pol.sayable[1 : len(pol.sayable)-1]; inner != "" {
			rules = append(rules, inner)
		}
	}
	counted := ""
	if omitted > 0 {
		counted = fmt.Sprintf(`,"rules_omitted":%d`, omitted)
	}
	return `{"revision_id":"` + rows[0].Revision + `","fingerprint":"` + Fingerprint(stream) +
		`","rules":[` + strings.Join(rules, ",") + `]` + counted + `}`
}

// MayConflict reports whether the rules of a node allow something and deny something,
// or are of ordered policy.
func (p *Plane) MayConflict(id string) bool {
	allows, denies := false, false
	for _, r := range p.Rows(id) {
		pol, _ := p.says(r.Policy, p.nodes[id].labels)
		if pol.ordered || pol.omitted > 0 {
			return true
		}
		allows = allows || strings.Contains(pol.payload, `"action":"allow"`)
		denies = denies || strings.Contains(pol.payload, `"action":"deny"`)
	}
	return allows && denies
}

// State is the whole body of GET /v1/nodes/{id}/state; ok is false for a node
// that is not there.
func (p *Plane) State(id string) (body string, ok bool) {
	if _, ok := p.nodes[id]; !ok {
		return "", false
	}
	return `{"peers":[],"reachability":null,"policy":` + p.Block(id) +
		`,"bridge":null,"state":null,"reports":null,"executions":[],"sessions":null}`, true
}

// Fingerprint is the text form of sha256(payload).
func Fingerprint(payload string) string {
	sum := sha256.Sum256([]byte(payload))
	return base64.StdEncoding.EncodeToString(sum[:])
}
