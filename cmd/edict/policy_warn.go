package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/internal/compiler/lint"
	"github.com/edictdev/edict/policy"
)

// maxCompared is how many drafts apply has compared with the project's policies:
// each costs a dry run.
const maxCompared = 32

// maxWarnings is how many warnings apply prints; of more, the first of each code.
const maxWarnings = 10

// draftWarning is a warning with the place of its draft.
type draftWarning struct {
	lint.Warning
	place string
}

// warn looks for the warnings of drafts, tells them, and counts them.
func (a policyCommands) warn(ctx context.Context, c *client.Client, project uuid.UUID, drafts []author.Draft, all bool) (warnings int, err error) {
	found, err := warningsOf(ctx, c, project, drafts)
	a.tellWarnings(found, all)
	return len(found), err
}

// tellWarnings writes warnings to standard error, all of them or those that tell enough.
func (a *console) tellWarnings(found []draftWarning, all bool) {
	count := map[string]int{}
	var codes []string
	for _, w := range found {
		if count[w.Code]++; count[w.Code] == 1 {
			codes = append(codes, w.Code)
		}
		if all || len(found) <= maxWarnings || count[w.Code] == 1 {
			fmt.Fprintf(a.stderr, "%s: warning: %s: %s (%s)\n", w.place, w.Pointer, w.Detail, w.Code)
		}
	}
	if !all && len(found) > maxWarnings {
		for i, code := range codes {
			codes[i] = fmt.Sprintf("%d %s", count[code], code)
		}
		fmt.Fprintf(a.stderr, "%d warnings, of which the first of each code is shown: %s; --warnings shows all\n", len(found), strings.Join(codes, ", "))
	}
}

// warningsOf are the warnings of drafts. Each draft is looked at alone, with the
// other drafts, and with the policies of the project.
func warningsOf(ctx context.Context, c *client.Client, project uuid.UUID, drafts []author.Draft) (warnings []draftWarning, err error) {
	var theirs []dryRun
	if len(drafts) <= maxCompared {
		if theirs, err = dryRuns(ctx, c, project, drafts); err != nil {
			theirs = nil
		}
	}
	var all []*lint.Policy
	for _, d := range drafts {
		all = append(all, lint.NewPolicy(d.Slug, d.Content))
	}
	for i, d := range drafts {
		overlapping, stopped := lint.Overlapping(all[i], all, ctx.Err)
		if stopped != nil {
			return warnings, stopped
		}
		found := append(lint.Content(d.Content), overlapping...)
		if theirs != nil {
			found = append(found, unseen(found, theirs[i].Warnings, drafts)...)
		}
		slices.SortStableFunc(found, func(x, y lint.Warning) int {
			return cmp.Or(cmp.Compare(len(x.Pointer), len(y.Pointer)), strings.Compare(x.Pointer, y.Pointer))
		})
		for _, w := range found {
			line, _ := d.At.At(w.Pointer)
			warnings = append(warnings, draftWarning{w, place(d.At.File, line)})
		}
	}
	return warnings, err
}

// unseen are the warnings of the plane that were not found here. A warning about a
// policy that is among the drafts is left out: it is about the revision that the
// draft replaces.
func unseen(found []lint.Warning, theirs []resource.Warning, drafts []author.Draft) (more []lint.Warning) {
	for _, f := range theirs {
		w := lint.Warning{Violation: policy.Violation(f.Fault), Policy: f.Policy}
		replaced := slices.ContainsFunc(drafts, func(d author.Draft) bool { return f.Policy == d.Slug })
		if !replaced && !slices.Contains(found, w) {
			more = append(more, w)
		}
	}
	return more
}
