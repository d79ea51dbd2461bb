package api

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/compiler/lint"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

// judge says what a content likely does not mean, and what becomes of flows. There
// may be many policies and nodes, so a project takes its turn.
func (h *previewHandlers) judge(ctx context.Context, project, id uuid.UUID, before, content policy.Content, matched sides) (found []lint.Warning, flows resource.FlowChanges, err error) {
	err = h.tables.Share(ctx, project, func(proceed func() error) (err error) {
		if found, err = h.warnings(project, id, content, matched, proceed); err != nil {
			return err
		}
		found = append(lint.Content(content), found...)
		flows, err = h.compareFlows(project, id, before, content, proceed)
		return err
	})
	return found, flows, busy(err)
}

// compareFlows says what becomes of flows when a content takes the place of another,
// which is without rules where the policy does not exist yet.
func (h *previewHandlers) compareFlows(project, id uuid.UUID, before, after policy.Content, proceed func() error) (out resource.FlowChanges, err error) {
	selectors := []policy.Selector{after.Selector}
	if len(before.Rules) > 0 {
		selectors = append(selectors, before.Selector)
	}
	touched := h.model.Touched(project, selectors...)
	defer func() { err = errors.Join(err, touched.Close()) }()
	done, err := h.tables.Compare(touched, id, after, proceed)
	if err != nil {
		return out, err
	}
	return showFlowChanges(done, h.model.Slugs(project, decidingPolicies(done))), nil
}

// decidingPolicies are those whose rules decide what is shown.
func decidingPolicies(done snapshot.Comparison) (ids []uuid.UUID) {
	for _, x := range done.Examples {
		for _, v := range []datapath.Value{x.Before, x.After} {
			if !v.Default() {
				ids = append(ids, uuid.MustParse(v.Rule.Policy))
			}
		}
	}
	return ids
}

func showFlowChanges(done snapshot.Comparison, slugs map[uuid.UUID]string) resource.FlowChanges {
	out := resource.FlowChanges{
		Nodes: showNodeCount(done.Nodes), Changed: showNodeCount(done.Changed), Skipped: showNodeCount(done.Skipped),
		Compared: done.Flows, Denied: done.Denied, Allowed: done.Allowed, Altered: done.Altered, Sampled: done.Sampled,
		Examples: make([]resource.FlowChange, len(done.Examples)),
	}
	for i, x := range done.Examples {
		out.Examples[i] = resource.FlowChange{
			NodeID: string(x.Node), Direction: x.Direction.String(), Peer: x.Peer, Protocol: x.Protocol.String(), Port: x.Port,
			Before: showDecision(x.Before, slugs), After: showDecision(x.After, slugs),
		}
	}
	return out
}

func showNodeCount(n snapshot.SomeNodes) resource.NodeCount {
	out := resource.NodeCount{Count: n.Count, First: make([]string, len(n.First)), AtLeast: n.More}
	for i, id := range n.First {
		out.First[i] = string(id)
	}
	return out
}

func showDecision(v datapath.Value, slugs map[uuid.UUID]string) resource.FlowDecision {
	out := resource.FlowDecision{Verdict: v.Verdict.String(), ProxyPort: v.ProxyPort, Auth: v.Auth.String()}
	if !v.Default() {
		out.Rule = &resource.FlowRule{Slug: slugs[uuid.MustParse(v.Rule.Policy)], Index: v.Rule.Index}
	}
	return out
}
