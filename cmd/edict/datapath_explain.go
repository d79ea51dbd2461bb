package main

import (
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/policy"
)

// flowFlags are those that name a flow.
type flowFlags struct{ to, from, port, mode, at string }

func (f *flowFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.to, "to", "", "the peer that the node opens the flow to: a node or an address")
	cmd.Flags().StringVar(&f.from, "from", "", "the peer that opens the flow to the node: a node or an address")
	cmd.Flags().StringVar(&f.mode, "mode", string(policy.Enforce), "enforce, or audit: as if policies in audit mode were in force")
	atFlag(cmd, &f.at)
	cmd.Flags().StringVar(&f.port, "port", "", "port and protocol at the flow's destination, such as 443/tcp or 53/udp; or icmp")
}

// flow reads the flags; what the plane can judge is left to it.
func (f flowFlags) flow(cmd *cobra.Command) (client.Flow, error) {
	if err := checkMoment(cmd, "at", &f.at); err != nil {
		return client.Flow{}, err
	}
	q := client.Flow{Direction: "egress", Peer: f.to, Protocol: "tcp", Audit: f.mode == string(policy.Audit), At: f.at}
	switch {
	case f.mode != string(policy.Enforce) && f.mode != string(policy.Audit):
		return q, cli.Usage(cmd, "--mode %q: use enforce or audit", f.mode)
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

// asked is a flow that a node was asked about.
type asked struct {
	node, peer, port string
	to               bool // the node opens it
}

func (f flowFlags) asked(node string) asked {
	if f.to != "" {
		return asked{node, f.to, f.port, true}
	}
	return asked{node, f.from, f.port, false}
}

// text says which flow it is, and which end of it was asked.
func (q asked) text() string {
	if q.to {
		return fmt.Sprintf("%s -> %s, %s: egress at %s", q.node, q.peer, q.port, q.node)
	}
	return fmt.Sprintf("%s -> %s, %s: ingress at %s", q.peer, q.node, q.port, q.node)
}

// otherEnd asks the peer the same; empty: it is no node.
func (q asked) otherEnd() string {
	if _, err := netip.ParseAddr(q.peer); err == nil {
		return ""
	}
	option := "--to"
	if q.to {
		option = "--from"
	}
	return fmt.Sprintf("edict datapath explain %s %s %s --port %s", q.peer, option, q.node, q.port)
}

// asking is a command that asks a node's table about one flow.
func (a datapathCommands) asking(use, short, long string, write func(w io.Writer, q asked, e resource.FlowVerdict)) *cobra.Command {
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
				return atMoment(err, "node "+args[0], flow.At)
			}
			a.warnFaults(e.Warnings)
			a.warnRefused(e.Refused)
			return a.print(e, func(w io.Writer) { write(w, f.asked(args[0]), e) })
		},
	})
	f.add(cmd)
	return cmd
}

func (a datapathCommands) datapathLookupCommand() *cobra.Command {
	return a.asking("lookup NODE {--to|--from} PEER --port PORT/PROTOCOL", "Look a flow up in a node's table", "", writeLookup)
}

func writeLookup(w io.Writer, _ asked, e resource.FlowVerdict) {
	if e.Entry == nil {
		fmt.Fprintf(w, "%s  no entry\n", e.Verdict)
		return
	}
	fmt.Fprintf(w, "%s%s  identity %s, %s, ports %s, precedence %d, rule %s\n", e.Verdict, entryExtras(*e.Entry),
		identityText(e.Entry.Identity), e.Entry.Protocol, portText(*e.Entry), e.Entry.Precedence, deciding(e.Rule))
}

func (a datapathCommands) datapathExplainCommand() *cobra.Command {
	cmd := a.asking("explain NODE {--to|--from} PEER --port PORT/PROTOCOL", "Say what a node does with a flow, and why",
		`Say what a node does with a flow: the verdict, each rule that was asked and why it
did not decide, the one that did, and the entry of the table that carries it. Rules
that do not apply to the node stand among the others, with the reason. A peer is a
node of the project, or an address; an address that no node owns is one like any
other of its CIDRs. With --at it is what the node did with it at a moment of the
past.`, writeExplanation)
	cmd.Example = `  edict datapath explain web-1 --to db-1 --port 5432/tcp
  edict datapath explain db-1 --from 10.0.0.7 --port icmp
  edict datapath explain web-1 --to db-1 --port 5432/tcp --at 4711`
	return cmd
}

func writeExplanation(w io.Writer, q asked, e resource.FlowVerdict) {
	fmt.Fprintf(w, "Flow:     %s\n", q.text())
	fmt.Fprintf(w, "Verdict:  %s\n", colouredCell(w, "verdict", e.Verdict))
	if e.Rule != nil {
		fmt.Fprintf(w, "Rule:     %s, tier %s, priority %d\nSays:     %s\n", deciding(e.Rule), e.Rule.Tier, e.Rule.Priority, e.Rule.Text)
	} else {
		fmt.Fprintf(w, "Reason:   %s\n", e.Reason)
	}
	if e.Default != nil {
		fmt.Fprintf(w, "Default:  %s\n", defaultText(*e.Default))
	}
	if e.Entry == nil {
		fmt.Fprintln(w, "Entry:    none, which denies")
	} else {
		fmt.Fprintf(w, "Entry:    identity %s, %s, ports %s: %s%s, precedence %d\n", identityText(e.Entry.Identity), e.Entry.Protocol,
			portText(*e.Entry), e.Entry.Verdict, entryExtras(*e.Entry), e.Entry.Precedence)
	}
	if other := q.otherEnd(); other != "" {
		fmt.Fprintf(w, "Besides:  the other end decides for itself: %s\n", other)
	}
	if len(e.Considered) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows := make([][]string, len(e.Considered))
	for i, c := range e.Considered {
		matched := "no"
		switch {
		case c.Matched:
			matched = "yes"
		case !c.Applies:
			matched = "-"
		}
		rows[i] = []string{c.Tier, fmt.Sprint(c.Priority), placeText(c.PlacedRule), matched, c.Reason, c.Text}
	}
	columns(w, []string{"tier", "priority", "rule", "matched", "why", "says"}, rows)
}
