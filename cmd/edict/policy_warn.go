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

// warn tells what drafts say and likely do not mean, each by itself, beside the
// others and beside the policies of the project, and how much.
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
		beside, stopped := lint.Beside(all[i], all, ctx.Err)
		if stopped != nil {
			return warnings, stopped
		}
		found := append(lint.Content(d.Content), beside...)
		if theirs != nil {
			found = append(found, news(found, theirs[i].Warnings, drafts)...)
		}
		slices.SortStableFunc(found, func(x, y policy.Violation) int {
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

// news are the warnings of the plane that were not found here. What it says of
// a policy that is applied too is of the one that is about to go.
func news(found policy.Violations, theirs []resource.Fault, drafts []author.Draft) (more policy.Violations) {
	for _, f := range theirs {
		w := policy.Violation{Pointer: f.Pointer, Code: f.Code, Detail: f.Detail}
		old := slices.ContainsFunc(drafts, func(d author.Draft) bool { return strings.Contains(w.Detail, " of policy "+d.Slug+" ") })
		if !old && !slices.Contains(found, w) {
			more = append(more, w)
		}
	}
	return more
}
