package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// datapathCommands read nodes' tables.
type datapathCommands struct{ *app }

func (a datapathCommands) datapathCommand() *cobra.Command {
	return group("datapath", "Read the table a node enforces, and ask it about flows",
		a.datapathShowCommand(), a.datapathLookupCommand(), a.datapathExplainCommand())
}

// datapathClient gives a command the flags of those who ask about one node.
func (a datapathCommands) datapathClient(cmd *cobra.Command) *cobra.Command {
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	return cmd
}

func (a datapathCommands) datapathShowCommand() *cobra.Command {
	var at string
	cmd := a.datapathClient(&cobra.Command{
		Use: "show NODE", Short: "Show a node's table",
		Long: `Show a node's table: the kinds of peer it tells apart, and its entries. A flow is
looked up among the entries of its peer's identity and among those of any; the
higher precedence wins, and a flow without an entry is denied. With --at it is the
table that the node had at a moment of the past.`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkMoment(cmd, "at", &at); err != nil {
				return err
			}
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			t, err := c.Datapath.Table(cmd.Context(), args[0], client.TableQuery{StateQuery: client.StateQuery{At: at}})
			if err != nil {
				return atMoment(err, "node "+args[0], at)
			}
			return a.writeTable(t.Body, func() slugs { return slugsOf(cmd.Context(), c, args[0]) })
		},
	})
	atFlag(cmd, &at)
	return cmd
}

// writeTable writes a table, for people with the slugs of policies.
func (a datapathCommands) writeTable(body []byte, named func() slugs) error {
	switch a.format {
	case formatJSON:
		_, err := fmt.Fprintf(a.stdout, "%s\n", body)
		return err
	case formatYAML:
		return a.printYAML(json.RawMessage(body))
	}
	var t resource.Datapath
	if err := json.Unmarshal(body, &t); err != nil {
		return err
	}
	names := named()
	a.warnFaults(t.Warnings)
	a.warnRefused(t.Refused)
	fmt.Fprintf(a.stdout, "Fingerprint:  %s\nEntries:      %d\n\n", t.Fingerprint, len(t.Entries))
	rows := make([][]string, len(t.Identities))
	for i, id := range t.Identities {
		rows[i] = []string{fmt.Sprint(id.ID), dash(labelText(id.Labels)), dash(strings.Join(id.CIDRs, ",")), dash(membersText(id.Members))}
	}
	columns(a.stdout, []string{"identity", "labels", "cidrs", "members"}, rows)
	fmt.Fprintln(a.stdout)
	rows = make([][]string, len(t.Entries))
	for i, e := range t.Entries {
		rows[i] = []string{
			e.Direction, identityText(e.Identity), e.Protocol, portText(e), e.Verdict + entryExtras(e),
			fmt.Sprint(e.Precedence), names.rule(e.Rule),
		}
	}
	columns(a.stdout, []string{"direction", "identity", "protocol", "ports", "verdict", "precedence", "rule"}, rows)
	return nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// membersText names a few members of an identity, which may have thousands.
func membersText(members []resource.Member) string {
	const few = 3
	names := make([]string, 0, few)
	for i, m := range members {
		if i == few {
			return fmt.Sprintf("%s and %d more", strings.Join(names, ","), len(members)-few)
		}
		names = append(names, m.NodeID)
	}
	return strings.Join(names, ",")
}

func identityText(id uint32) string {
	if id == 0 {
		return "any"
	}
	return fmt.Sprint(id)
}

// portText is the range of an entry's prefix.
func portText(e resource.Entry) string {
	if e.Prefix == 0 {
		return "-"
	}
	last := int(e.Port) + 1<<(16-e.Prefix) - 1
	if last == int(e.Port) {
		return fmt.Sprint(e.Port)
	}
	return fmt.Sprintf("%d-%d", e.Port, last)
}

func entryExtras(e resource.Entry) string { return verdictExtras(e.ProxyPort, e.Auth) }

// verdictExtras are where a flow is redirected to, and whether it is authenticated.
func verdictExtras(proxy uint16, auth string) string {
	extras := ""
	if proxy != 0 {
		extras += fmt.Sprintf(" to %d", proxy)
	}
	if auth != "" {
		extras += ", auth " + auth
	}
	return extras
}

// deciding names the rule that decided.
func deciding(r *resource.PlacedRule) string {
	if r == nil {
		return "default"
	}
	return placeText(*r)
}
