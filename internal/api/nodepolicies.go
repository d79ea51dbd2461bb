package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

// enforcements are what nodes' lists are made of.
type enforcements interface {
	Enforcement(id policy.NodeID) (*projector.Enforcement, bool, error)
	Slugs(project uuid.UUID, ids []uuid.UUID) map[uuid.UUID]string
}

// nodeList is the rules of a node's policies in the order in which they are tried,
// egress first, with those that do not apply to the node.
type nodeList struct {
	lines    []datapath.Line
	slugs    map[uuid.UUID]string
	warnings []resource.Fault
}

func (h *tableHandlers) policies(c *call) error {
	all, err := c.queryFlag("all")
	if err != nil {
		return err
	}
	a, list, err := h.listOf(c, false)
	if err != nil {
		return err
	}
	out := resource.NodePolicies{
		NodeID: string(a.Node.ID), Version: a.Seq, Lines: []resource.NodeRule{}, Warnings: list.warnings, Refused: showRefused(a.Refused),
	}
	for _, d := range []datapath.Direction{datapath.Egress, datapath.Ingress} {
		out.Defaults = append(out.Defaults, list.byDefault(a, d))
	}
	for i := range list.lines {
		if l := &list.lines[i]; all || l.Why == "" {
			out.Lines = append(out.Lines, resource.NodeRule{
				Direction: l.Direction.String(), PlacedRule: list.place(&l.Rule), Applies: l.Why == "", Reason: l.Why,
			})
		}
	}
	return tagged(c, out)
}

// listOf is the table of the node in the path, and the list that it is made of. A
// policy may change between the two: then both are read again.
func (h *tableHandlers) listOf(c *call, audit bool) (a snapshot.Answer, list nodeList, err error) {
	const attempts = 3
	for range attempts {
		if a, err = h.tableOf(c, audit); err != nil {
			return a, list, err
		}
		list = listIn(a.Table)
		if a.Refused != nil { // it enforces what its policies said before
			break
		}
		written, err := h.written(c.r.Context(), a, audit)
		if err != nil {
			return a, list, err
		}
		if written.agrees(list) {
			list = written
			break
		}
	}
	list.warnings = append(h.assumptions(a), list.warnings...)
	list.slugs = h.model.Slugs(a.Node.Project, list.policies())
	return a, list, nil
}

// listIn is what a table is made of.
func listIn(t *snapshot.Table) (list nodeList) {
	for _, d := range []datapath.Direction{datapath.Egress, datapath.Ingress} {
		for _, r := range t.Rules(d) {
			list.lines = append(list.lines, datapath.Line{Rule: *r})
		}
	}
	return list
}

// fewPolicies are so few that reading them waits for no turn.
const fewPolicies = 32

// written is what the policies that match a node say now. Where there are many of
// them, the project takes its turn.
func (h *tableHandlers) written(ctx context.Context, a snapshot.Answer, audit bool) (list nodeList, err error) {
	ctx, end := untilStop(ctx)
	defer end()
	list, all, err := h.heads(a.Node.ID, audit, fewPolicies, func() error { return context.Cause(ctx) })
	if err == nil && !all {
		err = h.tables.Share(ctx, a.Node.Project, func(proceed func() error) (err error) {
			list, _, err = h.heads(a.Node.ID, audit, math.MaxInt, proceed)
			return err
		})
	}
	return list, busy(err)
}

// heads reads the heads of the policies that match a node, in audit all of them as if
// they were in force; all is false where there are more than most.
func (h *tableHandlers) heads(id policy.NodeID, audit bool, most int, proceed func() error) (list nodeList, all bool, err error) {
	e, ok, err := h.model.Enforcement(id)
	if err != nil || !ok {
		return list, true, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if len(e.Matched) > most {
		return list, false, nil
	}
	ids := make([]uuid.UUID, len(e.Matched))
	for i, ref := range e.Matched {
		ids[i] = ref.Policy
	}
	slugs, heads := h.model.Slugs(e.Node.Project, ids), make([]datapath.Head, 0, len(e.Matched))
	for _, ref := range e.Matched {
		if err := proceed(); err != nil {
			return list, true, err
		}
		r, err := e.Revision(ref)
		if err != nil {
			return list, true, err
		}
		head := datapath.Head{Policy: ref.Policy, Revision: r}
		if audit {
			head = head.Enforced()
		}
		heads = append(heads, head)
	}
	plain := datapath.Plain(heads)
	for _, h := range heads {
		if datapath.NewReach(h.Revision.Content()).Misses(e.Node, plain) {
			list.warnings = append(list.warnings, outside(e.Node, h.Policy.String(), slugs[h.Policy]))
		}
	}
	list.lines = datapath.Lines(e.Node, heads)
	return list, true, nil
}

// agrees reports whether the node enforces the rules of another list, in its order, each
// in the same direction.
func (l nodeList) agrees(o nodeList) bool {
	type enforced struct {
		datapath.Direction
		datapath.Ref
	}
	of := func(lines []datapath.Line) (all []enforced) {
		for i := range lines {
			if lines[i].Why == "" {
				all = append(all, enforced{lines[i].Direction, lines[i].Ref})
			}
		}
		return all
	}
	return slices.Equal(of(l.lines), of(o.lines))
}

// policies are the ids that the rules name, some more than once.
func (l nodeList) policies() (ids []uuid.UUID) {
	last := ""
	for i := range l.lines {
		if id := l.lines[i].Ref.Policy; id != last {
			last, ids = id, append(ids, uuid.MustParse(id))
		}
	}
	return ids
}

// place shows a rule of the list.
func (l nodeList) place(r *datapath.Rule) resource.PlacedRule {
	ref := showRef(r.Ref)
	return resource.PlacedRule{RuleRef: *ref, Slug: l.slugs[ref.Policy], Tier: r.Tier.String(), Priority: r.Priority, Text: r.String()}
}

// byDefault is the default of a direction, and for which policies it denies.
func (l nodeList) byDefault(a snapshot.Answer, d datapath.Direction) resource.Default {
	out := resource.Default{Direction: d.String(), Verdict: a.DefaultVerdict(d).String(), Policies: []resource.PolicyRef{}}
	for i := range l.lines {
		line := &l.lines[i]
		if line.Why != "" || line.Direction != d || !line.ClosesDefault() {
			continue
		}
		id := uuid.MustParse(line.Ref.Policy)
		if ref := (resource.PolicyRef{Policy: id, Slug: l.slugs[id]}); !slices.Contains(out.Policies, ref) {
			out.Policies = append(out.Policies, ref)
		}
	}
	return out
}

// considered are the steps of a walk, among the rules that do not apply to the node.
func (l nodeList) considered(d datapath.Direction, steps []datapath.Step, decided bool) []resource.Considered {
	out := []resource.Considered{}
	for i := range l.lines {
		line := &l.lines[i]
		switch {
		case line.Direction != d:
			continue
		case line.Why != "":
			out = append(out, resource.Considered{PlacedRule: l.place(&line.Rule), Reason: "does not apply: " + line.Why})
			continue
		}
		s := steps[0]
		steps = steps[1:]
		if s.By != nil {
			s.Reason = fmt.Sprintf("skipped: rule %d of %s passed the rest of tier %s", s.By.Ref.Index, l.slugs[uuid.MustParse(s.By.Ref.Policy)], s.By.Tier)
		}
		out = append(out, resource.Considered{PlacedRule: l.place(s.Rule), Applies: true, Matched: s.Matched, Reason: s.Reason})
		if decided && len(steps) == 0 {
			break
		}
	}
	return out
}
