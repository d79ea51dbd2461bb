package projector

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// TestARehearsalSaysWhatTheFoldThenSays rehearses the end of a generated log of nodes and
// releases below quotas before any of it is folded, and compares each verdict.
func TestARehearsalSaysWhatTheFoldThenSays(t *testing.T) {
	gen.Unraced()
	rapid.Check(t, func(rt *rapid.T) {
		d, j := newDisk(), &journal{}
		p := d.open(rt)
		defer func() { require.NoError(rt, p.Close()) }()
		numbers := rapid.Permutation(upTo(40)).Draw(rt, "events")
		before := []streams.Message{j.add(limit(90, 1, drawQuota(rt)))}
		for range rapid.IntRange(0, 12).Draw(rt, "before") {
			before = append(before, j.add(drawRehearsed(rt, numbers[rapid.IntRange(0, 39).Draw(rt, "event")], 3)))
		}
		require.NoError(rt, p.Apply(before))
		if rapid.IntRange(0, 9).Draw(rt, "other project") == 0 {
			require.NoError(rt, p.Apply([]streams.Message{j.add(update(rt, 91, 2, "n2", "role", "web"))}))
		}
		var batch []streams.Message
		var said []Verdict
		r := NewRehearsal(tenant(1))
		for _, n := range numbers[:rapid.IntRange(1, 20).Draw(rt, "batch")] {
			e := drawRehearsed(rt, n, 1)
			m := j.add(e)
			batch = append(batch, m)
			p.Read(func(v *View) {
				_, _ = r.Over(v, e, m.Time) // changes nothing
				said = append(said, r.Next(v, e, m.Stored(), m.Time))
			})
		}
		var taken Usage
		p.Read(func(v *View) { taken = r.Usage(v) })
		require.NoError(rt, p.Apply(batch))
		for i, m := range batch {
			made, err := p.Verdict(context.Background(), m.Seq)
			require.NoError(rt, err)
			requireSameVerdict(rt, said[i], made)
		}
		p.Read(func(v *View) {
			require.Equal(rt, v.Usage(tenant(1)).Bytes(time.Time{}), taken.Bytes(time.Time{}))
		})
		requireEqualToARebuild(rt, p, j.msgs)
	})
}

func upTo(n int) (list []int) {
	for i := range n {
		list = append(list, i+1)
	}
	return list
}

func drawQuota(t *rapid.T) policy.Quota {
	few := func(name string, most uint64) uint64 {
		if rapid.IntRange(0, 2).Draw(t, name+" bound") > 0 {
			return 0
		}
		return rapid.Uint64Range(1, most).Draw(t, name)
	}
	return policy.Quota{Nodes: few("nodes", 3), LabelSets: few("label sets", 3), EventsPerDay: few("events", 20), BytesPerDay: few("bytes", 20_000)}
}

// drawRehearsed draws an event of a node or a release; kinds above 2 has nodes leave, too.
func drawRehearsed(t *rapid.T, number, kinds int) policy.Event {
	node := rapid.SampledFrom([]string{"n0", "n1", "n2", "n3"}).Draw(t, "node")
	switch k := rapid.IntRange(0, 4).Draw(t, "kind"); {
	case k == 4 && kinds > 2:
		return leave(number, 1, node)
	case k < 2:
		d := drawRelease(t, number)
		d.withdraw = ""
		if len(d.trust) == 0 {
			d.pin, d.trust, d.rete = []string{d.signer}, []string{d.signer}, ""
		}
		return d.event()
	}
	return update(t, number, 1, node, "role", rapid.SampledFrom([]string{"web", "db", "ci", "x"}).Draw(t, "role"))
}
