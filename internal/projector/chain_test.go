package projector

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// tape is a log in memory: messages with sequences from 1 on.
type tape struct {
	msgs  []streams.Message
	batch int
}

func (l tape) Follow(ctx context.Context, from uint64) iter.Seq2[[]streams.Message, error] {
	return func(yield func([]streams.Message, error) bool) {
		for rest := l.msgs[from-1:]; len(rest) > 0; {
			n := min(l.batch, len(rest))
			if !yield(rest[:n], nil) {
				return
			}
			rest = rest[n:]
		}
		<-ctx.Done()
	}
}

func (l tape) Get(_ context.Context, seq uint64) (streams.Message, error) {
	if seq == 0 || seq > uint64(len(l.msgs)) {
		return streams.Message{}, streams.ErrNotFound
	}
	return l.msgs[seq-1], nil
}

// linksOf witnesses msgs at seqs.
func linksOf(msgs []streams.Message, seqs []uint64) (links []streams.Link) {
	var c Chain
	for _, m := range msgs {
		c.Add(m)
		if slices.Contains(seqs, c.Seq) {
			links = append(links, streams.Link{Log: fmt.Sprint(born.UnixNano()), Seq: c.Seq, Hash: c.Hash})
		}
	}
	return links
}

// mutate changes one thing about one event, or the order of two.
func mutate(t *rapid.T, msgs []streams.Message, at int) (kind string, out []streams.Message, first uint64) {
	out = slices.Clone(msgs)
	m := &out[at]
	kind = rapid.SampledFrom([]string{"body", "subject", "id", "order"}).Draw(t, "mutation")
	switch kind {
	case "body":
		m.Body = slices.Clone(m.Body)
		i := rapid.IntRange(0, len(m.Body)-1).Draw(t, "byte")
		m.Body[i] ^= byte(1 << rapid.IntRange(0, 7).Draw(t, "bit"))
	case "subject":
		m.Subject = m.Subject[:len(m.Subject)-1] + "~"
	case "id":
		m.Body = policy.Append(nil, policy.NodeUpdated{ID: uuid.UUID{9}, Project: tenant(1), Node: "id"})
	case "order":
		other := rapid.IntRange(0, len(out)-1).Filter(func(n int) bool { return n != at }).Draw(t, "other")
		out[at], out[other] = out[other], out[at]
		out[at].Seq, out[other].Seq = uint64(at+1), uint64(other+1)
		at = min(at, other)
	}
	return kind, out, uint64(at + 1)
}

// TestAMutationIsCaughtAtTheNextLink: by a fold that runs, which stands at the
// link below, by one that had passed before the links came, and by who reads the
// log. Above the last link nobody can know.
func TestAMutationIsCaughtAtTheNextLink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 60).Draw(t, "events")
		var j journal
		for i := range n {
			j.add(policy.NodeUpdated{ID: evt(i), Project: tenant(1), Node: policy.NodeID(fmt.Sprintf("n%d", i%7))})
		}
		seqs := rapid.SliceOfNDistinct(rapid.Uint64Range(1, uint64(n)), 0, 6, rapid.ID[uint64]).Draw(t, "links")
		links := linksOf(j.msgs, seqs)
		kind, msgs, first := mutate(t, j.msgs, rapid.IntRange(0, n-1).Draw(t, "at"))
		below, above := uint64(0), uint64(0)
		for _, l := range links {
			if l.Seq < first {
				below = l.Seq
			} else if above == 0 {
				above = l.Seq
			}
		}
		batch := rapid.IntRange(1, 20).Draw(t, "batch")
		caught := func(how string, err error) {
			var d *streams.DamagedError
			require.ErrorAs(t, err, &d, "%s: %s of %d", how, kind, first)
			require.Equal(t, [3]any{streams.DamageChanged, below + 1, above}, [3]any{d.Damage, d.From, d.To}, how)
		}

		for _, log := range []tape{{j.msgs, batch}, {msgs, batch}} {
			whole := above == 0 || &log.msgs[0] == &j.msgs[0]
			_, err := Audit(t.Context(), log, Chain{}, uint64(n), links, func(uint64) {})
			running, done := open(t, links), make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			go func() { done <- running.Run(ctx, log) }()
			if whole {
				require.NoError(t, err)
				require.NoError(t, running.Wait(t.Context(), uint64(n)))
				cancel()
				require.NoError(t, <-done)
			} else {
				caught("audit", err)
				caught("run", <-done)
				require.Equal(t, below, running.Applied(), "nothing is folded that the next link does not confirm")
			}
			cancel()
			require.NoError(t, running.Close())

			late := open(t, nil)
			require.NoError(t, late.Apply(log.msgs))
			err = late.Witness(links)
			if whole {
				require.NoError(t, err)
			} else {
				caught("late", err)
			}
			require.NoError(t, late.Close())
		}
	})
}

// open is a store in memory.
func open(t require.TestingT, links []streams.Link) *Projector {
	p, err := Open("store", Options{Partitions: testPartitions, Created: born, Links: links, fs: vfs.NewMem()})
	require.NoError(t, err)
	return p
}

// nodesLog is a log of n events.
func nodesLog(n int) []streams.Message {
	var j journal
	for i := range n {
		j.add(policy.NodeUpdated{ID: evt(i), Project: tenant(1), Node: policy.NodeID(fmt.Sprintf("n%d", i%97))})
	}
	return j.msgs
}

// TestAFoldKnowsItsLinks: those at the last multiples of a thousand, however it
// was started and fed; two that saw the same log agree, and two that did not
// differ from the first such link on.
func TestAFoldKnowsItsLinks(t *testing.T) {
	gen.Unraced()
	msgs := nodesLog(3500)
	want := linksOf(msgs, []uint64{1000, 2000, 3000})
	p := open(t, nil)
	require.Empty(t, p.Links())
	require.NoError(t, p.Apply(msgs[:1500]))
	require.NoError(t, p.Apply(msgs[1500:]))
	require.Equal(t, want, p.Links())
	require.Equal(t, linksOf(msgs, []uint64{3500})[0], p.Head())

	msgs[1700].Body = []byte("{}")
	o := open(t, nil)
	require.NoError(t, o.Apply(msgs))
	differ := func(theirs []streams.Link) [2]uint64 {
		seq, agreed := p.Differ(theirs)
		return [2]uint64{seq, agreed}
	}
	require.Equal(t, [2]uint64{0, 3000}, differ(p.Links()))
	require.Equal(t, [2]uint64{2000, 1000}, differ(o.Links()))
	require.Equal(t, [2]uint64{0, 1000}, differ(o.Links()[:1]), "what both know, they see alike")
	require.NoError(t, errors.Join(p.Close(), o.Close()))
}

// TestLateLinksOfAFarPastAreComparedAtThousands: the hash of each event is
// remembered for a few thousand events only.
func TestLateLinksOfAFarPastAreComparedAtThousands(t *testing.T) {
	gen.Unraced()
	msgs := nodesLog(6000)
	links := linksOf(msgs, []uint64{500, 1000, 5990})
	p := open(t, nil)
	require.NoError(t, p.Apply(msgs))
	require.NoError(t, p.Witness(links))
	for i, caught := range []bool{false, true, true} {
		bad := slices.Clone(links)
		bad[i].Hash[0] ^= 1
		require.Equal(t, caught, p.Witness(bad[i:i+1]) != nil, "link at %d", bad[i].Seq)
	}
	var d *streams.DamagedError
	links[0].Log = "1"
	require.ErrorAs(t, p.Witness(links[:1]), &d)
	require.Equal(t, streams.DamageOther, d.Damage)
	require.NoError(t, p.Close())
}

// TestEventsDoNotWaitForEverForALink: where nobody witnessed for a time, the
// next link is far.
func TestEventsDoNotWaitForEverForALink(t *testing.T) {
	msgs := nodesLog(maxHeld + 1500)
	far := streams.Link{Log: fmt.Sprint(born.UnixNano()), Seq: 1 << 40}
	p := open(t, []streams.Link{far})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, tape{msgs, 1000}) }()
	require.NoError(t, p.Wait(t.Context(), maxHeld+1))
	cancel()
	require.NoError(t, <-done)
	require.NoError(t, p.Close())
}

// A log of a million events, or of a hundred that are slow to read, must not keep a
// process that is to stop.
func TestAnAuditEndsWithItsContext(t *testing.T) {
	msgs := heavy(t, 6, 1, "")
	ctx, end := context.WithCancel(t.Context())
	c, err := Audit(ctx, tape{msgs, 2}, Chain{}, uint64(len(msgs)), nil, func(uint64) { end() })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, uint64(2), c.Seq, "what had come before is all that is read")
}
