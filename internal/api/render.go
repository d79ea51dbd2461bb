package api

import (
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// showPolicy is a policy with its head hydrated, which says where it stands.
func showPolicy(p policy.Policy) resource.Policy {
	out := listPolicy(p)
	out.Order = resource.Order{}
	head := showRevision(p.ID, p.Head)
	out.Head = &head
	return out
}

// listPolicy is a policy as lists show it.
func listPolicy(p policy.Policy) resource.Policy {
	return resource.Policy{
		ID:             p.ID,
		ProjectID:      p.Project,
		Slug:           p.Slug,
		DisplayName:    p.DisplayName,
		HeadRevisionID: p.Head.ID,
		Order:          showOrder(p.Head.Order),
		CreatedAt:      p.CreatedAt.UTC(),
		UpdatedAt:      p.UpdatedAt.UTC(),
	}
}

func showRevision(of uuid.UUID, r policy.Revision) resource.Revision {
	out := resource.Revision{
		ID:        r.ID,
		PolicyID:  of,
		Selector:  showSelector(r.Selector),
		Order:     showOrder(r.Order),
		Rules:     showRules(r.Rules),
		CreatedAt: r.CreatedAt.UTC(),
		CreatedBy: r.CreatedBy,
	}
	if r.Parent != uuid.Nil {
		out.ParentID = &r.Parent
	}
	if r.CorrelationID != "" {
		out.CorrelationID = &r.CorrelationID
	}
	return out
}

func showSelector(s policy.Selector) resource.Selector {
	return resource.Selector{Source: s.Source.String(), Destination: s.Destination.String()}
}

func showOrder(o policy.Order) resource.Order {
	out := resource.Order{Tier: string(o.Tier)}
	if o.Priority.Set {
		out.Priority = &o.Priority.N
	}
	if deny := false; o.NoDefaultDeny {
		out.DefaultDeny = &deny
	}
	if o.Audit {
		out.Mode = string(policy.Audit)
	}
	return out
}

func showRules(rules []policy.Rule) []resource.Rule {
	out := make([]resource.Rule, 0, len(rules))
	for _, r := range rules {
		out = append(out, showRule(r))
	}
	return out
}

func showRule(r policy.Rule) resource.Rule {
	out := resource.Rule{
		Action:              string(r.Action),
		Protocol:            string(r.Protocol),
		SourceCIDR:          string(policy.AppendCIDR(nil, r.Source)),
		DestinationCIDR:     string(policy.AppendCIDR(nil, r.Destination)),
		SourceSelector:      r.SourceSelector,
		DestinationSelector: r.DestinationSelector,
		ProxyPort:           r.ProxyPort,
		ListenerPriority:    r.ListenerPriority,
		Auth:                string(r.Auth),
		Direction:           string(r.Direction),
	}
	if r.Ports != (policy.Ports{}) {
		out.Ports = &resource.Ports{From: r.Ports.From, To: r.Ports.To}
	}
	return out
}

// Compare says how to come from the rules of one content to those of the other,
// as a diff over HTTP does.
func Compare(from, to policy.Content) resource.Diff {
	d := compiler.Compare(from.Rules, to.Rules)
	out := resource.Diff{
		Added:    showRules(d.Added),
		Removed:  showRules(d.Removed),
		Modified: make([]resource.Modified, 0, len(d.Modified)),
	}
	for _, m := range d.Modified {
		out.Modified = append(out.Modified, resource.Modified{Before: showRule(m.Before), After: showRule(m.After)})
	}
	if from.Order != to.Order {
		out.Order = &resource.OrderChange{Before: showOrder(from.Order), After: showOrder(to.Order)}
	}
	out.Reordered = d.Empty() && from.Order.Ordered() && to.Order.Ordered() && !slices.Equal(from.Rules, to.Rules)
	return out
}

func showNode(n projector.NodeInfo) resource.Node {
	out := resource.Node{
		ID:        string(n.ID),
		ProjectID: n.Project,
		Labels:    n.Labels.Map(),
		Addresses: make([]string, 0, len(n.Addresses)),
		Version:   n.Version,
	}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	for _, a := range n.Addresses {
		out.Addresses = append(out.Addresses, a.String())
	}
	return out
}
