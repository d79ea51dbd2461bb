package oracle

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Court says, from subject and body alone, which events of projects the fold
// accepts, and with which code it rejects the others. It is handed every event of
// the log, in its order. Of what makes an event of a project invalid it knows the
// grammar of labels, addresses and of rules between two CIDRs; a revision that has
// anything of ordered policy it takes for valid.
type Court struct {
	policies map[string]*policyCase
	slugs    map[[2]string]string // project and slug → the policy that lives there
	nodes    map[string]*nodeCase
}

type policyCase struct {
	project, slug, head string
	deleted             bool
	revisions           map[string]bool
	rollout             *rolloutCase    // nil: nothing is staged or under way
	moves               map[string]bool // events about rollouts that were applied
}

type nodeCase struct {
	project string
	present bool
	last    string   // the event that gave it its facts
	before  []string // those that were applied before it, oldest first
}

// claim is an event as far as a court reads it.
type claim struct {
	ID              string           `json:"id"`
	Type            string           `json:"type"`
	ProjectID       string           `json:"project_id"`
	PolicyID        string           `json:"policy_id"`
	NodeID          string           `json:"node_id"`
	Slug            string           `json:"slug"`
	DisplayName     string           `json:"display_name"`
	ExpectedVersion json.RawMessage  `json:"expected_version"`
	Labels          *json.RawMessage `json:"labels"`
	Addresses       *json.RawMessage `json:"addresses"`
	Revision        json.RawMessage  `json:"revision"`
	RevisionID      string           `json:"revision_id"`
	Waves           []string         `json:"waves"`
	Applied         int              `json:"min_applied_percent"`
	Refused         int              `json:"max_refused_percent"`
	Wave            int              `json:"wave"`
	Gated           bool             `json:"gated"`
	OnRefusal       string           `json:"on_refusal"`
	Reason          string           `json:"reason"`
}

// Judge is the code that an event of a project is rejected with; "" when it is
// accepted, or met again. judged is false for events that are not of a project's
// policies or nodes.
func (c *Court) Judge(subject string, body []byte) (code string, judged bool) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 5 || tokens[3] != "policy" && tokens[3] != "node" {
		return "", false
	}
	var kind struct {
		Type *string `json:"type"`
	}
	if json.Unmarshal(body, &kind) != nil || kind.Type == nil {
		return "undecodable", true
	}
	family := map[string]string{
		"policy_revision_created": "policy", "policy_deleted": "policy", "node_updated": "node", "node_removed": "node",
		"policy_revision_staged": "policy", "policy_revision_promoted": "policy", "policy_wave_opened": "policy",
		"policy_rollout_stopped": "policy", "policy_rollout_aborted": "policy",
	}[*kind.Type]
	if family == "" {
		return "unknown_type", true
	}
	var e claim
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if d.Decode(&e) != nil {
		return "undecodable", true
	}
	if family != tokens[3] || e.ProjectID != tokens[2] || e.PolicyID+e.NodeID != tokens[4] {
		return "subject_mismatch", true
	}
	if family == "node" {
		return c.node(e), true
	}
	if e.Type != "policy_revision_created" && e.Type != "policy_deleted" {
		return c.rollout(e), true
	}
	return c.policy(e), true
}

// node judges an event of a node: ids are unique in the plane, and none of the last
// seventeen events is applied again.
func (c *Court) node(e claim) (code string) {
	n := c.nodes[e.NodeID]
	valid := e.Type == "node_removed" || labelsHold(e.Labels) && addressesHold(e.Addresses)
	switch {
	case n == nil && !valid:
		return "invalid"
	case n == nil && e.Type == "node_removed":
		return ""
	case n == nil:
		n = &nodeCase{project: e.ProjectID}
		if c.nodes == nil {
			c.nodes = map[string]*nodeCase{}
		}
		c.nodes[e.NodeID] = n
	case n.project != e.ProjectID:
		return "node_id_taken"
	case n.last == e.ID, e.Type == "node_removed" && !n.present:
		return ""
	case slices.Contains(n.before[max(0, len(n.before)-16):], e.ID):
		return "stale_event"
	case !valid:
		return "invalid"
	}
	if n.last != "" {
		n.before = append(n.before, n.last)
	}
	n.present, n.last = e.Type == "node_updated", e.ID
	return ""
}

// revisionClaim is what a court reads of a revision.
type revisionClaim struct {
	ID       string           `json:"id"`
	ParentID *string          `json:"parent_id"`
	Tier     json.RawMessage  `json:"tier"`
	Priority json.RawMessage  `json:"priority"`
	Default  json.RawMessage  `json:"default_deny"`
	Mode     json.RawMessage  `json:"mode"`
	Rules    []map[string]any `json:"rules"`
}

// holds reports whether its rules are what they may be. Those of ordered policy are
// taken as they are.
func (r *revisionClaim) holds() bool {
	return r.Tier != nil || r.Priority != nil || r.Default != nil || r.Mode != nil || rulesHold(r.Rules)
}

// policy judges an event of a policy: a revision follows the head it names, and a
// slug is one living policy's.
func (c *Court) policy(e claim) (code string) {
	p := c.policies[e.PolicyID]
	if p != nil && p.project != e.ProjectID {
		return "policy_not_owned"
	}
	if e.Type == "policy_deleted" {
		if p != nil && !p.deleted {
			p.deleted, p.rollout = true, nil
			delete(c.slugs, [2]string{p.project, p.slug})
		}
		return ""
	}
	var r revisionClaim
	if json.Unmarshal(e.Revision, &r) != nil {
		return "undecodable"
	}
	slot := [2]string{e.ProjectID, e.Slug}
	holder, held := c.slugs[slot]
	switch {
	case p != nil && p.revisions[r.ID]:
		return ""
	case !r.holds():
		return "invalid"
	case p == nil && r.ParentID != nil:
		return "revision_conflict"
	case p != nil && r.ParentID == nil:
		return "policy_id_used"
	case p != nil && (p.deleted || *r.ParentID != p.head):
		return "revision_conflict"
	case p != nil && p.rollout.underWay():
		return "rollout_under_way"
	case held && holder != e.PolicyID:
		return "policy_slug_taken"
	}
	if p == nil {
		p = &policyCase{project: e.ProjectID, revisions: map[string]bool{}}
		if c.policies == nil {
			c.policies, c.slugs = map[string]*policyCase{}, map[[2]string]string{}
		}
		c.policies[e.PolicyID] = p
	}
	delete(c.slugs, [2]string{p.project, p.slug})
	p.slug, p.head, p.revisions[r.ID] = e.Slug, r.ID, true
	c.slugs[slot] = e.PolicyID
	return ""
}

var (
	labelKey   = regexp.MustCompile(`^([a-z0-9:]([-a-z0-9.:]{0,251}[a-z0-9:])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_./:]{0,254}[A-Za-z0-9])?)?$`)
)

func labelsHold(raw *json.RawMessage) bool {
	var labels map[string]string
	if raw == nil || json.Unmarshal(*raw, &labels) != nil || len(labels) > 64 {
		return false
	}
	for k, v := range labels {
		if !labelKey.MatchString(k) || !labelValue.MatchString(v) {
			return false
		}
	}
	return true
}

func addressesHold(raw *json.RawMessage) bool {
	var all []string
	if raw == nil || json.Unmarshal(*raw, &all) != nil || len(all) > 64 {
		return false
	}
	for _, a := range all {
		if ip, err := netip.ParseAddr(a); err != nil || ip.Zone() != "" || ip.Is4In6() {
			return false
		}
	}
	return true
}

// rulesHold reads rules between two CIDRs: both masked and of one family, ports
// where tcp and udp have them. A rule that is more than that holds.
func rulesHold(rules []map[string]any) bool {
	if len(rules) < 1 || len(rules) > 1024 {
		return false
	}
	for _, r := range rules {
		for member := range r {
			if !slices.Contains([]string{"action", "protocol", "source_cidr", "destination_cidr", "ports"}, member) {
				return true
			}
		}
		action, _ := r["action"].(string)
		protocol, _ := r["protocol"].(string)
		if action == "redirect" || action == "pass" || protocol == "sctp" {
			return true
		}
		from, ok := prefix(r["source_cidr"])
		to, too := prefix(r["destination_cidr"])
		ports, has := r["ports"].(map[string]any)
		want := protocol == "tcp" || protocol == "udp"
		if !slices.Contains([]string{"allow", "deny", "log"}, action) || !want && protocol != "icmp" && protocol != "any" ||
			!ok || !too || from.Addr().Is4() != to.Addr().Is4() || has != want {
			return false
		}
		first, _ := ports["from"].(float64)
		last, _ := ports["to"].(float64)
		if has && (first < 1 || last > 65535 || first > last) {
			return false
		}
	}
	return true
}

func prefix(v any) (netip.Prefix, bool) {
	text, _ := v.(string)
	p, err := netip.ParsePrefix(text)
	return p, err == nil && p == p.Masked()
}
