package projector

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

var unrests = flag.Int("past.seeds", 20, "logs whose past is held against what an honest fool remembers")

// annals is an honest fool's copy of policies and rollouts after each event.
type annals []*oracle

func (c *annals) add(o *oracle) {
	was := &oracle{pols: maps.Clone(o.pols), rolling: map[uuid.UUID]*rolling{}}
	for id, r := range o.rolling {
		then := *r
		was.rolling[id] = &then
	}
	*c = append(*c, was)
}

func (o *oracle) opened(id uuid.UUID) int {
	if r := o.rolling[id]; r != nil {
		return r.opened
	}
	return 0
}

// matched are the revisions that matched labels at a moment, of policies that live now.
// A rollout that ended since leaves no trace.
func (c annals) matched(project uuid.UUID, l policy.Labels, seq uint64) (out []uuid.UUID) {
	now, then := c[len(c)-1], c[seq]
	for _, id := range slices.SortedFunc(maps.Keys(now.pols), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }) {
		p, was := then.pols[id]
		if !was || p.Project != project {
			continue
		}
		r := p.Revision
		if x := then.rolling[id]; x.reached(l) && now.rolling[id].underWay() && now.rolling[id].staged.ID == x.staged.ID {
			r = x.staged.Revision
		}
		if r.Selector.Matches(l) {
			out = append(out, r.ID)
		}
	}
	return out
}

// extended says of a policy whether the labels had anything of ordered policy of it at
// a moment or later that they do not have now, and whether any of its heads was so.
func (c annals) extended(id uuid.UUID, l policy.Labels, after uint64) (tried, headed bool) {
	now := c[len(c)-1]
	has, _ := now.says(now.pols[id], l)
	for _, then := range c[after:] {
		p, was := then.pols[id]
		if !was {
			continue
		}
		r, _ := then.says(p, l)
		tried = tried || r.ID != has.ID && r.Content().Extended()
		headed = headed || p.Revision.ID != has.ID && p.Revision.Content().Extended()
	}
	return tried, headed
}

// unrest is a log in which a few nodes change their labels while two policies are
// revised, staged, promoted wave by wave, stopped and aborted.
func unrest(t *testing.T, seed uint64, o *oracle, add func(policy.Event)) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	selector := func() string { return pick("role", "role=web", "env", "env=prod", "role!=web") }
	tier := func(r *policy.Revision) { r.Order.Tier = policy.Tier(pick("", "", "admin")) }
	for i := 1; i <= 50; i++ {
		num := 1 + rnd.IntN(2)
		head, r := o.pols[pol(num)], o.rolling[pol(num)]
		switch kind := rnd.IntN(20); {
		case kind < 7:
			add(update(t, i, 1, pick("a", "b", "c"), "role", pick("web", "db"), "env", pick("prod", "test")))
		case head.ID == uuid.Nil || kind == 7 && !r.underWay():
			e := revise(t, i, 1, num, i, 0, fmt.Sprint("s", num), selector(), 80)
			e.Revision.Parent = head.Revision.ID
			tier(&e.Revision)
			add(e)
		case r == nil:
			e := staged(t, i, num, i, 0, selector(), 80+rnd.IntN(2))
			e.Revision.Parent = head.Revision.ID
			tier(&e.Revision)
			add(e)
		case !r.underWay():
			e := promoted(t, i, num, 0, selector(), selector(), "role=db")
			e.Revision = r.staged.Revision.ID
			add(e)
		case kind < 17:
			add(policy.WaveOpened{ID: evt(i), Project: tenant(1), Policy: pol(num), Revision: r.staged.Revision.ID, Wave: uint8(r.opened + 1)})
		case kind == 17:
			add(policy.RolloutStopped{ID: evt(i), Project: tenant(1), Policy: pol(num), Revision: r.staged.Revision.ID, Wave: uint8(r.opened), Reason: "refused"})
		default:
			add(policy.RolloutAborted{ID: evt(i), Project: tenant(1), Policy: pol(num), Revision: r.staged.Revision.ID})
		}
	}
}

// requirePlain wants a node to be called plain where none of its policies ever had
// anything of ordered policy, and nowhere else, once the store was asked.
func requirePlain(t *testing.T, p *Projector, id policy.NodeID) bool {
	t.Helper()
	before, err := p.Past(id, 0, nil)
	require.NoError(t, err)
	e, _, err := p.Enforcement(id)
	require.NoError(t, err)
	was, err := e.WasExtended(0)
	require.NoError(t, err)
	for _, h := range e.Matched {
		is, err := extended(e.snap, h)
		require.NoError(t, err)
		was = was || is
	}
	require.NoError(t, e.Close())
	after, err := p.Past(id, 0, nil)
	require.NoError(t, err)
	require.False(t, was && (before.Plain || after.Plain), "%s", id)
	return after.Plain
}

// TestWhatMatchedBeforeIsWhatAnHonestFoolRemembers holds the past of nodes against the
// log, at every moment.
func TestWhatMatchedBeforeIsWhatAnHonestFoolRemembers(t *testing.T) {
	gen.Unraced()
	waved, tried, plain := 0, 0, 0
	for seed := range uint64(*unrests) {
		d, j := newDisk(), &journal{}
		p := d.open(t)
		o, c := newOracle(), annals{newOracle()}
		unrest(t, seed, o, func(e policy.Event) {
			if seed%2 == 1 && len(j.msgs) == 25 { // the store alone knows what was
				for id := range o.nodes {
					requirePlain(t, p, id)
				}
				require.NoError(t, p.Close())
				p = d.open(t)
				for id := range o.nodes {
					requirePlain(t, p, id)
				}
			}
			require.NoError(t, p.Apply([]streams.Message{j.add(e)}))
			o.apply(e)
			c.add(o)
		})
		for id, n := range o.nodes {
			e, ok, err := p.Enforcement(id)
			require.NoError(t, err)
			require.True(t, ok)
			for seq := range uint64(len(j.msgs) + 1) {
				refs, err := e.MatchedAt(seq, func() error { return nil })
				require.NoError(t, err)
				var got []uuid.UUID
				for _, h := range refs {
					got = append(got, h.Revision)
				}
				require.Equal(t, c.matched(n.Project, n.Labels, seq), got, "seed %d: %s at %d", seed, id, seq)
				least, most := false, false
				for _, h := range e.Matched {
					had, headed := c.extended(h.Policy, n.Labels, seq)
					least, most = least || had, most || had || headed
					if o.opened(h.Policy) > 1 {
						waved++
					}
					if had && !headed {
						tried++
					}
				}
				was, err := e.WasExtended(seq)
				require.NoError(t, err)
				require.False(t, least && !was, "seed %d: %s had it after %d", seed, id, seq)
				require.False(t, was && !most, "seed %d: %s had none after %d", seed, id, seq)
			}
			require.NoError(t, e.Close())
			if requirePlain(t, p, id) {
				plain++
			}
		}
		require.NoError(t, p.Close())
	}
	require.NotZero(t, plain, "no node has policies without anything of ordered policy")
	require.NotZero(t, waved, "no rollout came to its second wave")
	require.NotZero(t, tried, "no rollout alone had anything of ordered policy")
}
