package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// ledger is a log and its witness on a server of the test, without a plane.
type ledger struct {
	t      *testing.T
	data   string // as --data names it
	server *streams.Server
	conn   *streams.Conn
	log    *streams.Log
	chain  *streams.Chain
	run    projector.Chain
	at     uint64
	close  func()
}

func openLedger(t *testing.T, data string) *ledger {
	server, err := streams.StartServer(streams.ServerOptions{Dir: filepath.Join(data, "nats"), Relaxed: true})
	require.NoError(t, err)
	conn, err := streams.Connect(t.Context(), streams.ConnectOptions{Server: server})
	require.NoError(t, err)
	l := &ledger{t: t, data: data, server: server, conn: conn, close: func() { conn.Close(); server.Close() }}
	l.log, err = streams.OpenLog(t.Context(), conn, streams.LogOptions{})
	require.NoError(t, err)
	l.chain, err = streams.OpenChain(t.Context(), conn)
	require.NoError(t, err)
	l.run.Seq = l.log.First() - 1
	return l
}

// add appends events about n nodes, and a link behind them.
func (l *ledger) add(n int) {
	l.grow(n)
	l.link(l.run.Hash)
}

// grow appends events that nobody witnesses.
func (l *ledger) grow(n int) {
	var as []streams.Append
	for i := range n {
		as = append(as, streams.Append{Bulk: true, Event: policy.NodeUpdated{
			ID: uuid.New(), Project: uuid.UUID{1}, Node: policy.NodeID(fmt.Sprintf("n-%d", int(l.run.Seq)+i+1)),
		}})
	}
	seqs, err := l.log.PublishAll(l.t.Context(), as)
	require.NoError(l.t, err)
	for msgs, err := range l.log.Follow(l.t.Context(), seqs[0]) {
		require.NoError(l.t, err)
		for _, m := range msgs {
			l.run.Add(m)
		}
		if l.run.Seq == seqs[n-1] {
			break
		}
	}
}

// lose deletes the log.
func (l *ledger) lose() {
	nc, err := nats.Connect("", nats.InProcessServer(l.server))
	require.NoError(l.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(l.t, err)
	require.NoError(l.t, js.DeleteStream(l.t.Context(), streams.LogStream))
}

func (l *ledger) link(hash [32]byte) {
	at, err := l.chain.Append(l.t.Context(), l.at, streams.Link{Log: l.log.ID(), Base: l.log.Base(), Seq: l.run.Seq, Hash: hash})
	require.NoError(l.t, err)
	l.at = at
}

// end is the highest event id that may have been told so far.
func (l *ledger) end() policy.EventID { return policy.EndOf(l.log.Base(), l.run.Seq) }

// edict runs a command in this process.
func edict(t *testing.T, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	a := &app{console: console{stdout: &out, stderr: &errs}}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errs)
	err := root.ExecuteContext(t.Context())
	return a.exit(err), out.String(), errs.String()
}

// verify is what `log verify` says of the ledger's data.
func verify(t *testing.T, data string) (code int, r integrity.Report) {
	code, out, errs := edict(t, "log", "verify", "--log", data, "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(out), &r), "%s%s", out, errs)
	if r.Damage != nil {
		require.Contains(t, errs, "docs/recovery.md")
	}
	return code, r
}

const messages = "nats/jetstream/$G/streams/EDICT_LOG/msgs"

// damageFrom rewrites a stopped log from where it names node n on.
func damageFrom(t *testing.T, data string, n int, f func(before, from []byte) []byte) {
	blk := filepath.Join(data, messages, "1.blk")
	text, err := os.ReadFile(blk)
	require.NoError(t, err)
	at := bytes.Index(text, fmt.Appendf(nil, `"node_id":"n-%d"`, n))
	require.Positive(t, at)
	require.NoError(t, os.WriteFile(blk, f(text[:at], text[at:]), 0o600))
}

func cutFrom(t *testing.T, data string, n int) {
	damageFrom(t, data, n, func(before, _ []byte) []byte { return before })
	require.NoError(t, os.Remove(filepath.Join(data, messages, "index.db")))
}

func TestAWholeLogIsVerified(t *testing.T) {
	l := openLedger(t, t.TempDir())
	l.add(20)
	l.add(10)
	l.close()
	code, r := verify(t, l.data)
	require.Zero(t, code)
	require.Nil(t, r.Damage)
	require.Equal(t, [5]uint64{1, 30, 30, 2, 30}, [5]uint64{r.First, r.Last, r.Verified, uint64(r.Links), r.Witnessed})
	require.Equal(t, fmt.Sprintf("%x", l.run.Hash), r.Hash)
	code, out, errs := edict(t, "log", "accept", "--log", l.data, "--yes")
	require.Zero(t, code)
	require.Contains(t, out, "2 links")
	require.Contains(t, errs, "nothing to accept")
}

func TestAVerifiedLogIsSaidToAgreeAsFarAsItIsWitnessed(t *testing.T) {
	l := openLedger(t, t.TempDir())
	l.add(20)
	l.grow(3)
	l.close()
	code, out, _ := edict(t, "log", "verify", "--log", l.data)
	require.Zero(t, code)
	require.Contains(t, out, "\nAgrees:     with the witness, up to event 20; it has no link yet of events 21 to 23\n")
}

// TestDamageIsNamedBetweenItsLinks builds logs of three links, at 10, 20 and
// 30, and damages them.
func TestDamageIsNamedBetweenItsLinks(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(t *testing.T, l *ledger)
		want integrity.Damage
	}{
		{"a flipped byte cannot be read", func(t *testing.T, l *ledger) {
			l.close()
			damageFrom(t, l.data, 15, func(before, from []byte) []byte {
				from[13] ^= 1
				return append(before, from...)
			})
		}, integrity.Damage{Kind: streams.DamageHole, From: 15, To: 15, LinkBelow: 10, LinkAbove: ptr(20)}},
		{"the last event cannot be read, and the server counts it", func(t *testing.T, l *ledger) {
			l.close()
			damageFrom(t, l.data, 30, func(before, from []byte) []byte { return append(before, from[:len(from)-8]...) })
		}, integrity.Damage{Kind: streams.DamageHole, From: 30, To: 30, LinkBelow: 20, LinkAbove: ptr(30)}},
		{"a lost tail", func(t *testing.T, l *ledger) {
			l.close()
			cutFrom(t, l.data, 25)
		}, integrity.Damage{Kind: streams.DamageTruncated, From: 25, To: 30, LinkBelow: 20, LinkAbove: ptr(30)}},
		{"another event than the one that was witnessed", func(_ *testing.T, l *ledger) {
			l.grow(10)
			hash := l.run.Hash
			hash[0] ^= 1
			l.link(hash)
			l.close()
		}, integrity.Damage{Kind: streams.DamageChanged, From: 31, To: 40, LinkBelow: 30, LinkAbove: ptr(40)}},
		{"no log", func(_ *testing.T, l *ledger) {
			l.lose()
			l.close()
		}, integrity.Damage{Kind: streams.DamageGone, To: 30, LinkAbove: ptr(30)}},
		{"another log", func(t *testing.T, l *ledger) {
			l.lose()
			l.close()
			openLedger(t, l.data).close()
		}, integrity.Damage{Kind: streams.DamageOther, To: 30, LinkAbove: ptr(30)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := openLedger(t, t.TempDir())
			for range 3 {
				l.add(10)
			}
			c.harm(t, l)
			code, r := verify(t, l.data)
			require.Equal(t, cli.Differs, code)
			require.NotNil(t, r.Damage)
			r.Damage.Detail = ""
			require.Equal(t, c.want, *r.Damage)
		})
	}
}

// TestALogWithoutItsLastEventIsWaitedForByNobody: commands that read the log to its end say what is
// missing, and how to go on.
func TestALogWithoutItsLastEventIsWaitedForByNobody(t *testing.T) {
	l := openLedger(t, t.TempDir())
	l.add(10)
	l.close()
	damageFrom(t, l.data, 10, func(before, from []byte) []byte { return append(before, from[:len(from)-8]...) })
	for _, args := range [][]string{
		{"log", "export", "--to", filepath.Join(t.TempDir(), "archive")},
		{"replay"},
	} {
		code, _, errs := edict(t, append(args, "--log", l.data)...)
		require.NotZero(t, code)
		require.Contains(t, errs, "EDICT_LOG lacks sequence 10", args)
	}
	code, out, _ := edict(t, "log", "accept", "--log", l.data, "--yes")
	require.NotZero(t, code, "a hole is not accepted: %s", out)
}

func ptr(n uint64) *uint64 { return &n }

// accepted accepts a damaged log and returns what `log verify` says then.
func accepted(t *testing.T, data string) integrity.Report {
	code, _, errs := edict(t, "log", "accept", "--log", data)
	require.Equal(t, cli.Differs, code)
	require.Contains(t, errs, "say --yes")
	code, before := verify(t, data)
	require.Equal(t, cli.Differs, code, "without --yes nothing changed")
	require.Empty(t, before.Accepted)

	code, _, errs = edict(t, "log", "accept", "--log", data, "--yes")
	require.Zero(t, code, errs)
	code, r := verify(t, data)
	require.Zero(t, code)
	require.Nil(t, r.Damage)
	require.Len(t, r.Accepted, 1)
	return r
}

// below requires that an event id is of another log than the ledger's is now.
func (l *ledger) below(id policy.EventID) {
	l.t.Helper()
	_, ours := id.Seq(l.log.Base())
	require.False(l.t, ours, "%s makes a node pull", id)
}

// TestALostTailIsAccepted: what comes then is above all that was witnessed,
// and every id that was told so far makes a node pull.
func TestALostTailIsAccepted(t *testing.T) {
	l := openLedger(t, t.TempDir())
	l.add(30)
	end := l.end()
	l.close()
	cutFrom(t, l.data, 25)
	r := accepted(t, l.data)
	require.EqualValues(t, 30, r.Last)
	l = openLedger(t, l.data)
	defer l.close()
	l.below(end)
	require.EqualValues(t, 1, l.log.First())
}

// TestALostTailWasToldBeyondItsWitness: a worker that was killed left no link at
// the end of what it had told, and the base was above its time already.
func TestALostTailWasToldBeyondItsWitness(t *testing.T) {
	l := openLedger(t, t.TempDir())
	require.NoError(t, l.log.Rebase(t.Context(), policy.EndOf(l.log.Base()+1<<30, 1)))
	l.add(30)
	told := policy.EndOf(l.log.Base(), l.run.Seq+900)
	l.close()
	cutFrom(t, l.data, 25)
	accepted(t, l.data)
	l = openLedger(t, l.data)
	defer l.close()
	l.below(told)
}

func TestALostLogIsMadeAnewAboveAllVersions(t *testing.T) {
	for _, remade := range []bool{false, true} {
		l := openLedger(t, t.TempDir())
		l.add(30)
		end := l.end()
		l.lose()
		l.close()
		if remade { // by somebody who did not ask
			openLedger(t, l.data).close()
		}
		r := accepted(t, l.data)
		require.GreaterOrEqual(t, r.Last, uint64(30))
		l = openLedger(t, l.data)
		l.below(end)
		l.close()
	}
}

// A log that was based far above its time, after a loss of its own, is replaced
// by one above it: the witness remembers.
func TestALostLogIsMadeAnewAboveTheBaseThatItHad(t *testing.T) {
	l := openLedger(t, t.TempDir())
	require.NoError(t, l.log.Rebase(t.Context(), policy.EndOf(l.log.Base()+1<<30, 1)))
	l.add(3)
	end := l.end()
	l.lose()
	l.close()
	accepted(t, l.data)
	l = openLedger(t, l.data)
	defer l.close()
	l.below(end)
}

// TestALogThatWasPutBackIsDeclared: a snapshot of the disk leaves no trace, so an
// operator says so.
func TestALogThatWasPutBackIsDeclared(t *testing.T) {
	l := openLedger(t, t.TempDir())
	l.add(3)
	end := l.end()
	l.close()
	code, _, errs := edict(t, "log", "accept", "--log", l.data, "--restored")
	require.Equal(t, cli.Differs, code)
	require.Contains(t, errs, "say --yes")
	l = openLedger(t, l.data)
	_, ours := end.Seq(l.log.Base())
	require.True(t, ours, "without --yes nothing changed")
	l.close()

	code, _, errs = edict(t, "log", "accept", "--log", l.data, "--restored", "--yes")
	require.Zero(t, code, errs)
	code, r := verify(t, l.data)
	require.Zero(t, code)
	require.Nil(t, r.Damage)
	require.Len(t, r.Restored, 1)
	require.EqualValues(t, 3, r.Restored[0].Seq)
	require.EqualValues(t, 3, r.Last, "nothing was lost of what it has")
	l = openLedger(t, l.data)
	defer l.close()
	l.below(end + 1<<23<<22) // and what the backup does not know
}

// TestALogPutBackBelowItsWitnessIsNamed: the stream of the log was put back, with
// the base that it had, and the witness was not.
func TestALogPutBackBelowItsWitnessIsNamed(t *testing.T) {
	l := openLedger(t, t.TempDir())
	l.add(3)
	at, err := l.chain.Append(t.Context(), l.at, streams.Link{Log: l.log.ID(), Base: l.log.Base() + 10, Seq: l.run.Seq, Hash: l.run.Hash})
	require.NoError(t, err)
	l.at = at
	end := policy.EndOf(l.log.Base()+10, l.run.Seq)
	l.close()
	code, r := verify(t, l.data)
	require.Equal(t, cli.Differs, code)
	require.Contains(t, r.Damage.Detail, "put back from a backup")
	accepted(t, l.data)
	l = openLedger(t, l.data)
	defer l.close()
	l.below(end)
}

// TestAWitnessThatCannotBeReadIsMadeAnew: some of its links, and the log is
// verified by the others; all of them, and only an operator may say that the log
// is the one.
func TestAWitnessThatCannotBeReadIsMadeAnew(t *testing.T) {
	for _, all := range []bool{false, true} {
		l := openLedger(t, t.TempDir())
		l.add(10)
		l.add(10)
		l.close()
		blk := filepath.Join(l.data, "nats/jetstream/$G/streams/EDICT_CHAIN/msgs/1.blk")
		text, err := os.ReadFile(blk)
		require.NoError(t, err)
		text[bytes.Index(text, []byte(`"hash":"`))+10] ^= 1
		if all {
			text[bytes.LastIndex(text, []byte(`"hash":"`))+10] ^= 1
		}
		require.NoError(t, os.WriteFile(blk, text, 0o600))
		code, r := verify(t, l.data)
		if !all {
			require.Zero(t, code)
			require.Equal(t, [2]int{1, 1}, [2]int{r.Links, r.Unreadable})
			continue
		}
		require.Equal(t, cli.Differs, code)
		require.Equal(t, streams.DamageUnwitnessed, r.Damage.Kind)
		accepted(t, l.data)
	}
}
