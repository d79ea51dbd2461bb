package api

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/compiler/lint"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

// sides are the nodes that each side of a selector matches, ascending by id.
type sides struct{ source, destination []projector.Member }

// previewHandlers say what a revision would do.
type previewHandlers struct {
	model interface {
		OverlappingPolicies(project uuid.UUID, sel policy.Selector, but uuid.UUID) ([]policy.Policy, error)
		Touched(project uuid.UUID, sels ...policy.Selector) *projector.Touched
		Slugs(project uuid.UUID, ids []uuid.UUID) map[uuid.UUID]string
	}
	reads     *reads
	admission *draftAdmission
	tables    *snapshot.Tables
}

func (h *previewHandlers) routes() []Route {
	return []Route{
		{
			Method: http.MethodPost, Pattern: patternPolicy + "/dry-run", ID: "dryRunPolicy", Tag: "revisions", Needs: access.EditPolicy,
			Summary:  "Say what a revision would do, and write nothing",
			BodyType: mediaJSON, Body: resource.Preview{},
			Answers:  jsonAnswer(http.StatusOK, resource.DryRun{}, headerWarning),
			Problems: readProblems(bodyProblems(ruleFaults(authorFaults(CodePolicyNotFound)...)...)...),
			serve:    h.dryRun,
		},
		{
			Method: http.MethodPost, Pattern: patternPolicies + ":dry-run", ID: "dryRunNewPolicy", Tag: "revisions", Needs: access.EditPolicy,
			Summary:  "Say what a policy that does not exist yet would do, and write nothing",
			BodyType: mediaJSON, Body: resource.NewPreview{},
			Answers:  jsonAnswer(http.StatusOK, resource.DryRun{}, headerWarning),
			Problems: bodyProblems(ruleFaults(authorFaults(policy.CodeInvalidSlug, policy.CodeInvalidDisplayName)...)...),
			serve:    h.dryRunNew,
		},
	}
}

// dryRun compares with the head of a policy.
func (h *previewHandlers) dryRun(c *call) error {
	project, id, err := c.pathIDs("policy")
	if err != nil {
		return err
	}
	content, err := decoded(c, policy.DecodePreview)
	if err != nil {
		return err
	}
	named := policy.Draft{Content: content} // admission policies judge it as they would the change
	err = h.reads.check(c, func(v *projector.View) error {
		pol, err := livePolicy(v, project, id)
		named.Slug, named.DisplayName = pol.Slug, pol.DisplayName
		return err
	})
	if err != nil {
		return err
	}
	return h.preview(c, project, id, named, func(v *projector.View) (policy.Revision, error) {
		pol, err := livePolicy(v, project, id)
		return pol.Head, err
	})
}

// dryRunNew compares with nothing: the policy does not exist yet.
func (h *previewHandlers) dryRunNew(c *call) error {
	project, err := c.pathID("project")
	if err != nil {
		return err
	}
	d, err := decoded(c, policy.DecodeNewPreview)
	if err != nil {
		return err
	}
	return h.preview(c, project, uuid.Nil, d, func(*projector.View) (policy.Revision, error) { return policy.Revision{}, nil })
}

// preview answers what would change if a draft came after the revision that
// before reads. That of a policy which does not exist is without rules, and
// matches nobody.
func (h *previewHandlers) preview(c *call, project, id uuid.UUID, d policy.Draft, before func(v *projector.View) (policy.Revision, error)) error {
	d, result, err := h.admission.draft(c, project, d, true)
	if err != nil {
		return err
	}
	content := d.Content
	var head policy.Revision
	var had, has sides
	err = h.reads.check(c, func(v *projector.View) (err error) {
		if head, err = before(v); err != nil {
			return err
		}
		if len(head.Rules) > 0 {
			had.source, had.destination = v.Match(project, head.Selector)
		}
		has.source, has.destination = v.Match(project, content.Selector)
		return nil
	})
	if err != nil {
		return err
	}
	warnings, flows, err := h.judge(c.r.Context(), project, id, head.Content(), content, has)
	if err != nil {
		return err
	}
	out := showDryRun(head.Content(), content, had, has)
	out.Admission, out.Warnings, out.Flows = admissionEffect(result, content), warningsOf(warnings), &flows
	return c.json(http.StatusOK, out)
}

// warningsParam asks a write for the warnings of a dry run.
var warningsParam = queryFlag("warnings", "Add the warnings that a dry run would have given. They are found before the write, and may take as long as the dry run.")

// before are the warnings of a revision that is about to be written, if the request
// asks for them.
func (h *previewHandlers) before(c *call, e policy.RevisionCreated) ([]resource.Warning, error) {
	if asked, err := c.queryFlag("warnings"); !asked || err != nil {
		return nil, err
	}
	content := e.Revision.Content()
	var has sides
	h.reads.model.Read(func(v *projector.View) { has.source, has.destination = v.Match(e.Project, content.Selector) })
	ctx, end := untilStop(c.r.Context())
	defer end()
	var found []lint.Warning
	err := h.tables.Share(ctx, e.Project, func(proceed func() error) (err error) {
		found, err = h.warnings(e.Project, e.Policy, content, has, proceed)
		found = append(lint.Content(content), found...)
		return err
	})
	return warningsOf(found), busy(err)
}

// showDryRun shows the change from one content to another, of which the nodes are
// had and has.
func showDryRun(before, after policy.Content, had, has sides) resource.DryRun {
	out := resource.DryRun{
		RuleDiff:           Compare(before, after),
		PeerPairsAffected:  pairsAffected(had, has, sameRules(before, after)),
		MatchedNodeIDs:     []string{},
		UnreachableNodeIDs: []string{},
	}
	for m := range union(has.source, has.destination) {
		out.MatchedNodeIDs = append(out.MatchedNodeIDs, string(m.ID))
		if !m.Addressed {
			out.UnreachableNodeIDs = append(out.UnreachableNodeIDs, string(m.ID))
		}
	}
	return out
}

// warnings are what a content says and likely does not mean beside the other
// policies of the nodes that it matches, and to those nodes.
func (h *previewHandlers) warnings(project, id uuid.UUID, content policy.Content, matched sides, proceed func() error) (found []lint.Warning, err error) {
	overlapping, err := h.model.OverlappingPolicies(project, content.Selector, id)
	if err != nil {
		return nil, err
	}
	others := make([]*lint.Policy, len(overlapping))
	for i, o := range overlapping {
		if err := proceed(); err != nil {
			return nil, err
		}
		others[i] = lint.NewPolicy(o.Slug, o.Head.Content())
	}
	if found, err = lint.Overlapping(lint.NewPolicy("", content), others, proceed); err != nil {
		return nil, err
	}
	missed, err := untouched(h.reads.model, content, matched, proceed)
	if err != nil {
		return nil, err
	}
	foreseen, err := h.foresee(project, id, content, proceed)
	return slices.Concat(found, h.nobody(project, matched), missed, foreseen), err
}

// nobody warns of a selector that matches no node, where the project has any.
func (h *previewHandlers) nobody(project uuid.UUID, matched sides) (found []lint.Warning) {
	if len(matched.source)+len(matched.destination) > 0 {
		return nil
	}
	h.reads.model.Read(func(v *projector.View) {
		if projector.QuotasOf(v).Of(project, time.Time{}).Used.Nodes > 0 {
			found = []lint.Warning{lint.MatchesNone()}
		}
	})
	return found
}

// foresee warns of what a content would do to the nodes that it matches.
func (h *previewHandlers) foresee(project, id uuid.UUID, content policy.Content, proceed func() error) (found []lint.Warning, err error) {
	touched := h.model.Touched(project, content.Selector)
	defer func() { err = errors.Join(err, touched.Close()) }()
	seen, err := h.tables.Foresee(touched, id, content, proceed)
	for d, direction := range []string{"egress", "ingress"} {
		if n := seen.Closed[d]; n.Count > 0 {
			found = append(found, lint.DirectionClosed(direction, lint.Nodes(n)))
		}
		if n := seen.Opened[d]; n.Count > 0 && !content.Order.NoDefaultDeny { // else its author said so
			found = append(found, lint.DirectionOpened(direction, lint.Nodes(n)))
		}
	}
	if seen.Refused.Count > 0 {
		found = append(found, lint.TooManyEntries(lint.Nodes(seen.Refused), seen.Why))
	}
	if seen.LeftOut.Count > 0 {
		found = append(found, lint.BlockTooLarge(lint.Nodes(seen.LeftOut)))
	}
	return found, err
}

func warningsOf(found []lint.Warning) []resource.Warning {
	out := make([]resource.Warning, 0, len(found))
	for _, w := range found {
		out = append(out, resource.Warning{Fault: resource.Fault(w.Violation), Policy: w.Policy})
	}
	return out
}

// sameRules reports whether two contents ask the same of a pair of nodes. Where
// one is ordered, the author's order is part of what it asks.
func sameRules(a, b policy.Content) bool {
	if a.Order != b.Order || a.Order.Ordered() && !slices.Equal(a.Rules, b.Rules) {
		return false
	}
	return compiler.Compile(a.Rules).Fingerprint == compiler.Compile(b.Rules).Fingerprint
}

// pairsAffected counts the (source node, destination node) pairs of two
// different nodes whose rules a change alters. The pairs of a selector are the
// product of its sides, and the pairs of two selectors the product of the
// sides' intersections, so sets are counted and pairs never listed. Under
// equal rules a pair changes when it is in one product alone, else when it is
// in either.
func pairsAffected(before, after sides, sameRules bool) uint64 {
	both := sides{
		source:      intersection(before.source, after.source),
		destination: intersection(before.destination, after.destination),
	}
	n := before.pairs() + after.pairs() - both.pairs()
	if sameRules {
		n -= both.pairs()
	}
	return n
}

// pairs of two different nodes.
func (s sides) pairs() uint64 {
	self := len(intersection(s.source, s.destination))
	return uint64(len(s.source))*uint64(len(s.destination)) - uint64(self)
}

// intersection of two lists that ascend by id.
func intersection(a, b []projector.Member) []projector.Member {
	var out []projector.Member
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].ID < b[0].ID:
			a = a[1:]
		case a[0].ID > b[0].ID:
			b = b[1:]
		default:
			out = append(out, a[0])
			a, b = a[1:], b[1:]
		}
	}
	return out
}

// union yields the members of two lists that ascend by id, each once.
func union(a, b []projector.Member) func(yield func(projector.Member) bool) {
	return func(yield func(projector.Member) bool) {
		for len(a) > 0 || len(b) > 0 {
			var m projector.Member
			switch {
			case len(b) == 0 || len(a) > 0 && a[0].ID < b[0].ID:
				m, a = a[0], a[1:]
			case len(a) == 0 || b[0].ID < a[0].ID:
				m, b = b[0], b[1:]
			default:
				m, a, b = a[0], a[1:], b[1:]
			}
			if !yield(m) {
				return
			}
		}
	}
}
