package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/backoff"
)

// eventCommands show the log as it is folded.
type eventCommands struct{ *app }

// eventsFlags are the flags of `events`.
type eventsFlags struct {
	policy, node, kind, since string
	watch                     bool
}

func (a eventCommands) eventsCommand() *cobra.Command {
	var f eventsFlags
	cmd := &cobra.Command{
		Use: "events", Short: "Show the log's events with what became of them, or follow it", Args: cli.Args(0, 0),
		Long: `Show the events of the log, oldest first, with what the fold made of each: applied, or
rejected with the code. Applied here means that it counts, and not yet that nodes
applied it: 'edict policy rollout' says that. With --watch, follow it: a stream that breaks is taken up behind
the last event. Without --project these are the events of the whole plane, which needs
plane#read; those of a project need project#read.`,
		Example: `  edict events --since 24h --policy web-to-db
  edict events -w --node db-1
  edict events -w -o ndjson | jq 'select(.verdict == "rejected")'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.events(cmd, f) },
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	a.formatFlag(cmd, formatTable, formatWide, formatJSON, formatNDJSON, formatYAML)
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", "", "only those of the policy of this name or id, in --project")
	flags.StringVar(&f.node, "node", "", "only those of this node")
	flags.StringVar(&f.kind, "type", "", "only those of this type, such as policy_revision_created")
	flags.StringVar(&f.since, "since", "", "those after this moment (RFC 3339), or of so long ago, such as 24h (default 1h; with --watch from now on)")
	flags.BoolVarP(&f.watch, "watch", "w", false, "go on with what comes")
	return cmd
}

func (a eventCommands) events(cmd *cobra.Command, f eventsFlags) error {
	c, project, err := a.plane(cmd)
	if err != nil {
		return err
	}
	filter, err := a.eventFilter(cmd, c, project, f)
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed("project") && f.policy == "" {
		project = uuid.Nil
	}
	if f.watch {
		return a.followEvents(cmd.Context(), c, project, filter)
	}
	all, err := eventsAfter(cmd.Context(), c, project, filter, 0)
	var refused *client.Problem
	if f.since == "" && errors.As(err, &refused) && refused.Code == api.CodeLogCompacted {
		// The last hour is what nobody asked for by name: of a log that begins within it there is the rest.
		if s, unknown := c.Status(cmd.Context(), false); unknown == nil && s.Log.Begins > 1 {
			fmt.Fprintf(a.stderr, "the log begins at event %d\n", s.Log.Begins)
			all, err = eventsAfter(cmd.Context(), c, project, filter, s.Log.Begins-1)
		}
	}
	if err != nil {
		return err
	}
	return printList(&a.console, eventListing, all)
}

// eventsAfter are those behind a log sequence, or since the filter's moment, up to the log's end.
func eventsAfter(ctx context.Context, c *client.Client, project uuid.UUID, filter url.Values, after uint64) ([]resource.LogEvent, error) {
	all := []resource.LogEvent{}
	for frame, err := range c.Events(ctx, project, filter, after) {
		if err != nil {
			return nil, err
		}
		if frame.Event == nil {
			return all, nil
		}
		all = append(all, *frame.Event)
	}
	return nil, cli.Failed(cli.Unavailable, "the plane ended the stream before all was said")
}

// eventFilter is what the flags ask of the route.
func (a eventCommands) eventFilter(cmd *cobra.Command, c *client.Client, project uuid.UUID, f eventsFlags) (url.Values, error) {
	q := url.Values{}
	for name, value := range map[string]string{"node": f.node, "type": f.kind} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.policy != "" {
		p, err := findPolicy(cmd.Context(), c, project, f.policy)
		if err != nil {
			return nil, err
		}
		q.Set("policy", p.ID.String())
	}
	if f.since == "" && !f.watch {
		f.since = "1h"
	}
	if f.since != "" {
		at, err := momentOf(cmd, "since", f.since, time.Now())
		if err != nil {
			return nil, err
		}
		q.Set("since", at)
	}
	return q, nil
}

// momentOf reads a flag that names a moment, or how long ago it was, as routes want it.
func momentOf(cmd *cobra.Command, flag, text string, now time.Time) (string, error) {
	at, err := time.Parse(time.RFC3339, text)
	if ago, notAgo := time.ParseDuration(text); notAgo == nil && ago >= 0 {
		at, err = now.Add(-ago), nil
	}
	if err != nil {
		return "", cli.Usage(cmd, "--%s %q: want a moment such as 2026-11-20T12:00:00Z, or how long ago, such as 2h", flag, text)
	}
	return at.UTC().Format(time.RFC3339Nano), nil
}

// followEvents prints a line an event until ctx ends, over as many streams as it takes.
func (a eventCommands) followEvents(ctx context.Context, c *client.Client, project uuid.UUID, filter url.Values) error {
	var pause backoff.Backoff
	var last uint64
	shown := a.followed()
	for {
		heard, broken, err := a.followOnce(ctx, c, project, filter, &last, shown)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (last == 0 || !broken):
			return err
		}
		if heard { // said once, however long the plane is away
			fmt.Fprintf(a.stderr, "the stream has ended; following on behind event %d\n", last)
		}
		if pause.Pause(ctx) != nil {
			return nil
		}
	}
}

// followOnce follows one stream to its end. heard says that there was one, broken that what ended it may heal.
func (a eventCommands) followOnce(
	ctx context.Context, c *client.Client, project uuid.UUID, filter url.Values, last *uint64, shown *followed,
) (heard, broken bool, err error) {
	for frame, err := range c.Events(ctx, project, filter, *last) {
		if err != nil {
			var refused *client.Problem
			return heard, !errors.As(err, &refused) || refused.Status >= 500, err
		}
		*last, heard = frame.Seq, true
		if frame.Event == nil {
			fmt.Fprintf(a.stderr, "following what comes after event %d\n", frame.Seq)
			continue
		}
		if err := a.printEvent(*frame.Event, shown); err != nil {
			return heard, false, err
		}
	}
	return heard, true, nil
}

// followed is the table of events that a terminal shows as they come.
func (a eventCommands) followed() *followed {
	var header []string
	for _, c := range eventListing.columns {
		if !c.wide || a.format == formatWide {
			header = append(header, c.header)
		}
	}
	return follow(a.stdout, header, a.format == formatWide, map[string]int{"seq": 4, "time": 9, "type": 23, "about": 10, "by": 9})
}

func (a eventCommands) printEvent(e resource.LogEvent, shown *followed) error {
	if !a.forPeople() {
		return printList(&a.console, eventListing, []resource.LogEvent{e})
	}
	var cells []string
	for _, c := range eventListing.columns {
		if !c.wide || a.format == formatWide {
			cells = append(cells, c.cell(e))
		}
	}
	if shown != nil {
		return shown.row(cells)
	}
	cells = slices.DeleteFunc(cells, func(c string) bool { return c == "" })
	_, err := fmt.Fprintln(a.stdout, cli.Escaped(strings.Join(cells, "  "), ""))
	return err
}

var eventListing = listing[resource.LogEvent]{
	spare: []string{"by", "detail"},
	columns: []column[resource.LogEvent]{
		{"seq", func(e resource.LogEvent) string { return fmt.Sprint(e.Seq) }, false},
		{"time", func(e resource.LogEvent) string { return stamp(e.Time) }, false},
		{"type", func(e resource.LogEvent) string { return e.Type }, false},
		{"about", func(e resource.LogEvent) string { return auditedAbout(e.AuditEntry) }, false},
		{"by", func(e resource.LogEvent) string { return auditedWho(e.AuditEntry) }, false},
		{"verdict", func(e resource.LogEvent) string { return strings.TrimSpace(e.Verdict + " " + e.Rejected) }, false},
		{"detail", changeText, false},
		{"correlation", func(e resource.LogEvent) string { return e.CorrelationID }, true},
		{"subject", func(e resource.LogEvent) string { return e.Subject }, true},
	},
}
