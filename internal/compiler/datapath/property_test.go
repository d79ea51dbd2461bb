package datapath_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/test/gen"
)

var (
	lookups   = flag.Int("datapath.lookups", 30_000, "look-ups that TestTheTableAnswersAsAWalkDownTheList makes at least")
	firstSeed = flag.Uint64("datapath.first", 1, "seed of its first world; the next have the next ones")
)

// failing is what a rapid.T and a testing.T have in common.
type failing interface {
	require.TestingT
	Helper()
}

// tally counts look-ups by what decided them.
type tally struct {
	all int
	by  map[string]int
}

// features must each decide a hundredth of the look-ups.
var features = []string{"deny", "redirect", "auth", "pass", "range", "nested CIDR", "wildcard", "incremental"}

func (c *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d look-ups, of which decided", c.all)
	for _, f := range features {
		fmt.Fprintf(&b, "; %s: %d (%.1f %%)", f, c.by[f], 100*float64(c.by[f])/float64(c.all))
	}
	return b.String()
}

// TestTheTableAnswersAsAWalkDownTheList builds worlds of everything at once, asks
// table and judge, lets identities and rules come and go, and asks again.
func TestTheTableAnswersAsAWalkDownTheList(t *testing.T) {
	gen.Unraced()
	count := &tally{by: map[string]int{}}
	seed := *firstSeed
	defer func() {
		if t.Failed() {
			t.Logf("again: -datapath.first %d", seed)
		}
	}()
	for ; count.all < *lookups; seed++ {
		live(t, rand.New(rand.NewPCG(seed, 5)).IntN, 80, count)
	}
	t.Log(count)
	for _, f := range features {
		require.GreaterOrEqual(t, 100*count.by[f], count.all, "%s decided less than a hundredth: %s", f, count)
	}
}

// TestAnyWorldIsAnsweredAsAWalkDownTheList is the same with worlds that shrink.
func TestAnyWorldIsAnsweredAsAWalkDownTheList(t *testing.T) { rapid.Check(t, anyWorld) }

// FuzzTable is the same with worlds that coverage leads to.
func FuzzTable(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyWorld)) }

func anyWorld(t *rapid.T) {
	draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }
	live(t, draw, 12, &tally{by: map[string]int{}})
}

// live is the life of one world: built, then changed three times, with flows
// looked up every time.
func live(t failing, c chance, flows int, count *tally) {
	w := newWorld(c)
	rules, ids := w.all()
	s := datapath.NewState(datapath.Options{})
	before := s.Table()
	changes, err := s.Apply(datapath.Batch{AddRules: rules, AddIdentities: ids})
	require.NoError(t, err)
	for round := range 4 {
		table := s.Table()
		fresh, steps := w.build(t)
		require.Equal(t, string(fresh.AppendJSON(nil)), string(table.AppendJSON(nil)), "a state is what a build is")
		require.Equal(t, steps, s.Steps(), "and takes what a build takes")
		same(t, changes, before, table)
		w.ask(t, table, before, round > 0, flows, count)
		before = table
		changes, err = s.Apply(w.batch())
		require.NoError(t, err)
	}
}

func (w *world) build(t failing) (*datapath.Table, int) {
	rules, ids := w.all()
	work := datapath.NewWork(datapath.Options{}.Budget(), nil)
	table, err := datapath.Build(rules, ids, datapath.Options{Work: work})
	require.NoError(t, err)
	return table, work.Steps()
}

// ask looks flows up and compares with the judge's answer, and with the table's
// own walk.
func (w *world) ask(t failing, table, before *datapath.Table, changed bool, flows int, count *tally) {
	judge, entries := w.judge(), table.Entries()
	for i := range flows {
		f := w.flow()
		want := judge.Decide(f.Flow)
		e, found := f.lookup(table)
		got := answer(e, found)
		expected := verdict{action: want.Action, auth: want.Auth, index: -1}
		if want.Rule != nil {
			expected.index, expected.proxy = want.Rule.Index, want.Rule.ProxyPort
		}
		if got != expected {
			require.Equal(t, expected, got, "%+v\n%s", f, w.story())
		}
		old, oldFound := f.lookup(before)
		w.count(f, got, changed && got != answer(old, oldFound), want.Passed && want.Skipped > 0, e, count)
		if i%4 > 0 {
			continue // what follows takes longer than all else here
		}
		id, p := f.id(table), f.protocol()
		if by, ok := byEntries(entries, directionOf(f.Egress), id, p, uint16(f.Port)); ok != found || by != e {
			require.Equal(t, by, e, "%+v\n%s", f, w.story())
		}
		steps, decided := table.Walk(directionOf(f.Egress), id, p, uint16(f.Port))
		if decided != (want.Rule != nil) || decided && steps[len(steps)-1].Rule.Ref.Index != want.Rule.Index {
			require.Fail(t, "the walk decides otherwise", "%+v\n%v\n%s", f, steps, w.story())
		}
		if !decided {
			require.Equal(t, want.Action, table.DefaultVerdict(directionOf(f.Egress)).String())
		}
	}
}

// byEntries is the answer of a data path that has the entries and docs/datapath.md.
func byEntries(entries []datapath.Entry, d datapath.Direction, id datapath.ID, p datapath.Protocol, port uint16) (datapath.Entry, bool) {
	longest := func(id datapath.ID) (best datapath.Entry, bits int) {
		bits = -2
		for _, e := range entries {
			of := int(e.Bits)
			switch {
			case e.Direction != d || e.Identity != id:
				continue
			case e.Protocol == datapath.AnyProtocol:
				of = -1
			case e.Protocol != p || port>>(16-e.Bits) != e.Port>>(16-e.Bits):
				continue
			}
			if of > bits {
				best, bits = e, of
			}
		}
		return best, bits
	}
	own, ownBits := longest(id)
	anyone, anyBits := longest(datapath.AnyIdentity)
	switch {
	case ownBits == -2 && anyBits == -2:
		return datapath.Entry{}, false
	case ownBits == -2, anyBits > -2 && anyone.Precedence > own.Precedence,
		anyone.Precedence == own.Precedence && anyBits > ownBits:
		return anyone, true
	}
	return own, true
}

// count notes what decided a look-up.
func (w *world) count(f flow, got verdict, changed, passed bool, e datapath.Entry, count *tally) {
	count.all++
	note := func(what string, yes bool) {
		if yes {
			count.by[what]++
		}
	}
	note("incremental", changed)
	note("pass", passed)
	note("auth", got.auth)
	if got.index < 0 {
		return
	}
	r := w.rules[got.index]
	note("deny", got.action == "deny")
	note("redirect", got.action == "redirect")
	note("range", r.To > r.From && (r.From > 1 || r.To < 65535))
	note("wildcard", e.Identity == datapath.AnyIdentity && f.Node && w.specific(f))
	if !f.Node && r.CIDR.IsValid() {
		inside := map[string]bool{}
		for _, o := range w.rules {
			if o.Egress == f.Egress && len(o.Groups) == 0 && o.CIDR.IsValid() && o.CIDR.Contains(f.Addresses[0]) {
				inside[o.CIDR.String()] = true
			}
		}
		note("nested CIDR", len(inside) > 1)
	}
}

// specific reports whether some rule of the direction names the flow's peer.
func (w *world) specific(f flow) bool {
	for _, r := range w.rules {
		if r.Egress == f.Egress && len(r.Groups) == 1 && strings.Contains(strings.Join(f.Groups, ""), r.Groups[0]) {
			return true
		}
	}
	return false
}

// verdict is an answer in what both sides can say.
type verdict struct {
	action string
	auth   bool
	proxy  int
	index  int // of the rule; -1: the default
}

func answer(e datapath.Entry, found bool) verdict {
	if !found {
		return verdict{action: "deny", index: -1}
	}
	a := verdict{e.Verdict.String(), e.Auth == datapath.AuthRequired, int(e.ProxyPort), e.Rule.Index}
	if e.Default() {
		a.index = -1
	}
	return a
}

func (w *world) story() string {
	var b strings.Builder
	for i := range w.said {
		if r, ok := w.rules[i]; ok {
			fmt.Fprintf(&b, "%+v\n", r)
		}
	}
	for _, name := range w.names() {
		fmt.Fprintf(&b, "%s: %+v\n", name, w.nodes[name])
	}
	return b.String()
}

// slots is a table by the names of its identities.
func slots(t *datapath.Table) map[datapath.Slot]datapath.Value {
	m := map[datapath.Slot]datapath.Value{}
	for _, e := range t.Entries() {
		s := datapath.Slot{Direction: e.Direction, Protocol: e.Protocol, Port: e.Port, Bits: e.Bits}
		if id := t.Identity(e.Identity); id != nil {
			s.Identity = id.Name
		}
		m[s] = e.Value
	}
	return m
}

// same holds a change set against two tables, key for key.
func same(t failing, c datapath.ChangeSet, old, next *datapath.Table) {
	before, after := slots(old), slots(next)
	adds, olds := map[datapath.Slot]datapath.Value{}, map[datapath.Slot]datapath.Value{}
	deletes := map[datapath.Slot]bool{}
	for s, v := range after {
		was, held := before[s]
		if !held || was != v {
			adds[s] = v
		}
		if held && was != v {
			olds[s] = was
		}
	}
	for s, v := range before {
		if _, held := after[s]; !held {
			deletes[s], olds[s] = true, v
		}
	}
	require.Equal(t, adds, assigned(t, c.Adds))
	require.Equal(t, olds, assigned(t, c.Old))
	require.Len(t, c.Deletes, len(deletes))
	for i, s := range c.Deletes {
		require.True(t, deletes[s])
		require.True(t, i == 0 || c.Deletes[i-1].Compare(s) < 0, "sorted")
	}
	state := before
	applied(state, c)
	require.Equal(t, after, state)
	applied(state, c.Revert())
	require.Equal(t, slots(old), state, "undone")
}

func assigned(t failing, list []datapath.Assignment) map[datapath.Slot]datapath.Value {
	m := map[datapath.Slot]datapath.Value{}
	for i, a := range list {
		m[a.Slot] = a.Value
		require.True(t, i == 0 || list[i-1].Compare(a.Slot) < 0, "sorted")
	}
	return m
}

func applied(m map[datapath.Slot]datapath.Value, c datapath.ChangeSet) {
	for _, s := range c.Deletes {
		delete(m, s)
	}
	for _, a := range c.Adds {
		m[a.Slot] = a.Value
	}
}
