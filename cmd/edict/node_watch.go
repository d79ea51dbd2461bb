package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/policy"
)

// watched is one line of watch (contracts, Commands).
type watched struct {
	ID          policy.EventID  `json:"seq"` // a string
	Type        string          `json:"type"`
	PolicyID    *uuid.UUID      `json:"policy_id"`
	RevisionID  *uuid.UUID      `json:"revision_id"`
	Fingerprint *string         `json:"fingerprint"`
	Rules       json.RawMessage `json:"rules"`
	Omitted     int             `json:"rules_omitted,omitempty"` // further rules, which plain ones cannot say
	Verified    bool            `json:"verified"`                // what does not verify is never shown
	Again       bool            `json:"again,omitempty"`         // this watch showed it already, or began with it
}

// shownRows are what a watch showed of each policy last, to know what is sent once more.
type shownRows map[uuid.UUID]shownRow

type shownRow struct {
	revision uuid.UUID
	rules    [sha256.Size]byte // their fingerprint
}

// again notes a row, and reports whether it says what the one before did.
func (s shownRows) again(p *artifact.PolicyPayload) bool {
	row := shownRow{p.RevisionID, p.Fingerprint}
	before, known := s[p.PolicyID]
	s[p.PolicyID] = row
	return known && before == row
}

func (a nodeCommands) nodeWatchCommand() *cobra.Command {
	var from string
	var count int
	var trust string
	var opt node.Options
	var report bool
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "Follow what a node is sent",
		Long: `Follow what a node is sent, from now on or after --from. Every event's signature
is verified with the plane's keys. When the plane goes away, watch resumes where
it was. On standard error it says when it is connected, and after which event. RULES is
how many rules the policy has, of which the node may need fewer: 'edict node describe'
counts those. A policy that the node has no more is "dropped"; what was shown already, or was so when the watch began or in its --state,
and is sent once more, is "again". SIGINT ends it.

With --nats the events come over NATS, live and replayed, and only the keys, and
a state that must be pulled, come from --server. After new labels of the
node, what changed comes at once; of what stayed, some may come once more within half
a minute, as "again". With --nats and --trust, and no
--server, NATS is enough: where a state would be pulled, everything that the node
has is asked for instead.

With -o json, each event is one line:
  {"seq","type","policy_id","revision_id","fingerprint","rules","verified":true}
where seq is the event id, as a string of decimal digits, and "again":true is of what
is sent once more. "rules_omitted" counts the policy's rules that plain ones cannot say,
such as those with selectors: they are in the node's state.

While the events that come over SSE cannot be read, the state is pulled every 30 s
instead, and shown when the rules changed.

With --report, all that the node has now is reported as applied, as an agent would,
though it is not shown, and then each event.`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt.Trouble = a.tellTrouble
			if trust != "" {
				keys, err := readKeys(trust)
				if err != nil {
					return cli.Failed(cli.Unreadable, "%v", err)
				}
				opt.Trust = keys
			}
			if cmd.Flags().Changed("from") {
				id, err := policy.ParseEventID(from)
				if err != nil {
					return cli.Usage(cmd, "--from: %v", err)
				}
				opt.From = &id
			}
			if report && opt.From != nil {
				return cli.Usage(cmd, "--report is for a watch that knows all rules of the node; leave out --from")
			}
			return a.watch(cmd, args[0], opt, count, report)
		},
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	a.outputFlag(cmd)
	cmd.Flags().StringVar(&from, "from", "", "event id to begin after; 0 for all that the node has (default now)")
	cmd.Flags().StringVar(&opt.NATS, "nats", "", "NATS server, such as nats://127.0.0.1:4222, to follow on instead of --server")
	a.natsCredsFlag(cmd)
	a.natsContextFlag(cmd, false)
	cmd.Flags().StringVar(&opt.State, "state", "", "file that keeps what was seen, so that the next watch resumes there")
	cmd.Flags().StringVar(&trust, "trust", "", "file of trusted keys, as the plane shows them at /v1/keys (default those of --server)")
	cmd.Flags().BoolVar(&report, "report", false, "report all that the node has now, and then each event, as applied")
	countVar(cmd.Flags(), &count, "count", 0, "end after so many events; 0 never")
	return cmd
}

func (a nodeCommands) tellTrouble(err error, pause time.Duration) {
	fmt.Fprintf(a.stderr, "%s edict: %s; resuming in %s\n", stamp(time.Now()), cli.Escaped(explain(err), ""), pause.Round(time.Millisecond))
}

// errEnough ends a watch that has seen what it should.
var errEnough = errors.New("enough")

func (a nodeCommands) watch(cmd *cobra.Command, id string, opt node.Options, count int, report bool) error {
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	if opt.HTTP, err = a.creds.http(cmd, c.Server()); err != nil {
		return err
	}
	if opt.TLS, err = a.creds.tls(cmd.Context()); err != nil {
		return err
	}
	token, err := a.creds.natsToken(opt.NATS, opt.TLS)
	if err != nil {
		return err
	}
	opt.TokenFrom = token.Now
	if opt.Creds, err = a.creds.natsFile(); err != nil {
		return err
	}
	nodeID, err := policy.ParseNodeID(id)
	if err != nil {
		return cli.Usage(cmd, "%q is not a node id", id)
	}
	const patience = 5 * time.Second
	asked := c.Address()
	if opt.NATS != "" {
		asked += " or " + wire.ShownServers(opt.NATS)
	}
	mute := time.AfterFunc(patience, func() {
		fmt.Fprintf(a.stderr, "%s edict: there is no answer yet from %s; waiting for it (see --server and --nats)\n", stamp(time.Now()), asked)
	})
	defer mute.Stop()
	var names func(id uuid.UUID) string
	if a.format == formatTable {
		project, err := a.projectID(cmd)
		if err != nil {
			return err
		}
		names = watchedNames(cmd.Context(), c, project, id, opt.NATS == "")
	}
	server := c.Server()
	if opt.NATS != "" && opt.Trust != nil && !cmd.Flags().Changed("server") {
		server = ""
	}
	seen, shown := 0, shownRows{}
	applied := func() {}
	var f *node.Follower
	address := cmp.Or(wire.ShownServers(opt.NATS), shownAddress(server))
	tell := a.tellConnected(address)
	trouble := opt.Trouble
	opt.Trouble = func(err error, pause time.Duration) { mute.Stop(); trouble(err, pause) }
	header := sync.OnceFunc(func() {
		if a.format == formatTable {
			_ = a.tellLine(time.Time{}, "ID", "EVENT", "POLICY", "RULES", "FINGERPRINT") // the next line says if nobody reads
		}
	})
	reporting := sync.OnceFunc(func() {
		if report {
			fmt.Fprintf(a.stderr, "%s reporting as applied all that the node has now, %s, and then each event\n", stamp(time.Now()), cli.Counted(len(f.Rows()), "policy"))
		}
	})
	opt.Connected = func() { mute.Stop(); tell(f.Cursor()); reporting(); header(); applied() }
	f = node.NewFollower(server, nodeID, opt)
	if report {
		var stop func()
		applied, stop = a.startReports(cmd.Context(), c.Server(), opt.HTTP, nodeID, f)
		defer stop()
	}
	err = f.Run(cmd.Context(), func(e node.Event) error {
		came := time.Now()
		header()
		if err := a.tellEvent(e, shown, names); err != nil {
			return err
		}
		applied()
		if traced := a.applied(id); report && traced != nil && e.Traceparent != "" {
			traced([]string{e.Traceparent}, came, nil)
		}
		if seen++; seen == count {
			return errEnough
		}
		return nil
	})
	if n := f.Refused(); n > 0 {
		fmt.Fprintf(a.stderr, "edict: %s refused: not the plane's, or not meant for node %s\n", cli.Counted(n, "message"), nodeID)
	}
	switch {
	case errors.Is(err, errEnough):
		return nil
	case errors.Is(err, node.ErrUnknownNode):
		return fmt.Errorf("%w; see 'edict node list'", err)
	}
	return err
}

// tellConnected says that the stream is open, for the first time or again.
func (a nodeCommands) tellConnected(address string) func(after policy.EventID) {
	what := "connected to"
	return func(after policy.EventID) {
		fmt.Fprintf(a.stderr, "%s %s %s, after event id %s\n", time.Now().UTC().Format("15:04:05Z"), what, address, after)
		what = "resumed at"
	}
}

// readKeys reads the keys to trust.
func readKeys(file string) (*artifact.TrustSet, error) {
	text, err := document.ReadFile(file)
	if err != nil {
		return nil, errors.New(document.Unreadable(file, err).String())
	}
	keys, err := node.ParseKeys(text)
	if err == nil && len(keys.Keys(artifact.PlanePolicy)) == 0 {
		err = errors.New("there is no key of the policy plane in it")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; write into it what the plane shows: edict key list -o json", file, err)
	}
	return keys, nil
}

func (a nodeCommands) tellEvent(e node.Event, shown shownRows, names func(id uuid.UUID) string) error {
	w := watched{ID: e.ID, Type: e.Type, Verified: true}
	if p := e.Policy; p != nil {
		fp := base64.StdEncoding.EncodeToString(p.Fingerprint[:])
		w.PolicyID, w.RevisionID, w.Fingerprint, w.Rules = &p.PolicyID, &p.RevisionID, &fp, p.Rules
		w.Omitted = p.RulesOmitted
		w.Again = shown.again(p) || e.Again
	}
	switch a.format {
	case formatJSON:
		return json.NewEncoder(a.stdout).Encode(w)
	case formatYAML:
		fmt.Fprintln(a.stdout, "---")
		return a.printYAML(w)
	}
	return a.tellEventTo(w, e.Pulled, names)
}

// tellLine writes a line of the table. A terminal that is narrower than one is shown neither
// dates nor fingerprints.
func (a nodeCommands) tellLine(at time.Time, id, event, what, rules, fingerprint string) error {
	when, clock := "TIME", "TIME"
	if !at.IsZero() {
		when = stamp(at)
		_, clock, _ = strings.Cut(when, "T")
	}
	const most = 134 // with a slug of 26
	if width := cli.Width(a.stdout); width > 0 && width < most {
		_, err := fmt.Fprintf(a.stdout, "%-9s  %-19s  %-14s  %-26s %5s\n", clock, id, event, what, rules)
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "%-20s  %-19s  %-18s  %-26s %6s  %s\n", when, id, event, what, rules, fingerprint)
	return err
}

func (a nodeCommands) tellEventTo(w watched, pulled *node.State, names func(id uuid.UUID) string) error {
	event, id, rules, fp := w.Type, "-", "-", "-"
	if w.PolicyID != nil {
		var list []json.RawMessage
		if err := json.Unmarshal(w.Rules, &list); err != nil {
			return err
		}
		if w.Again {
			event = "again"
		}
		id, rules, fp = names(*w.PolicyID), fmt.Sprint(len(list)+w.Omitted), *w.Fingerprint
		if len(list)+w.Omitted == 0 {
			event, fp = "dropped", "-"
		}
	} else if pulled != nil {
		id = fmt.Sprintf("(pulled: %s)", cli.Counted(len(pulled.Rows), "policy"))
		fp = base64.StdEncoding.EncodeToString(pulled.Merged.Fingerprint[:])
	}
	return a.tellLine(time.Now(), fmt.Sprint(w.ID), event, id, rules, fp)
}
