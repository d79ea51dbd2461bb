package projector

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// TestWouldAcceptSaysWhatTheFoldThenSays asks before each event of a generated log,
// of all families, and compares the answer with what the fold makes of the event.
// Asking changes nothing: a store that was never asked is equal.
func TestWouldAcceptSaysWhatTheFoldThenSays(t *testing.T) {
	gen.Unraced()
	rapid.Check(t, func(rt *rapid.T) {
		d, j := newDisk(), &journal{}
		p := d.open(rt)
		defer func() { require.NoError(rt, p.Close()) }()
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			e := drawAny(rt, uint64(len(j.msgs)+1))
			m := j.add(e)
			expected := foretold(p, m)
			require.NoError(rt, p.Apply([]streams.Message{m}))
			made, err := p.Verdict(context.Background(), m.Seq)
			require.NoError(rt, err)
			require.NotNil(rt, expected)
			requireSameVerdict(rt, *expected, made)
			if rapid.IntRange(0, 9).Draw(rt, "restart") == 0 {
				require.NoError(rt, p.Close())
				p = d.open(rt)
			}
		}
		requireEqualToARebuild(rt, p, j.msgs)
	})
}

// foretold is what a view says of a message before it is folded; nil: it is no event
// that could be asked about.
func foretold(p *Projector, m streams.Message) (said *Verdict) {
	e, err := policy.Decode(m.Body)
	if err != nil || wire.Subject(e) != m.Subject || len(m.Header) > 0 || nowhere(e) {
		return nil
	}
	p.Read(func(v *View) {
		verdict := v.WouldAccept(e, m.Time)
		said = &verdict
	})
	return said
}

func requireSameVerdict(t require.TestingT, expected, made Verdict) {
	require.Equal(t, word(made), word(expected))
	if made.Rejection != nil {
		require.Equal(t, made.Rejection.Detail, expected.Rejection.Detail)
	}
}

// drawAny draws an event of any family about few things, so that events meet.
func drawAny(t *rapid.T, seq uint64) policy.Event {
	number := rapid.IntRange(1, 60).Draw(t, "event")
	project := rapid.IntRange(1, 2).Draw(t, "project")
	node := rapid.SampledFrom([]string{"n0", "n1"}).Draw(t, "node")
	who := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "who")
	switch rapid.IntRange(0, 12).Draw(t, "family") {
	case 0, 1, 2:
		slug := rapid.SampledFrom([]string{"s", "u"}).Draw(t, "slug")
		return revise(t, number, project, rapid.IntRange(1, 3).Draw(t, "policy"), rapid.IntRange(1, 4).Draw(t, "revision"),
			rapid.IntRange(0, 3).Draw(t, "parent"), slug, "role=web", 80)
	case 3:
		return remove(number, project, rapid.IntRange(1, 3).Draw(t, "policy"))
	case 4:
		return update(t, number, project, node, "role", "web")
	case 5:
		return leave(number, project, node)
	case 6, 7:
		return drawAdmission(t, number, seq)
	case 8:
		return drawRelease(t, number).event()
	case 9:
		return registers(number, who, byte(rapid.IntRange(1, 2).Draw(t, "token")), byte(rapid.IntRange(0, 2).Draw(t, "nonce")))
	case 10:
		return bootstrapped(number, who, rapid.IntRange(1, 60).Draw(t, "seconds"), 1, 2)
	case 11:
		return granted(number, who, rapid.SampledFrom([]string{"plane#read", "node:n0#agent"}).Draw(t, "relation"))
	}
	if rapid.Bool().Draw(t, "all") {
		return removed(number, who)
	}
	return revoked(number, who, rapid.SampledFrom([]string{"plane#read", "node:n0#agent"}).Draw(t, "relation"))
}
