package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// rolloutPause is how often a rollout that is watched is asked for.
const rolloutPause = 500 * time.Millisecond

func (a policyCommands) policyRolloutCommand() *cobra.Command {
	var watch bool
	var timeout time.Duration
	var limit int
	cmd := &cobra.Command{
		Use: "rollout NAME|ID", Short: "Say how many nodes have applied a policy, and which are behind",
		Long: `Show how many of the nodes that must have a policy reported that they applied its
head, how many dropped it after a revision or its deletion, and which nodes are behind,
because they lag, refused it, or never reported; of those that say that they have not
applied it, the reason. For a deleted policy give the ID.

Of a rollout in waves, show the newest wave, what its nodes report, and what it waits
for; of one that has stopped, why.

With -w, follow it until no node is behind and no wave is to open by itself, also over a
moment in which the plane is away. Exit codes:
0 no node is behind, 1 nodes are still (with -w: when --timeout has passed), or the
rollout has stopped or was aborted meanwhile.`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, project, err := a.plane(cmd)
			if err != nil {
				return err
			}
			if err := checkTimeout(cmd, timeout); err != nil {
				return err
			}
			if timeout > 0 && !watch {
				return cli.Usage(cmd, "--timeout is for -w")
			}
			ctx := cmd.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			id, err := idOfPolicy(ctx, c, project, args[0])
			if err == nil {
				err = a.rollout(ctx, rolloutOf{c, project, id, limit}, watch)
			}
			if errors.Is(err, context.DeadlineExceeded) && isLate(ctx) {
				return cli.Failed(cli.Differs, "the plane did not answer in %v; see 'edict doctor'", timeout)
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow until no node is behind, and no wave is to come by itself")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "with -w: give up after; 0 never")
	countVar(cmd.Flags(), &limit, "limit", 0, "nodes that are behind to list (default 100)")
	return a.policyClient(cmd)
}

// rolloutOf is what to ask for.
type rolloutOf struct {
	client      *client.Client
	project, id uuid.UUID
	limit       int
}

// ask also reads the policy, where there is a rollout in waves to hold against its head; of a
// deleted one there is nothing to read.
func (q rolloutOf) ask(ctx context.Context) (r resource.Rollout, p resource.Policy, err error) {
	if r, err = q.client.Policies.Rollout(ctx, q.project, q.id, q.limit); err != nil || r.Waves == nil {
		return r, p, err
	}
	if p, err = q.client.Policies.Get(ctx, q.project, q.id); codeOf(err) == cli.NotFound {
		return r, resource.Policy{}, nil
	}
	return r, p, err
}

// isLate reports whether the time is up that was given.
func isLate(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// rollout asks once, or until nothing more is to come or ctx ends, while a request is on its
// way, too: a plane that hangs holds nobody up for longer than was given.
func (a policyCommands) rollout(ctx context.Context, q rolloutOf, watch bool) error {
	var last string
	var r resource.Rollout
	var p resource.Policy
	asked, saw := false, false
	for {
		now, of, err := q.ask(ctx)
		var line string
		switch {
		case err == nil:
			r, p, asked = now, of, true
			line = rolloutLine(r, p)
		case asked && isLate(ctx):
			return a.endRollout(r, p, saw, true)
		case asked && isAway(err): // it is watched
			line = "edict: " + printable(err)
		default:
			return err
		}
		if watch && line != last {
			fmt.Fprintln(a.stderr, line)
			last = line
		}
		if !watch || err == nil && settled(r) {
			return a.endRollout(r, p, saw, false)
		}
		saw = saw || underWay(r)
		select {
		case <-time.After(rolloutPause):
		case <-ctx.Done():
			if isLate(ctx) {
				return a.endRollout(r, p, saw, true)
			}
			return ctx.Err()
		}
	}
}

// settled: nothing more is to come by itself.
func settled(r resource.Rollout) bool {
	if underWay(r) {
		return r.Waves.Phase == "stopped"
	}
	return len(r.Lagging) == 0
}

// underWay: some nodes have the revision, and others the head.
func underWay(r resource.Rollout) bool {
	return r.Waves != nil && (r.Waves.Phase == "stopped" || r.Waves.Phase == "progressing")
}

// endRollout prints the last answer. Nodes that are behind make it a difference, and so does
// a rollout that has stopped, or that was aborted after it was seen under way; and late, that
// the time was up, because waves may be to come when no node is behind.
func (a policyCommands) endRollout(r resource.Rollout, p resource.Policy, saw, late bool) error {
	if err := a.print(r, func(w io.Writer) { writeRollout(w, r, p) }); err != nil {
		return err
	}
	if late || r.Waves != nil && (r.Waves.Phase == "stopped" || saw && r.Waves.Phase == "aborted") || len(r.Lagging) > 0 {
		return cli.Exit(cli.Differs)
	}
	return nil
}

// rolloutLine says in short how far a policy has come, as it is now. A rollout that ended before
// its head was revised is not about that.
func rolloutLine(r resource.Rollout, p resource.Policy) string {
	line := fmt.Sprintf("%d of %s applied it", r.Applied, cli.Counted(r.Desired, "node"))
	if r.Dropped > 0 {
		line += fmt.Sprintf(", %d let go of it", r.Dropped)
	}
	if r.Waves != nil && r.Waves.Phase != "staged" && r.Waves.Phase != "completed" && !earlier(*r.Waves, p.HeadRevisionID) {
		line += "; " + phaseOf(*r.Waves)
		if reachesNobody(*r.Waves) {
			line += "; " + waitsText(*r.Waves, p)
		}
	}
	return line
}

// reachesNobody reports whether a rollout is under way in waves none of whose nodes it changes:
// then no report ever opens the next one.
func reachesNobody(x resource.Waves) bool {
	return x.Phase == "progressing" && x.Reached != nil && x.Reached.Nodes == 0
}

// waitsText is what a rollout waits for. Where no node can bring that about, it says what does.
func waitsText(x resource.Waves, p resource.Policy) string {
	if reachesNobody(x) && p.Slug != "" {
		return fmt.Sprintf("%s; 'edict policy next-wave %s' opens the next", x.WaitsFor, p.Slug)
	}
	return x.WaitsFor
}

// auditedText says what a policy in audit mode would have denied.
func auditedText(a resource.Audited) string {
	if a.Nodes == 0 {
		return "no node has counted yet; agents with --apply nftables do"
	}
	return fmt.Sprintf("of packets that nodes sent, its rules would have denied %d and the default %d; of those that they received, %d and %d; counted by %s",
		a.Egress, a.ByDefault.Egress, a.Ingress, a.ByDefault.Ingress, cli.Counted(a.Nodes, "node"))
}

func writeRollout(w io.Writer, r resource.Rollout, p resource.Policy) {
	fmt.Fprintf(w, "Applied:      %d of %s\nDropped:      %s\n", r.Applied, cli.Counted(r.Desired, "node"), cli.Counted(r.Dropped, "node"))
	if r.Waves != nil {
		writeWaves(w, *r.Waves, p)
	}
	if a := r.Audited; a != nil {
		fmt.Fprintf(w, "Audit:        %s\n", auditedText(*a))
	}
	if r.P50Seconds != nil && r.P99Seconds != nil {
		fmt.Fprintf(w, "Took:         %.3f s (p50), %.3f s (p99)\n", *r.P50Seconds, *r.P99Seconds)
	}
	writeLagging(w, r.Lagging)
	writeRefusals(w, r.Refusals)
	if len(r.Refused) == 0 {
		return
	}
	rows := make([][]string, len(r.Refused))
	for i, x := range r.Refused {
		rows[i] = []string{x.NodeID, x.Code, x.Detail}
	}
	fmt.Fprintln(w)
	columns(w, []string{"refused", "code", "detail"}, rows)
}

// writeWaves says how far a rollout has come, and what it waits for.
func writeWaves(w io.Writer, x resource.Waves, p resource.Policy) {
	fmt.Fprintf(w, "Rollout:      %s\n", wavesLine(x, p.HeadRevisionID))
	if x.Reached != nil {
		fmt.Fprintf(w, "Waves:        %s, %d applied it, %d refused it\n", cli.Counted(x.Reached.Nodes, "node"), x.Reached.Applied, x.Reached.Refused)
	}
	if x.WaitsFor != "" {
		fmt.Fprintf(w, "Waits:        %s\n", waitsText(x, p))
	}
}

// writeRefusals lists the nodes that say that something is not applied.
func writeRefusals(w io.Writer, list []resource.Refusal) {
	if len(list) == 0 {
		return
	}
	rows := make([][]string, len(list))
	for i, x := range list {
		rows[i] = []string{x.NodeID, x.Outcome, stamp(x.Since), x.Reason}
	}
	fmt.Fprintln(w)
	columns(w, []string{"not applied", "outcome", "since", "reason"}, rows)
}

// writeLagging lists the nodes that must still apply it or let go of it: those that never
// reported, too, which elsewhere are called silent and not lagging.
func writeLagging(w io.Writer, list []resource.Lagging) {
	if len(list) == 0 {
		return
	}
	rows := make([][]string, len(list))
	for i, l := range list {
		since := "-"
		if l.Since != nil {
			since = stamp(*l.Since)
		}
		rows[i] = []string{l.NodeID, since}
	}
	fmt.Fprintln(w)
	columns(w, []string{"behind", "since"}, rows)
}
