package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
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
	return a.datapathClient(&cobra.Command{
		Use: "show NODE", Short: "Show a node's table",
		Long: `Show a node's table: the kinds of peer it tells apart, and its entries. A flow is
looked up among the entries of its peer's identity and among those of any; the
higher precedence wins, and a flow without an entry is denied.`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			t, err := c.Datapath.Table(cmd.Context(), args[0], client.StateQuery{})
			if err != nil {
				return err
			}
			return a.writeTable(t.Body)
		},
	})
}

func (a datapathCommands) writeTable(body []byte) error {
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
	for _, w := range t.Warnings {
		fmt.Fprintf(a.stderr, "warning: %s (%s)\n", w.Detail, w.Code)
	}
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
			fmt.Sprint(e.Precedence), refText(e.Rule),
		}
	}
	columns(a.stdout, []string{"direction", "identity", "protocol", "ports", "verdict", "precedence", "rule"}, rows)
	return nil
}

func (a datapathCommands) warnRefused(r *resource.Refused) {
	if r != nil {
		fmt.Fprintf(a.stderr, "warning: this is the last good table, a newer one is refused: %s (%s)\n", r.Detail, r.Code)
	}
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

func entryExtras(e resource.Entry) string {
	extras := ""
	if e.ProxyPort != 0 {
		extras += fmt.Sprintf(" to %d", e.ProxyPort)
	}
	if e.Auth != "" {
		extras += ", auth " + e.Auth
	}
	return extras
}

func refText(r *resource.RuleRef) string {
	if r == nil {
		return "default"
	}
	return fmt.Sprintf("%s[%d]", r.Policy, r.Index)
}

// flowFlags are those that name a flow.
type flowFlags struct{ to, from, port string }

func (f *flowFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.to, "to", "", "the peer that the node opens the flow to: a node or an address")
	cmd.Flags().StringVar(&f.from, "from", "", "the peer that opens the flow to the node: a node or an address")
	cmd.Flags().StringVar(&f.port, "port", "", "port and protocol at the flow's destination, such as 443/tcp or 53/udp; or icmp")
}

// flow reads the flags; what the plane can judge is left to it.
func (f flowFlags) flow(cmd *cobra.Command) (client.Flow, error) {
	q := client.Flow{Direction: "egress", Peer: f.to, Protocol: "tcp"}
	switch {
	case f.to == "" == (f.from == ""):
		return q, cli.Usage(cmd, "name one peer, with --to or with --from")
	case f.from != "":
		q.Direction, q.Peer = "ingress", f.from
	}
	port, protocol, both := strings.Cut(f.port, "/")
	switch {
	case f.port == "":
		return q, cli.Usage(cmd, "--port is required, such as 443/tcp or icmp")
	case f.port == "icmp":
		q.Protocol = f.port
		return q, nil
	case both:
		q.Protocol = protocol
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return q, cli.Usage(cmd, "--port %q is not PORT/PROTOCOL with a port of 1 to 65535, such as 443/tcp", f.port)
	}
	q.Port = uint16(n)
	return q, nil
}

// asking is a command that asks a node's table about one flow.
func (a datapathCommands) asking(use, short, long string, write func(w io.Writer, e resource.FlowVerdict)) *cobra.Command {
	var f flowFlags
	cmd := a.datapathClient(&cobra.Command{
		Use: use, Short: short, Long: long, Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			flow, err := f.flow(cmd)
			if err != nil {
				return err
			}
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			e, err := c.Datapath.Explain(cmd.Context(), args[0], flow)
			if err != nil {
				return err
			}
			a.warnRefused(e.Refused)
			return a.print(e, func(w io.Writer) { write(w, e) })
		},
	})
	f.add(cmd)
	return cmd
}

func (a datapathCommands) datapathLookupCommand() *cobra.Command {
	return a.asking("lookup NODE {--to|--from} PEER --port PORT/PROTOCOL", "Look a flow up in a node's table", "", writeLookup)
}

func writeLookup(w io.Writer, e resource.FlowVerdict) {
	if e.Entry == nil {
		fmt.Fprintf(w, "%s  no entry\n", e.Verdict)
		return
	}
	fmt.Fprintf(w, "%s%s  identity %s, %s, ports %s, precedence %d, rule %s\n", e.Verdict, entryExtras(*e.Entry),
		identityText(e.Entry.Identity), e.Entry.Protocol, portText(*e.Entry), e.Entry.Precedence, refText(e.Rule))
}

func (a datapathCommands) datapathExplainCommand() *cobra.Command {
	cmd := a.asking("explain NODE {--to|--from} PEER --port PORT/PROTOCOL", "Say what a node does with a flow, and why",
		`Say what a node does with a flow: the verdict, each rule that was asked and why it
did not decide, the one that did, and the entry of the table that carries it.`, writeExplanation)
	cmd.Example = `  edict datapath explain web-1 --to db-1 --port 5432/tcp
  edict datapath explain db-1 --from 10.0.0.7 --port icmp`
	return cmd
}

func writeExplanation(w io.Writer, e resource.FlowVerdict) {
	fmt.Fprintf(w, "Verdict:  %s\n", e.Verdict)
	if e.Rule != nil {
		fmt.Fprintf(w, "Rule:     %s, revision %s\n", refText(e.Rule), e.Rule.Revision)
	} else {
		fmt.Fprintf(w, "Reason:   %s\n", e.Reason)
	}
	if e.Entry == nil {
		fmt.Fprintln(w, "Entry:    none, which denies")
	} else {
		fmt.Fprintf(w, "Entry:    identity %s, %s, ports %s: %s%s, precedence %d\n", identityText(e.Entry.Identity), e.Entry.Protocol,
			portText(*e.Entry), e.Entry.Verdict, entryExtras(*e.Entry), e.Entry.Precedence)
	}
	if len(e.Considered) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows := make([][]string, len(e.Considered))
	for i, c := range e.Considered {
		matched := "no"
		if c.Matched {
			matched = "yes"
		}
		rows[i] = []string{refText(&c.RuleRef), matched, c.Reason}
	}
	columns(w, []string{"rule", "matched", "why"}, rows)
}
