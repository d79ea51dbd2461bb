package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a accessCommands) auditCommand() *cobra.Command {
	var after uint64
	var by string
	cmd := &cobra.Command{
		Use: "audit", Short: "Show who wrote what, from the log", Args: cli.Args(0, 0),
		Long: `Show who wrote what: every event of the log in its order, with the principal and the
correlation id of the request that caused it, and the relation or key that it gave or
took, where its subject does not say it. Events that were appended without the API
are "nats"; a name or an id that they contain is shown as a claim, because it is not
verified. An event that the fold rejected is marked: it changed nothing.`,
		Example: `  edict audit --after 4711 --by ana`,
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
			return a.print(all, func(w io.Writer) { writeAudit(w, all) })
		},
	}
	a.accessClient(cmd)
	cmd.Flags().Uint64Var(&after, "after", 0, "those above this log sequence")
	cmd.Flags().StringVar(&by, "by", "", "those of this principal alone")
	return cmd
}

func writeAudit(w io.Writer, all []resource.AuditEntry) {
	rows := make([][]string, len(all))
	for i, e := range all {
		detail := e.Detail
		if e.Rejected != "" {
			detail = strings.TrimSpace("rejected: " + e.Rejected + " " + detail)
		}
		who, correlation := e.Principal, e.CorrelationID
		if e.Via != "" {
			who, correlation = e.Via, claimed("", e.ClaimedCorrelationID)
			who = claimed(who, e.Claimed)
		}
		rows[i] = []string{fmt.Sprint(e.Seq), e.Time.Format(time.RFC3339), who, e.Type, e.Subject, detail, correlation}
	}
	columns(w, []string{"seq", "time", "principal", "type", "subject", "detail", "correlation"}, rows)
}

// claimed adds to a cell what an event says of itself.
func claimed(cell, claim string) string {
	if claim == "" {
		return cell
	}
	return strings.TrimSpace(fmt.Sprintf("%s (claims %s)", cell, claim))
}
