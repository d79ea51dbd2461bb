package projector

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// openPast opens a store whose ids have a base, and a past of some size.
func (d disk) openPast(t require.TestingT, window time.Duration, most int) *Projector {
	p, err := Open("store", Options{
		Partitions: testPartitions, Created: born, Base: testBase, fs: d.fs, bulk: 7, Past: window, PastBytes: most,
	})
	require.NoError(t, err)
	return p
}

var almanacNodes = []policy.NodeID{"n0", "n1", "n2", "n3", "stranger"}

// ids are places to resume from: the ends of sequences, all that was said, and
// their neighbours.
func (a *almanac) ids() (out []policy.EventID) {
	out = append(out, 0, policy.NewEventID(testBase-1, 1<<19, 3), policy.NewEventID(testBase, 0, 0))
	for seq := range a.has {
		out = append(out, policy.EndOf(testBase, uint64(seq)))
		for _, n := range almanacNodes {
			for _, item := range a.has[seq][n] {
				out = append(out, item.ID, item.ID-1)
			}
			for _, item := range a.lost[seq][n] {
				out = append(out, item.ID, item.ID-1)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// foldAnyhow folds a log by turns event by event, in batches and in bulk, with
// restarts and copies between.
func foldAnyhow(t *rapid.T, d disk, msgs []streams.Message, window time.Duration, most int) *Projector {
	p := d.openPast(t, window, most)
	for at, copies := 0, 0; at < len(msgs); {
		to := rapid.IntRange(at+1, len(msgs)).Draw(t, "to")
		if rapid.Bool().Draw(t, "in bulk") {
			require.NoError(t, p.Rebuild(context.Background(), cut(t, msgs), uint64(to)))
		} else {
			require.NoError(t, p.Apply(msgs[rapid.IntRange(0, at).Draw(t, "again"):to]))
		}
		at = to
		switch rapid.IntRange(0, 3).Draw(t, "then") {
		case 0:
			before := summary(p)
			require.NoError(t, p.Close())
			p = d.openPast(t, window, most)
			require.Equal(t, before, summary(p))
		case 1:
			dir := fmt.Sprint("copy", copies)
			copies++
			before := summary(p)
			_, err := p.Checkpoint(context.Background(), dir)
			require.NoError(t, err)
			require.NoError(t, p.Close())
			opt := p.opt
			p, err = Open(dir, opt)
			require.NoError(t, err)
			require.Equal(t, before, summary(p))
			d.fs, opt.fs = p.opt.fs, nil
			require.NoError(t, p.Close())
			require.NoError(t, d.fs.RemoveAll("store"))
			require.NoError(t, d.fs.Rename(dir, "store"))
			p = d.openPast(t, window, most)
		}
	}
	return p
}

// foldBriefly folds the log up to an event, and the rest in a brief store that goes on from it.
func foldBriefly(t *rapid.T, msgs []streams.Message, window time.Duration, most int) *Projector {
	d := newDisk()
	p := d.openPast(t, window, most)
	cut := rapid.IntRange(0, len(msgs)).Draw(t, "brief from")
	require.NoError(t, p.Apply(msgs[:cut]))
	require.NoError(t, p.Close())
	opt := p.opt
	opt.Brief = true
	p, err := Open("store", opt)
	require.NoError(t, err)
	require.NoError(t, p.Apply(msgs[cut:]))
	require.Zero(t, p.state.kept.formers.len(), "nobody has asked yet")
	return p
}

// TestThePastIsWhatANodeMissed: at every event, from any id, the read model
// says what the almanac says; and so does one that was folded in any other way.
func TestThePastIsWhatANodeMissed(t *testing.T) {
	gen.Unraced()
	rapid.Check(t, func(rt *rapid.T) {
		a := drawAlmanac(rt, 40)
		p := newDisk().openPast(rt, 0, 0)
		defer func() { require.NoError(rt, p.Close()) }()
		ids := a.ids()
		for _, m := range a.msgs {
			require.NoError(rt, p.Apply([]streams.Message{m}))
			for _, n := range almanacNodes {
				a.requirePast(rt, p, n, rapid.SampledFrom(ids).Draw(rt, "after"))
			}
		}
		other := foldAnyhow(rt, newDisk(), a.msgs, 0, 0)
		defer func() { require.NoError(rt, other.Close()) }()
		brief := foldBriefly(rt, a.msgs, 0, 0)
		defer func() { require.NoError(rt, brief.Close()) }()
		for _, n := range almanacNodes {
			for _, id := range ids {
				past := a.requirePast(rt, p, n, id)
				require.Equal(rt, past, a.requirePast(rt, other, n, id))
				require.Equal(rt, past, a.requirePast(rt, brief, n, id))
			}
		}
		requireSameDigest(rt, p, other)
	})
}

func requireSameDigest(t require.TestingT, p, q *Projector) {
	a, err := p.Digest(context.Background())
	require.NoError(t, err)
	b, err := q.Digest(context.Background())
	require.NoError(t, err)
	require.Equal(t, a, b)
}

// TestWhatIsToldLiveIsWhatAResumeSays: a node that hears every edge from any
// event on comes to the same as one that resumes from there, and no id says two
// things.
func TestWhatIsToldLiveIsWhatAResumeSays(t *testing.T) {
	gen.Unraced()
	rapid.Check(t, func(rt *rapid.T) {
		a := drawAlmanac(rt, 40)
		p := newDisk().openPast(rt, 0, 0)
		defer func() { require.NoError(rt, p.Close()) }()
		ear := listen(p)
		for _, m := range cut(rt, a.msgs).batches {
			require.NoError(rt, p.Apply(m))
		}
		live := liveOf(rt, p, ear)
		for seq := uint64(1); seq <= p.Applied(); seq++ {
			for _, n := range almanacNodes {
				require.Equal(rt, a.live(n, seq), ofSeq(live[n], seq), "%s at %d", n, seq)
			}
		}
		for _, n := range almanacNodes {
			for cursor := range a.has {
				if a.has[len(a.msgs)][n] != nil {
					requireSameEnd(rt, a, p, n, uint64(cursor), live[n])
				}
			}
		}
	})
}

// liveOf is what every node heard.
func liveOf(t require.TestingT, p *Projector, ear *ear) map[policy.NodeID][]PastItem {
	live := map[policy.NodeID][]PastItem{}
	last := policy.EventID(0)
	for _, e := range ear.take(t) {
		require.Greater(t, e.ID, last)
		last = e.ID
		item := e.Item
		item.Payload = nil
		for _, n := range nodeIDs(e.Have) {
			live[n] = append(live[n], PastItem{Item: item})
			require.True(t, e.Have.Has(NodeRef(p.state.nodes[n].ordinal)))
			require.False(t, e.Lost.Has(NodeRef(p.state.nodes[n].ordinal)))
		}
		item.Fingerprint = [32]byte{}
		item.Revision = e.Gone().Revision
		for _, n := range nodeIDs(e.Lost) {
			live[n] = append(live[n], PastItem{Item: item, Gone: true})
		}
	}
	return live
}

func ofSeq(items []PastItem, seq uint64) (out []PastItem) {
	for _, i := range items {
		if i.Seq == seq {
			out = append(out, i)
		}
	}
	return out
}

// requireSameEnd takes a node from a cursor to the end, twice.
func requireSameEnd(t require.TestingT, a *almanac, p *Projector, n policy.NodeID, cursor uint64, live []PastItem) {
	past := a.requirePast(t, p, n, policy.EndOf(testBase, cursor))
	said := map[policy.EventID]PastItem{}
	heard, resumed := map[thing]PastItem{}, map[thing]PastItem{}
	for x, item := range a.has[cursor][n] {
		heard[x], resumed[x] = item, item
	}
	take := func(to map[thing]PastItem, item PastItem) {
		if was, ok := said[item.ID]; ok {
			require.Equal(t, was, item, "one id says two things")
		}
		said[item.ID] = item
		x := thing{item.Policy, item.Kind, item.Name}
		if item.Gone {
			delete(to, x)
		} else {
			to[x] = item
		}
	}
	for _, item := range live {
		if item.Seq > cursor {
			take(heard, item)
		}
	}
	for _, item := range past.Items {
		take(resumed, item)
	}
	end := a.has[p.Applied()][n]
	require.Equal(t, contents(end), contents(heard), "%s from %d", n, cursor)
	require.Equal(t, contents(end), contents(resumed), "%s from %d", n, cursor)
}

func contents(m map[thing]PastItem) map[thing]string {
	out := map[thing]string{}
	for x, item := range m {
		out[x] = item.Fingerprint.String()
	}
	return out
}

// TestABoundedPastKnowsItsBounds: with a short window and little room, a resume
// is either whole, and then right, or says that it is not. Where the past begins
// does not depend on how the log was folded.
func TestABoundedPastKnowsItsBounds(t *testing.T) {
	gen.Unraced()
	before := 0
	check := func(rt *rapid.T) {
		a := drawAlmanac(rt, 40)
		window := time.Duration(rapid.IntRange(1, 60).Draw(rt, "window")) * time.Second
		most := rapid.IntRange(1, 5000).Draw(rt, "bytes")
		p := newDisk().openPast(rt, window, most)
		defer func() { require.NoError(rt, p.Close()) }()
		last := uint64(0)
		for _, m := range a.msgs {
			require.NoError(rt, p.Apply([]streams.Message{m}))
			s := p.PastStatus()
			require.GreaterOrEqual(rt, s.From, last)
			require.LessOrEqual(rt, s.Bytes, most)
			require.Equal(rt, s.Records, len(keptRecords(p)))
			last = s.From
			for _, r := range keptRecords(p) {
				require.LessOrEqual(rt, m.Time.Sub(logTime(r.at().time)), window)
				require.Greater(rt, r.at().seq, s.From)
			}
			if s.Records == 0 {
				require.Empty(rt, p.state.kept.withdrawn)
				for _, proj := range p.state.projects {
					require.Empty(rt, proj.lost)
				}
			}
		}
		other := foldAnyhow(rt, newDisk(), a.msgs, window, most)
		defer func() { require.NoError(rt, other.Close()) }()
		brief := foldBriefly(rt, a.msgs, window, most)
		defer func() { require.NoError(rt, brief.Close()) }()
		require.NoError(rt, brief.wholePast())
		for _, same := range []*Projector{other, brief} {
			x, y := p.PastStatus(), same.PastStatus()
			y.Dropped = x.Dropped // since the start
			require.Equal(rt, x, y)
		}
		for _, n := range almanacNodes {
			for _, id := range a.ids() {
				past := a.requirePast(rt, p, n, id)
				require.Equal(rt, past, a.requirePast(rt, other, n, id))
				require.Equal(rt, past, a.requirePast(rt, brief, n, id))
				if !past.Whole {
					before++
				}
			}
		}
	}
	for rounds := 0; rounds < 20 && before == 0; rounds++ { // a round may happen to have none
		rapid.Check(t, check)
	}
	require.NotZero(t, before, "no resume was before the window")
}

// TestWhatIsDroppedForWantOfRoomIsCounted tells the two reasons apart.
func TestWhatIsDroppedForWantOfRoomIsCounted(t *testing.T) {
	relabel := func(j *journal) (msgs []streams.Message) {
		for i := range 10 {
			msgs = append(msgs, j.add(update(t, i+1, 1, "a", "role", fmt.Sprint("r", i))))
		}
		return msgs
	}
	p, err := Open("store", Options{Partitions: testPartitions, Created: born, fs: vfs.NewMem(), PastBytes: 1000})
	require.NoError(t, err)
	require.NoError(t, p.Apply(relabel(&journal{})))
	s := p.PastStatus()
	require.Equal(t, 9, s.Records+int(s.Dropped))
	require.Positive(t, s.Dropped)
	require.Positive(t, s.Records)
	require.Equal(t, 1+s.Dropped, s.From, "the first has nothing to lose")
	require.NoError(t, p.Close())

	p, err = Open("store", Options{Partitions: testPartitions, Created: born, fs: vfs.NewMem(), Past: 3 * time.Second})
	require.NoError(t, err)
	require.NoError(t, p.Apply(relabel(&journal{})))
	require.Equal(t, PastStatus{From: 6, Records: 4, Bytes: p.PastStatus().Bytes}, p.PastStatus())
	require.NoError(t, p.Close())
}

// TestAClockThatWasAheadDoesNotHoldThePastUp: what is kept from its time would be the oldest
// until that time came, and all that follows would be kept with it.
func TestAClockThatWasAheadDoesNotHoldThePastUp(t *testing.T) {
	j := &journal{}
	p := newDisk().openPast(t, 3*time.Second, 0)
	defer func() { require.NoError(t, p.Close()) }()
	relabel := func(i int, when time.Time) {
		require.Equal(t, "applied", verdict(t, p, at(j.add(update(t, i, 1, "a", "role", fmt.Sprint("r", i))), when)))
	}
	relabel(1, born)
	relabel(2, born.AddDate(1, 0, 0))
	for i := 3; i <= 10; i++ {
		relabel(i, born.Add(time.Duration(i)*time.Second))
	}
	require.Equal(t, PastStatus{From: 6, Records: 4, Bytes: p.PastStatus().Bytes}, p.PastStatus())
}

// TestWhoComesBackAsAnotherFindsTheOldGone walks through a removal.
func TestWhoComesBackAsAnotherFindsTheOldGone(t *testing.T) {
	p, j := newDisk().openPast(t, 0, 0), &journal{}
	defer p.Close()
	apply := func(e policy.Event) { require.Equal(t, "applied", verdict(t, p, j.add(e))) }
	apply(revise(t, 1, 1, 1, 1, 0, "web", "role=web", 80))
	apply(revise(t, 2, 1, 2, 2, 0, "all", "role", 81))
	apply(update(t, 3, 1, "a", "role", "web"))
	apply(leave(4, 1, "a"))
	_, err := p.Past("a", 0, nil)
	require.ErrorIs(t, err, ErrUnknownNode)
	apply(revise(t, 5, 1, 1, 3, 1, "web", "role=web", 82))
	apply(update(t, 6, 1, "a", "role", "db"))
	past, err := p.Past("a", policy.EndOf(testBase, 3), nil)
	require.NoError(t, err)
	require.Len(t, past.Items, 2)
	gone, has := past.Items[0], past.Items[1]
	require.True(t, gone.Gone)
	require.Equal(t, policy.NewEventID(testBase, 4, 0), gone.ID)
	require.Equal(t, rev(1), gone.Revision, "the head when it went")
	require.Equal(t, policy.NewEventID(testBase, 6, 1), has.ID)
}

func TestAPlaneHasNumbersForSoManyPolicies(t *testing.T) {
	p, j := openFresh(t), &journal{}
	p.state.accepted = policy.MaxPolicies - 1
	require.Equal(t, "applied", verdict(t, p, j.add(revise(t, 1, 1, 1, 1, 0, "a", "role=web", 80))))
	require.Equal(t, CodePolicyLimit, verdict(t, p, j.add(revise(t, 2, 1, 2, 2, 0, "b", "role=web", 80))))
	require.Equal(t, "applied", verdict(t, p, j.add(revise(t, 3, 1, 1, 3, 1, "a", "role=web", 81))), "a revision takes no number")
	require.Equal(t, "applied", verdict(t, p, j.add(remove(4, 1, 1))))
	require.Equal(t, CodePolicyLimit, verdict(t, p, j.add(revise(t, 5, 1, 2, 2, 0, "b", "role=web", 80))), "nor does a deletion give one back")
}

func TestABaseRisesAndIsRemembered(t *testing.T) {
	fs := vfs.NewMem()
	open := func(base uint64) (*Projector, error) {
		return Open("store", Options{Partitions: testPartitions, Created: born, Base: base, fs: fs})
	}
	p, err := open(5)
	require.NoError(t, err)
	require.EqualValues(t, 5, p.Base())
	require.NoError(t, p.Close())
	p, err = open(9)
	require.NoError(t, err)
	require.EqualValues(t, 9, p.Base())
	require.NoError(t, p.Close())
	_, err = open(5)
	var other *OtherLogError
	require.ErrorAs(t, err, &other)
	require.ErrorContains(t, err, "count from 9, of this one from 5")
	p, err = open(9)
	require.NoError(t, err)
	require.Equal(t, "applied", verdict(t, p, (&journal{}).add(update(t, 1, 1, "a"))))
	past, err := p.Past("a", policy.NewEventID(9, 0, 0), nil)
	require.NoError(t, err)
	require.True(t, past.Whole)
	_, err = p.Past("a", math.MaxUint64, nil)
	require.ErrorIs(t, err, ErrBehind)
	require.NoError(t, p.Close())
}

// TestAFeedIsHandedEveryBatch: whole ones while it wants them, others too.
func TestAFeedIsHandedEveryBatch(t *testing.T) {
	p, j := openFresh(t), &journal{}
	require.Equal(t, "applied", verdict(t, p, j.add(update(t, 1, 1, "a", "role", "web"))))
	e := &ear{deaf: true}
	seq, at := p.Feed(e)
	require.EqualValues(t, 1, seq)
	require.Equal(t, j.msgs[0].Time, at)
	verdict(t, p, j.add(revise(t, 2, 1, 1, 1, 0, "web", "role=web", 80)))
	e.deaf = false
	verdict(t, p, j.add(update(t, 3, 1, "b", "role", "web")))
	verdict(t, p, j.add(update(t, 3, 1, "b", "role", "web")))
	for i := range 10 {
		j.add(update(t, 4+i, 1, fmt.Sprint("c", i), "role", "web"))
	}
	require.NoError(t, p.Rebuild(t.Context(), cutLog{batches: [][]streams.Message{j.msgs}}, uint64(len(j.msgs))))
	p.Feed(nil)
	verdict(t, p, j.add(update(t, 99, 1, "d", "role", "web")))
	var got []string
	for _, b := range e.batches {
		got = append(got, fmt.Sprint(b.Seq, b.Whole, len(b.Edges), b.Size > 0))
	}
	require.Equal(t, []string{"2 false 0 false", "3 true 1 true", "4 true 0 false", "14 false 0 false"}, got)
}

// TestAPayloadThatIsGoneIsSaid: the fold goes on, without edges, and who resumes
// is told that the store is damaged.
func TestAPayloadThatIsGoneIsSaid(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.open(t)
	first := revise(t, 1, 1, 1, 1, 0, "web", "role=web", 80)
	verdict(t, p, j.add(first))
	require.NoError(t, p.db.Delete(payloadKey(compiler.Compile(first.Revision.Rules).Fingerprint), pebble.NoSync))
	require.NoError(t, p.Close())
	p = d.open(t)
	defer p.Close()
	told := listen(p)
	require.Equal(t, "applied", verdict(t, p, j.add(update(t, 2, 1, "a", "role", "web"))))
	require.Equal(t, []Batch{{Seq: 2, Time: j.msgs[1].Time}}, told.batches)
	_, err := p.Past("a", 0, nil)
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt)
}

// keptRecords are the records of the kept past, oldest first.
func keptRecords(p *Projector) (out []keptRecord) {
	k := &p.state.kept
	number, others := k.formers.first, k.queue
	for number < k.formers.next || len(others) > 0 {
		if number == k.formers.next || len(others) > 0 && others[0].at().seq < k.formers.at(number).until.seq {
			out = append(out, others[0])
			others = others[1:]
			continue
		}
		out = append(out, k.formers.at(number))
		number++
	}
	return out
}

// TestAPastThatCannotBeReadIsNotTakenForWhole: a brief store that has read a part of the
// labels that nodes had does not answer from that part.
func TestAPastThatCannotBeReadIsNotTakenForWhole(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.openPast(t, 0, 0)
	require.NoError(t, p.Apply([]streams.Message{j.add(update(t, 1, 1, "a", "role", "x")), j.add(update(t, 2, 1, "a", "role", "y"))}))
	require.NoError(t, p.db.Set(appendU64([]byte{keyFormer}, 3), []byte{1}, pebble.NoSync))
	require.NoError(t, p.Close())
	opt := p.opt
	opt.Brief = true
	p, err := Open("store", opt)
	require.NoError(t, err)
	defer p.Close()
	for range 2 {
		_, err := p.Past("a", 0, nil)
		require.ErrorIs(t, err, errRecord)
	}
}

// TestABriefPastSaysHowFarBackItReaches: it reads former labels after all else, so the oldest
// of what it drops need not come first.
func TestABriefPastSaysHowFarBackItReaches(t *testing.T) {
	d, j := newDisk(), &journal{}
	p := d.openPast(t, 0, 0)
	for _, e := range []policy.Event{
		revise(t, 1, 1, 1, 1, 0, "s", "role=web", 1),
		update(t, 2, 1, "a", "role", "web"),
		update(t, 3, 1, "b", "role", "x"),
		update(t, 4, 1, "b", "role", "y"),
		update(t, 5, 1, "b", "role", "z"),
		update(t, 6, 1, "c", "role", "z"),
		update(t, 7, 1, "d", "role", "z"),
		revise(t, 8, 1, 1, 2, 1, "s", "role=db", 1), // a loses its row
	} {
		require.Equal(t, "applied", verdict(t, p, j.add(e)))
	}
	require.Equal(t, "applied", verdict(t, p, at(j.add(update(t, 9, 1, "e", "role", "z")), born.Add(24*time.Hour))))
	require.NoError(t, p.Close())
	brief, err := Open("store", Options{Partitions: testPartitions, Created: born, fs: d.fs, Brief: true, Base: testBase, Past: time.Hour})
	require.NoError(t, err)
	defer func() { require.NoError(t, brief.Close()) }()
	past, err := brief.Past("a", policy.EndOf(testBase, 6), nil)
	require.NoError(t, err)
	require.True(t, !past.Whole || len(past.Items) == 1, "%+v", past)
}
