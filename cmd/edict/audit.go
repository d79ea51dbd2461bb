package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/wire"
)

func (a accessCommands) auditCommand() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use: "audit", Short: "Show who wrote what, from the log", Args: cli.Args(0, 0),
		Long: `Show who wrote what: every event of the log in its order, with the principal that
caused it, what it is about, and the relation or key that it gave or took; with -o wide
also the correlation id of the request and the NATS subject. Events that were appended without the API
are "nats"; a name or an id that they contain is shown as a claim, because it is not
verified. An event that the fold rejected is marked: it changed nothing. Without
--of-project these are the events of the whole plane, which needs plane#read; those of a
project need project#read. What happened to one policy or node, edict events --policy
or --node shows.`,
		Example: `  edict audit --newest --limit 20
  edict audit --by ana --since 24h
  edict audit --type policy_deleted --of-project 00000000-0000-4000-8000-000000000000`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			q, err := f.query(cmd)
			if err != nil {
				return err
			}
			all, err := auditEntries(cmd.Context(), c, q, f.limit)
			if err != nil {
				return err
			}
			return printList(&a.console, auditListing, all)
		},
	}
	a.clientFlags(cmd)
	a.listFlags(cmd, auditListing.headers)
	f.add(cmd)
	return cmd
}

// auditFlags are the flags of `audit` that say which events are asked for.
type auditFlags struct {
	after                  uint64
	by, kind, since, until string
	project                string // a context's does not count: without this flag they are the plane's
	newest                 bool
	limit                  int
}

func (f *auditFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Uint64Var(&f.after, "after", 0, "those above this log sequence")
	flags.BoolVar(&f.newest, "newest", false, "the newest first")
	flags.StringVar(&f.by, "by", "", "those of this principal alone")
	flags.StringVar(&f.kind, "type", "", "only those of this type, such as policy_revision_created")
	flags.StringVar(&f.since, "since", "", "those after this moment (RFC 3339), or of so long ago, such as 24h")
	flags.StringVar(&f.until, "until", "", "those at this moment or before, likewise")
	flags.StringVar(&f.project, "of-project", "", "only those of this project, a UUID")
	countVar(flags, &f.limit, "limit", 0, "at most so many (default all)")
}

// query is what the flags ask of the plane.
func (f *auditFlags) query(cmd *cobra.Command) (q client.AuditQuery, err error) {
	q = client.AuditQuery{Principal: f.by, Type: f.kind, After: f.after, Newest: f.newest}
	if f.project != "" {
		if q.Project, err = uuid.Parse(f.project); err != nil {
			return q, cli.Usage(cmd, "--of-project %.80q is not a UUID", f.project)
		}
	}
	for flag, into := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		text := cmd.Flag(flag).Value.String()
		if text == "" {
			continue
		}
		at, err := momentOf(cmd, flag, text, time.Now())
		if err != nil {
			return q, err
		}
		if *into, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return q, err
		}
	}
	return q, nil
}

// auditEntries reads all of the events that are asked for, or the first limit.
func auditEntries(ctx context.Context, c *client.Client, q client.AuditQuery, limit int) ([]resource.AuditEntry, error) {
	const wholePage = 200
	all := []resource.AuditEntry{}
	for {
		q.Limit = wholePage
		if limit > 0 {
			q.Limit = min(wholePage, limit-len(all))
		}
		page, err := c.AuditOf(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		more, err := q.Next(page)
		if err != nil || !more || limit > 0 && len(all) >= limit {
			return all, err
		}
	}
}

var auditListing = listing[resource.AuditEntry]{
	spare: []string{"detail"},
	columns: []column[resource.AuditEntry]{
		{"seq", func(e resource.AuditEntry) string { return fmt.Sprint(e.Seq) }, false},
		{"time", func(e resource.AuditEntry) string { return stamp(e.Time) }, false},
		{"principal", auditedWho, false},
		{"type", func(e resource.AuditEntry) string { return e.Type }, false},
		{"about", auditedAbout, false},
		{"detail", func(e resource.AuditEntry) string {
			if e.Rejected != "" {
				return strings.TrimSpace("rejected: " + e.Rejected + " " + e.Detail)
			}
			return e.Detail
		}, false},
		{"correlation", func(e resource.AuditEntry) string {
			if e.Via != "" {
				return claimed("", e.ClaimedCorrelationID)
			}
			return e.CorrelationID
		}, true},
		{"subject", func(e resource.AuditEntry) string { return e.Subject }, true},
	},
}

// auditedWho is who caused an event, and whom an event without the API names.
func auditedWho(e resource.AuditEntry) string {
	if e.Via != "" {
		return claimed(e.Via, e.Claimed)
	}
	if e.Principal == "" && e.CorrelationID != "" {
		return "anonymous" // as revisions have it: a request that named nobody
	}
	return e.Principal
}

// auditedAbout is what an event is about: a policy by its slug.
func auditedAbout(e resource.AuditEntry) string {
	if e.Policy != "" {
		return "policy/" + e.Policy
	}
	return auditedWhat(e.Subject)
}

// auditedWhat is what a subject of the log is about, as node/web-1; of a project that is
// not the default one, with the project.
func auditedWhat(subject string) string {
	c, ok := wire.ParseSubject(subject)
	if !ok {
		return subject
	}
	text := c.Family + "/" + c.ID
	if c.Project != uuid.Nil && c.Project.String() != defaultProject {
		text += " of " + c.Project.String()
	}
	return text
}

// claimed adds to a cell what an event says of itself.
func claimed(cell, claim string) string {
	if claim == "" {
		return cell
	}
	return strings.TrimSpace(fmt.Sprintf("%s (claims %s)", cell, claim))
}
