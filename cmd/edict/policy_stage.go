package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/policy"
)

// staged is what became of one document.
type staged struct {
	Slug   string          `json:"slug"`
	DryRun resource.DryRun `json:"dry_run"`
	Staged resource.Waves  `json:"staged"`
}

func (a policyCommands) policyStageCommand() *cobra.Command {
	var files []string
	var dry bool
	cmd := &cobra.Command{
		Use:   "stage -f FILE...",
		Short: "Keep revisions beside the heads of policies, for a rollout",
		Long: `Keep what files say beside the heads of policies that exist, and show what it would
change. No node is sent it before 'edict policy promote'. A policy has one staged
revision; staging again replaces it. Slug and display name stay as they are.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.policyStage(cmd, files, dry) },
	}
	a.policyClient(cmd)
	filesFlag(cmd, &files)
	dryRunFlag(cmd, &dry)
	return cmd
}

func (a policyCommands) policyStage(cmd *cobra.Command, files []string, dry bool) error {
	c, project, drafts, err := a.planeAndDrafts(cmd, files)
	if err != nil {
		return err
	}
	if _, err := a.warn(cmd.Context(), c, project, drafts, true); err != nil {
		return err
	}
	ids, err := policyIDs(cmd.Context(), c, project)
	if err != nil {
		return err
	}
	for _, d := range drafts {
		if _, exists := ids[d.Slug]; !exists {
			return cli.Failed(cli.NotFound, "no policy %q to stage a revision of; 'edict policy apply' publishes its first", d.Slug)
		}
	}
	all := make([]staged, 0, len(drafts))
	for _, d := range drafts {
		x := staged{Slug: d.Slug}
		if x.DryRun, err = dryRunOf(cmd.Context(), c, project, ids, d); err != nil {
			break
		}
		preview := resource.Preview{Selector: d.Selector, Order: d.Order, Rules: d.Rules}
		if x.Staged, err = c.Policies.Stage(cmd.Context(), project, ids[d.Slug], preview, dryCalls(dry)...); err != nil {
			err = fmt.Errorf("policy %s: %w", d.Slug, err)
			break
		}
		all = append(all, x)
	}
	if err != nil && len(all) == 0 {
		return err
	}
	return errors.Join(err, a.tellStaged(all, dry))
}

// tellStaged prints what became of documents, and what admission policies made of them. Those
// behind one that was refused are not among them.
func (a *console) tellStaged(all []staged, dry bool) error {
	for _, x := range all {
		if dry && x.DryRun.Admission != nil {
			a.tellPatches(x.Slug, x.DryRun.Admission.Patches)
		}
		a.tellAdmission(x.Slug, x.Staged.Admission)
	}
	return a.print(all, func(w io.Writer) {
		for _, x := range all {
			x.DryRun.Warnings = nil // shown already, and where in the files they are
			writeDryRuns(w, []dryRun{{Slug: x.Slug, DryRun: x.DryRun}})
			if dry {
				fmt.Fprintf(w, "policy/%s staged%s\n", x.Slug, dryNote(dry))
				continue
			}
			fmt.Fprintf(w, "policy/%s staged revision %s\n", x.Slug, x.Staged.RevisionID)
		}
	})
}

func (a policyCommands) policyPromoteCommand() *cobra.Command {
	var waves []string
	var then, onRefusal string
	var applied, refused int
	var cmd *cobra.Command
	cmd = a.onRollout("promote", "Make the staged revision of a policy its head, at once or in waves",
		func(ctx context.Context, c *client.Client, p resource.Policy, now resource.Waves, calls ...client.Call) (resource.Waves, error) {
			for i, w := range waves {
				waves[i] = selectorOf(w)
			}
			ask := resource.Promotion{RevisionID: &now.RevisionID, Waves: waves, OnRefusal: onRefusal}
			if cmd.Flags().Changed("min-applied") { // otherwise it is the plane's choice
				ask.MinAppliedPercent = &applied
			}
			if cmd.Flags().Changed("max-refused") {
				ask.MaxRefusedPercent = &refused
			}
			return c.Policies.Promote(ctx, p.ProjectID, p.ID, ask, calls...)
		})
	cmd.Long = `Make the staged revision of a policy its head. Without --wave all nodes get it at
once. With --wave the nodes whose labels a selector matches get it first, wave by wave,
and all others after the last.

The plane opens the next wave by itself when at least --min-applied percent of the nodes
of the newest wave, and of those of all open waves, report that they applied it. It
waits for silent nodes, and in a first wave that no node is in, until 'edict policy
next-wave' opens the next. It stops by itself, and says why, when more than
--max-refused percent of them report that they refused it: nodes keep what they have,
until 'edict policy next-wave' goes on or 'edict policy abort' goes back. With
--on-refusal abort it goes back by itself. 'edict policy rollout -w' follows it.`
	cmd.Example = `  edict policy promote web
  edict policy promote web --wave canary=true --wave region=eu --then all
  edict policy promote web --wave canary=true --max-refused 0 --on-refusal abort`
	cmd.Flags().StringArrayVar(&waves, "wave", nil, "label selector of the next wave; may be repeated")
	cmd.Flags().StringVar(&then, "then", "all", "who comes after the last wave; all, the one thing that can be said, is every other node")
	cmd.Flags().IntVar(&applied, "min-applied", 95, "percent of the nodes that must have applied it before the next wave opens")
	cmd.Flags().IntVar(&refused, "max-refused", 1, "percent of the nodes that may refuse it; with more the rollout stops")
	cmd.Flags().StringVar(&onRefusal, "on-refusal", "stop", "what to do then: stop where it is, or abort and go back")
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if then != "all" {
			return cli.Usage(cmd, "--then %q: only all other nodes can come after the last wave", then)
		}
		if onRefusal != policy.OnRefusalStop && onRefusal != policy.OnRefusalAbort {
			return cli.Usage(cmd, "--on-refusal %q: want stop or abort", onRefusal)
		}
		return before(cmd, args)
	}
	return cmd
}

func (a policyCommands) policyAbortCommand() *cobra.Command {
	var reason string
	cmd := a.onRollout("abort", "End the rollout of a policy, or drop what is staged",
		func(ctx context.Context, c *client.Client, p resource.Policy, now resource.Waves, calls ...client.Call) (resource.Waves, error) {
			return c.Policies.Abort(ctx, p.ProjectID, p.ID, resource.Abort{RevisionID: &now.RevisionID, Reason: reason}, calls...)
		})
	cmd.Flags().StringVar(&reason, "reason", "", "why, one line for the log")
	return cmd
}

func (a policyCommands) policyWaveCommand() *cobra.Command {
	return a.onRollout("next-wave", "Open the next wave of a rollout, whatever nodes report",
		func(ctx context.Context, c *client.Client, p resource.Policy, now resource.Waves, calls ...client.Call) (resource.Waves, error) {
			return c.Policies.OpenWave(ctx, p.ProjectID, p.ID, resource.NextWave{RevisionID: &now.RevisionID, Wave: now.Opened + 1}, calls...)
		})
}

// onRollout is a command about what is staged of one policy; do gets how far that is.
func (a policyCommands) onRollout(use, short string, do func(ctx context.Context, c *client.Client, p resource.Policy, now resource.Waves, calls ...client.Call) (resource.Waves, error)) *cobra.Command {
	var dry bool
	cmd := a.onePolicy(use, short, func(cmd *cobra.Command, c *client.Client, p resource.Policy) error {
		r, err := c.Policies.Rollout(cmd.Context(), p.ProjectID, p.ID, 1)
		if err != nil {
			return err
		}
		if r.Waves == nil {
			return cli.Failed(cli.Conflict, "nothing of policy %s is staged; see 'edict policy stage'", p.Slug)
		}
		x, err := do(cmd.Context(), c, p, *r.Waves, dryCalls(dry)...)
		if err != nil {
			return err
		}
		if dry {
			return a.tellDry("policy/"+p.Slug, fmt.Sprintf("%s of revision %s would be done", use, r.Waves.RevisionID))
		}
		a.warnOfNobody(cmd.Context(), c, p, x)
		return a.print(x, func(w io.Writer) { fmt.Fprintf(w, "policy/%s %s\n", p.Slug, wavesLine(x, uuid.Nil)) })
	})
	dryRunFlag(cmd, &dry)
	return cmd
}

// warnOfNobody says that a rollout waits where nobody will move it. What was asked for is done:
// a plane that does not say yet how far it is gets no word.
func (a policyCommands) warnOfNobody(ctx context.Context, c *client.Client, p resource.Policy, x resource.Waves) {
	if x.Phase != "progressing" {
		return
	}
	r, err := c.Policies.Rollout(ctx, p.ProjectID, p.ID, 1)
	if err == nil && r.Waves != nil && reachesNobody(*r.Waves) {
		fmt.Fprintf(a.stderr, "warning: the open waves change no node, so no wave opens by itself; 'edict policy next-wave %s' opens the next, 'edict policy abort %s' goes back\n", p.Slug, p.Slug)
	}
}

// earlier reports whether a rollout ended before its policy was revised to the head that there
// is now; of uuid.Nil nothing is known.
func earlier(x resource.Waves, head uuid.UUID) bool {
	switch {
	case head == uuid.Nil:
		return false
	case x.Phase == "aborted":
		return head != x.ParentRevisionID
	}
	return x.Phase == "completed" && head != x.RevisionID
}

// wavesLine says how far a rollout has come, of a policy with this head.
func wavesLine(x resource.Waves, head uuid.UUID) string {
	if earlier(x, head) {
		return withReason(fmt.Sprintf("an earlier one, of revision %s, was %s", x.RevisionID, x.Phase), x)
	}
	line := fmt.Sprintf("revision %s: %s", x.RevisionID, phaseOf(x))
	if x.Phase == "progressing" || x.Phase == "stopped" {
		line += fmt.Sprintf(" (%s)", strings.Join(x.Waves[:x.Opened], "; "))
	}
	return withReason(line, x)
}

func withReason(line string, x resource.Waves) string {
	if x.Reason != "" {
		line += ": " + cli.Escaped(x.Reason, "")
	}
	return line
}

// phaseOf is the phase of a rollout, with its newest wave while it has some.
func phaseOf(x resource.Waves) string {
	if x.Phase == "progressing" || x.Phase == "stopped" {
		return fmt.Sprintf("%s, wave %d of %d", x.Phase, x.Opened, len(x.Waves)+1)
	}
	return x.Phase
}
