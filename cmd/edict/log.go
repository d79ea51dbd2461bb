package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

func (a *app) logCommand() *cobra.Command {
	return group("log", "Verify the log, and settle what it lost", a.logVerifyCommand(), a.logAcceptCommand())
}

func (a *app) logVerifyCommand() *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Read the whole log and compare it with what was witnessed of it",
		Long: `Read the log from its first event to its last, compute the chain hash, and
compare it with every link of the witness, the stream EDICT_CHAIN. The first
fault is named: a hole, a lost tail, a changed event, or another log in the
place of the one that was witnessed. docs/recovery.md says what to do then.

The log is read from the NATS server of the plane at --server, from another one
(--nats, EDICT_NATS), or from the data directory of a stopped plane (--log).

Exit code 1: the log is damaged.`,
		Example: `  edict log verify
  edict log verify --log ./data -o json`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			src, err := a.openDamaged(cmd, f)
			if err != nil {
				return err
			}
			defer src.close()
			r, err := a.audit(cmd.Context(), src.conn)
			if err != nil {
				return err
			}
			return a.tellAudit(r)
		},
	}
	a.damagedLogFlags(cmd, &f)
	return cmd
}

// damagedLogFlags are for those who look at a log that may be damaged.
func (a *app) damagedLogFlags(cmd *cobra.Command, f *logFlags) {
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	a.logSourceFlags(cmd, f)
}

// openDamaged reaches the server that has the log, but not the log, which may be
// beyond opening.
func (a *app) openDamaged(cmd *cobra.Command, f logFlags) (*logSource, error) {
	if err := f.settle(cmd); err != nil {
		return nil, err
	}
	c, err := a.client(cmd)
	if err != nil {
		return nil, err
	}
	return a.openConn(cmd.Context(), f, c)
}

// auditResult is what `log verify` prints.
type auditResult struct {
	Log       string `json:"log"` // identity; empty: there is none
	First     uint64 `json:"first"`
	Last      uint64 `json:"last"`
	Verified  uint64 `json:"verified"`  // the last sequence that was read and agreed
	Hash      string `json:"hash"`      // the chain hash there, 64 hex digits
	Links     int    `json:"links"`     // compared with, or to be
	Witnessed uint64 `json:"witnessed"` // the last one's sequence
	// Unreadable is how many links are there and say nothing.
	Unreadable int            `json:"unreadable"`
	Accepted   []acceptedLoss `json:"accepted"`
	Restored   []acceptedLoss `json:"restored"`
	Damage     *damage        `json:"damage"` // null: the log is whole

	at    uint64         // the witness's last entry
	links []streams.Link // that stand
	high  uint64         // the highest sequence ever witnessed
	// unwitnessed: no link can be read.
	unwitnessed error
	// highID is the highest event id that may have been told of what was witnessed.
	highID policy.EventID
	log    *streams.Log
	chain  *streams.Chain
}

// acceptedLoss is a log that an operator took for the truth, or that was put back
// from a backup.
type acceptedLoss struct {
	Log  string    `json:"log"`
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
}

// damage is the first fault of a log.
type damage struct {
	Kind      string  `json:"kind"`
	From      uint64  `json:"from"` // the first sequence that is missing or may be wrong
	To        uint64  `json:"to"`   // the last
	LinkBelow uint64  `json:"link_below"`
	LinkAbove *uint64 `json:"link_above"` // null: nobody witnessed what came then
	Detail    string  `json:"detail"`
}

// audit reads the log that conn has. A damaged one is no error.
func (a *app) audit(ctx context.Context, conn *streams.Conn) (*auditResult, error) {
	r := &auditResult{Accepted: []acceptedLoss{}, Restored: []acceptedLoss{}}
	if err := r.readWitness(ctx, conn); err != nil {
		return nil, err
	}
	if _, there, err := streams.LogCreated(ctx, conn); err != nil {
		return nil, err
	} else if !there {
		err := streams.MissingLog(ctx, conn)
		if err == nil {
			err = cli.Failed(cli.NotFound, "there is no log: %s is not on that server", streams.LogStream)
		}
		return r, r.found(err)
	}
	log, err := streams.OpenLog(ctx, conn, streams.LogOptions{})
	if err != nil {
		return r, r.found(err)
	}
	r.log, r.Log, r.First = log, log.ID(), log.First()
	state, err := log.State(ctx)
	if err != nil {
		return nil, err
	}
	r.Last = state.Last
	vouched := log.Vouch(ctx, r.links)
	if vouched == nil {
		vouched = r.unwitnessed
	}
	chain, err := a.readLog(ctx, r)
	r.Verified, r.Hash = chain.Seq, hex.EncodeToString(chain.Hash[:])
	var other *streams.DamagedError
	if errors.As(vouched, &other) && other.Damage == streams.DamageOther {
		// The birth tells more than what follows from it; but a log that was
		// restored has the same events.
		if err == nil && r.Last >= r.Witnessed {
			other.Detail += "; but its events are the ones that were witnessed: it was copied or restored"
		}
		err = other
	}
	if err == nil {
		err = vouched
	}
	return r, r.found(err)
}

func (r *auditResult) readWitness(ctx context.Context, conn *streams.Conn) error {
	chain, links, at, err := witnessed(ctx, conn)
	if err != nil || chain == nil {
		return err
	}
	r.chain = chain
	r.Accepted, r.Restored = []acceptedLoss{}, []acceptedLoss{}
	for _, l := range links {
		r.high, r.highID = max(r.high, l.Seq), max(r.highID, l.LastID())
		if l.Accepted {
			r.Accepted = append(r.Accepted, acceptedLoss{l.Log, l.Seq, l.Time})
		}
		if l.Restored {
			r.Restored = append(r.Restored, acceptedLoss{l.Log, l.Seq, l.Time})
		}
	}
	r.at, r.links = at, streams.Standing(links)
	r.Unreadable, r.unwitnessed = streams.Unreadable(links), streams.Unwitnessed(links)
	r.Links = len(r.links)
	if n := len(r.links); n > 0 {
		r.Witnessed = r.links[n-1].Seq
	}
	return nil
}

func (a *app) readLog(ctx context.Context, r *auditResult) (projector.Chain, error) {
	bar := progress.Start(a.stderr, "verifying", "events", int64(r.Last+1-r.First))
	defer bar.Stop()
	return projector.Audit(ctx, r.log, r.First, r.Last, r.links, func(seq uint64) { bar.Set(int64(seq + 1 - r.First)) })
}

// found notes the damage that err tells of, and passes on any other error.
func (r *auditResult) found(err error) error {
	var d *streams.DamagedError
	if !errors.As(err, &d) {
		return err
	}
	r.Damage = &damage{Kind: d.Damage, From: d.From, To: d.To, Detail: d.Detail}
	for _, l := range r.links {
		if l.Seq < d.From {
			r.Damage.LinkBelow = max(r.Damage.LinkBelow, l.Seq)
		}
	}
	i := slices.IndexFunc(r.links, func(l streams.Link) bool { return l.Seq >= d.To && l.Seq > 0 })
	if i >= 0 {
		r.Damage.LinkAbove = &r.links[i].Seq
	}
	return nil
}

// tellAudit prints the result. A damaged log ends the command with 1.
func (a *app) tellAudit(r *auditResult) error {
	err := a.print(r, func(w io.Writer) {
		fmt.Fprintf(w, "Log:        %s, events %d to %d\n", r.Log, r.First, r.Last)
		fmt.Fprintf(w, "Witness:    %d links, the last at %d\n", r.Links, r.Witnessed)
		if r.Unreadable > 0 {
			fmt.Fprintf(w, "Unreadable: %d links\n", r.Unreadable)
		}
		for _, l := range r.Accepted {
			fmt.Fprintf(w, "Accepted:   %s, log %s at %d\n", stamp(l.Time), l.Log, l.Seq)
		}
		for _, l := range r.Restored {
			fmt.Fprintf(w, "Restored:   %s, log %s at %d\n", stamp(l.Time), l.Log, l.Seq)
		}
		fmt.Fprintf(w, "Read up to: %d, chain hash %s\n", r.Verified, r.Hash)
		if d := r.Damage; d != nil {
			fmt.Fprintf(w, "Damage:     %s, %s\n", d.Kind, d.where())
		}
	})
	if err != nil || r.Damage == nil {
		return err
	}
	return cli.Failed(cli.Differs, "the log is damaged (%s): %s; docs/recovery.md says what to do", r.Damage.Kind, r.Damage.Detail)
}

func (d *damage) where() string {
	above := "the end"
	if d.LinkAbove != nil {
		above = fmt.Sprintf("the link at %d", *d.LinkAbove)
	}
	below := "the beginning"
	if d.LinkBelow > 0 {
		below = fmt.Sprintf("the link at %d", d.LinkBelow)
	}
	return fmt.Sprintf("events %d to %d, between %s and %s", d.From, d.To, below, above)
}
