package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// projectCommands read projects, and bound what they may have.
type projectCommands struct{ *app }

func (a projectCommands) projectCommand() *cobra.Command {
	return group("project", "Show projects, bound what they may have and add, archive them",
		a.projectListCommand(), a.projectDescribeCommand(),
		group("quota", "Bound what a project may have and add", a.quotaSetCommand()),
		a.archiveCommand(), a.restoreCommand())
}

func (a projectCommands) archiveCommand() *cobra.Command {
	var dry bool
	cmd := a.oneCommand("archived", &cobra.Command{
		Use: "archive PROJECT", Short: "Put a project away that has no nodes: it takes no events",
		Long: `Put a project away. It must have no nodes and no rollout under way, since no node of
it would hear of a change any more. It keeps its policies and its past, can be read, and
takes no event, of an administrator or over NATS either, until edict project restore. It
is an event of the log.`,
	}, func(ctx context.Context, ps client.Projects, id uuid.UUID) (resource.Project, error) {
		return ps.Archive(ctx, id, dryCalls(dry)...)
	})
	dryRunFlag(cmd, &dry)
	return cmd
}

func (a projectCommands) restoreCommand() *cobra.Command {
	var dry bool
	cmd := a.oneCommand("restored", &cobra.Command{
		Use: "restore PROJECT", Short: "Take an archived project up again, as it was",
		Long: "Take an archived project up again, as it was. It is an event of the log.",
	}, func(ctx context.Context, ps client.Projects, id uuid.UUID) (resource.Project, error) {
		return ps.Restore(ctx, id, dryCalls(dry)...)
	})
	dryRunFlag(cmd, &dry)
	return cmd
}

// oneCommand is a command about one project, which it shows afterwards. outcome is what
// becomes of the project, and what a dry run says, whose answer has no project.
func (a projectCommands) oneCommand(outcome string, cmd *cobra.Command, do func(context.Context, client.Projects, uuid.UUID) (resource.Project, error)) *cobra.Command {
	cmd.Args = cli.Args(1, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client(cmd)
		if err != nil {
			return err
		}
		id, err := uuid.Parse(args[0])
		if err != nil {
			return cli.Usage(cmd, "%q is no project: name its UUID", args[0])
		}
		p, err := do(cmd.Context(), c.Projects, id)
		if err != nil {
			return err
		}
		if p.ID == "" {
			return a.tellDry("project/"+id.String(), outcome)
		}
		return a.print(p, func(w io.Writer) { writeProject(w, p) })
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	return cmd
}

func (a projectCommands) projectListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List projects with what they use, and of how much", Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			all, err := collect(c.Projects.All(cmd.Context()))
			if err != nil {
				return err
			}
			return printList(&a.console, projectListing, all)
		},
	}
	a.clientFlags(cmd)
	a.listFlags(cmd, projectListing.headers)
	return cmd
}

// of shows what is used, and of how much.
func of[T any](used, most func(T) uint64, text func(uint64) string) func(T) string {
	return func(p T) string {
		if m := most(p); m > 0 {
			return text(used(p)) + " of " + text(m)
		}
		return text(used(p))
	}
}

func countText(n uint64) string { return fmt.Sprint(n) }

var projectListing = listing[resource.Project]{
	kind: "project", name: func(p resource.Project) string { return p.ID },
	columns: []column[resource.Project]{
		{"id", func(p resource.Project) string { return p.ID }, false},
		{"policies", of(func(p resource.Project) uint64 { return p.Used.Policies }, func(p resource.Project) uint64 { return p.Quota.Policies }, countText), false},
		{"nodes", of(func(p resource.Project) uint64 { return p.Used.Nodes }, func(p resource.Project) uint64 { return p.Quota.Nodes }, countText), false},
		{"label sets", of(func(p resource.Project) uint64 { return p.Used.LabelSets }, func(p resource.Project) uint64 { return p.Quota.LabelSets }, countText), false},
		{"log a day", of(func(p resource.Project) uint64 { return p.Used.BytesPerDay }, func(p resource.Project) uint64 { return p.Quota.BytesPerDay }, sizeText), false},
		{"events a day", func(p resource.Project) string {
			if p.Seq == 0 { // they are counted from the first quota on
				return "-"
			}
			return of(func(p resource.Project) uint64 { return p.Used.EventsPerDay }, func(p resource.Project) uint64 { return p.Quota.EventsPerDay }, countText)(p)
		}, true},
		{"events a second", func(p resource.Project) string {
			if p.Quota.EventsPerSecond == 0 {
				return "any"
			}
			return countText(p.Quota.EventsPerSecond)
		}, true},
		{"archived", func(p resource.Project) string {
			if p.ArchivedAt == nil {
				return "no"
			}
			return "since " + stamp(*p.ArchivedAt)
		}, true},
	},
}

func (a projectCommands) projectDescribeCommand() *cobra.Command {
	return a.oneCommand("", &cobra.Command{
		Use: "describe PROJECT", Short: "Show what a project has and took, and of how much",
	}, func(ctx context.Context, ps client.Projects, id uuid.UUID) (resource.Project, error) {
		return ps.Get(ctx, id)
	})
}

func writeProject(w io.Writer, p resource.Project) {
	for _, c := range projectListing.columns {
		fmt.Fprintf(w, "%-17s%s\n", title(c.header)+":", c.cell(p))
	}
	switch {
	case p.Ready != nil:
		fmt.Fprintf(w, "%-17suntil %s\n", "Must wait:", stamp(*p.Ready))
	case p.Quota == (resource.Quota{}):
		fmt.Fprintf(w, "%-17snone\n", "Quota:")
	default:
		fmt.Fprintf(w, "%-17sof event %d\n", "Quota:", p.Seq)
	}
}

// title is a header of a table as it begins a line.
func title(header string) string {
	if header == "id" {
		return "Project"
	}
	return string(header[0]-'a'+'A') + header[1:]
}

func (a projectCommands) quotaSetCommand() *cobra.Command {
	var q resource.Quota
	var size string
	var dry bool
	var cmd *cobra.Command
	cmd = a.oneCommand("configured", &cobra.Command{
		Use: "set PROJECT", Short: "Give a project a quota, in the place of the one it had",
		Long: `Give a project a quota, in the place of the one it had. What no flag names is not
bounded; without flags the project has no quota. It is an event of the log, and the
fold judges by it: over HTTP a write that is over it is 429 quota_exceeded, over NATS
that is the verdict. What only deletes is always taken.`,
		Example: `  edict project quota set 00000000-0000-4000-8000-000000000000 --nodes 5000 --label-sets 500
  edict project quota set 00000000-0000-4000-8000-000000000000 --events-per-second 50 --bytes-per-day 1GiB`,
	}, func(ctx context.Context, ps client.Projects, id uuid.UUID) (p resource.Project, err error) {
		if q.BytesPerDay, err = parseSize(size); err != nil {
			return p, cli.Usage(cmd, "--bytes-per-day %q: want a size such as 1GiB", size)
		}
		bounds := map[string]uint64{
			"policies": q.Policies, "nodes": q.Nodes, "label-sets": q.LabelSets, "bytes-per-day": q.BytesPerDay,
			"events-per-second": q.EventsPerSecond, "events-per-day": q.EventsPerDay,
		}
		for _, name := range slices.Sorted(maps.Keys(bounds)) {
			if bounds[name] == 0 && cmd.Flags().Changed(name) { // who types it means none at all
				return p, cli.Usage(cmd, "--%s 0 would be no bound: leave the flag out for that; edict project archive has a project take nothing", name)
			}
		}
		return ps.SetQuota(ctx, id, q, dryCalls(dry)...)
	})
	dryRunFlag(cmd, &dry)
	f := cmd.Flags()
	f.Uint64Var(&q.Policies, "policies", 0, "policies that live")
	f.Uint64Var(&q.Nodes, "nodes", 0, "nodes")
	f.Uint64Var(&q.LabelSets, "label-sets", 0, "distinct label sets of nodes")
	f.StringVar(&size, "bytes-per-day", "0", "bytes of the log in 24 hours, such as 1GiB")
	f.Uint64Var(&q.EventsPerSecond, "events-per-second", 0, "events that are applied in a second")
	f.Uint64Var(&q.EventsPerDay, "events-per-day", 0, "events that are applied in 24 hours")
	return cmd
}
