package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/wire"
)

func (a accessCommands) auditCommand() *cobra.Command {
	var after uint64
	var by string
	var newest bool
	cmd := &cobra.Command{
		Use: "audit", Short: "Show who wrote what, from the log", Args: cli.Args(0, 0),
		Long: `Show who wrote what: every event of the log in its order, with the principal that
caused it, what it is about, and the relation or key that it gave or took; with -o wide
also the correlation id of the request and the NATS subject. Events that were appended without the API
are "nats"; a name or an id that they contain is shown as a claim, because it is not
verified. An event that the fold rejected is marked: it changed nothing.`,
		Example: `  edict audit --after 4711 --by ana
  edict audit --newest | head`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			all := []resource.AuditEntry{}
			for {
				page, err := c.Audit(cmd.Context(), after, 0)
				if err != nil {
					return err
				}
				for _, e := range page.Items {
					if by == "" || e.Principal == by {
						all = append(all, e)
					}
				}
				if page.NextCursor == nil {
					break
				}
				if after, err = strconv.ParseUint(*page.NextCursor, 10, 64); err != nil {
					return fmt.Errorf("next_cursor of the audit: %w", err)
				}
			}
			if newest {
				slices.Reverse(all)
			}
			return printList(&a.console, auditListing, all)
		},
	}
	a.clientFlags(cmd)
	a.listFlags(cmd)
	cmd.Flags().Uint64Var(&after, "after", 0, "those above this log sequence")
	cmd.Flags().BoolVar(&newest, "newest", false, "the newest first")
	cmd.Flags().StringVar(&by, "by", "", "those of this principal alone")
	return cmd
}

var auditListing = listing[resource.AuditEntry]{
	columns: []column[resource.AuditEntry]{
		{"seq", func(e resource.AuditEntry) string { return fmt.Sprint(e.Seq) }, false},
		{"time", func(e resource.AuditEntry) string { return stamp(e.Time) }, false},
		{"principal", auditedWho, false},
		{"type", func(e resource.AuditEntry) string { return e.Type }, false},
		{"about", func(e resource.AuditEntry) string { return auditedWhat(e.Subject) }, false},
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
	return e.Principal
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
