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

// warn writes the warnings of drafts to standard error and counts them. Each draft
// is looked at alone, with the other drafts, and with the policies of the project.
func (a policyCommands) warn(ctx context.Context, c *client.Client, project uuid.UUID, drafts []author.Draft) (warnings int, err error) {
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
			warnings++
			line, _ := d.At.At(w.Pointer)
			fmt.Fprintf(a.stderr, "%s: warning: %s: %s (%s)\n", place(d.At.File, line), w.Pointer, w.Detail, w.Code)
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
