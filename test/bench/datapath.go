package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/test/oracle/firstmatch"
	"github.com/edictdev/edict/policy"
)

// datapathChecks is how many look-ups of each table are held against a walk
// down the list.
const datapathChecks = 2_000

// orderedRules are rules and identities of which every selector holds half.
type orderedRules struct {
	what   string
	rules  []firstmatch.Rule
	groups [][]string // of identity i
	table  []datapath.Rule
	ids    []datapath.Identity
}

// newOrderedRules makes one: half the rules with ports, a quarter of those ranges of
// up to 1,000; 40 % deny; random priorities; with tiers, three of them and one
// rule in ten passes.
func newOrderedRules(rules, identities int, tiered bool) *orderedRules {
	r := rand.New(rand.NewPCG(11, uint64(rules*identities)))
	w := &orderedRules{what: fmt.Sprintf("%s x %s", grouped(int64(rules)), grouped(int64(identities)))}
	if tiered {
		w.what += ", tiers"
	}
	groups := 16
	if rules >= 1_000 {
		groups = 32
	}
	for range identities {
		w.add(r, groups)
	}
	for i := range rules {
		n := firstmatch.Rule{
			Egress: true, Tier: "normal", Priority: r.IntN(rules), Policy: fmt.Sprintf("p%05d", i), Protocol: "tcp", Action: "allow",
		}
		if g := r.IntN(groups + 1); g < groups {
			n.Groups = []string{groupLabel(g)}
		}
		switch r.IntN(4) {
		case 0:
			n.Protocol = "any"
		case 1:
		default:
			n.From = 1 + r.IntN(60_000)
			n.To = n.From
			if r.IntN(4) == 0 {
				n.To += r.IntN(1_000)
			}
		}
		if r.IntN(10) < 4 {
			n.Action = "deny"
		}
		if tiered {
			n.Tier = []string{"admin", "normal", "baseline"}[r.IntN(3)]
			if r.IntN(10) == 0 {
				n.Action = "pass"
			}
		}
		w.rules = append(w.rules, n)
		w.table = append(w.table, tableRule(n))
	}
	return w
}

func groupLabel(g int) string { return fmt.Sprintf("g%02d", g) }

// add makes one more identity.
func (w *orderedRules) add(r *rand.Rand, groups int) datapath.Identity {
	id := datapath.Identity{Name: fmt.Sprintf("id%06d", len(w.ids))}
	var in []string
	for g := range groups {
		if r.IntN(2) == 0 {
			in = append(in, groupLabel(g))
			id.Labels = append(id.Labels, policy.Label{Key: groupLabel(g), Value: "true"})
		}
	}
	w.groups, w.ids = append(w.groups, in), append(w.ids, id)
	return id
}

// tableRule is a rule as the product takes it.
func tableRule(r firstmatch.Rule) datapath.Rule {
	t := datapath.Rule{
		Ref: datapath.Ref{Policy: r.Policy, Index: r.Index}, Direction: datapath.Egress, Priority: uint32(r.Priority),
		Ports: policy.Ports{From: uint16(r.From), To: uint16(r.To)}, Peer: datapath.Peer{Any: len(r.Groups) == 0},
	}
	for _, g := range r.Groups {
		t.Peer.Selectors = append(t.Peer.Selectors, policy.Expr{{Op: policy.Exists, Key: g}})
	}
	t.Tier, _ = datapath.ParseTier(r.Tier)
	t.Protocol, _ = datapath.ParseProtocol(r.Protocol)
	t.Verdict, _ = datapath.ParseVerdict(r.Action)
	return t
}

// check holds a table against the list, at random flows.
func (w *orderedRules) check(t *datapath.Table) error {
	r := rand.New(rand.NewPCG(12, 0))
	judge := firstmatch.New(w.rules)
	for range datapathChecks {
		i, port := r.IntN(len(w.ids)), r.IntN(65_536)
		if rule := w.rules[r.IntN(len(w.rules))]; rule.To > 0 && r.IntN(2) == 0 {
			port = rule.To
		}
		want := judge.Decide(firstmatch.Flow{Egress: true, Node: true, Groups: w.groups[i], Protocol: "tcp", Port: port})
		id, _ := t.ID(w.ids[i].Name)
		e, found := t.Lookup(datapath.Egress, id, datapath.TCP, uint16(port))
		if !found {
			e.Verdict = datapath.Deny
		}
		if e.Verdict.String() != want.Action || want.Rule != nil && want.Rule.Policy != e.Rule.Policy {
			return fmt.Errorf("%s, port %d of %s: table %s by %s, list %+v", w.what, port, w.ids[i].Name, e.Verdict, e.Rule.Policy, want)
		}
	}
	return nil
}

var datapathOptions = datapath.Options{Capacity: 1 << 20}

// tables measures internal/compiler/datapath: whole builds, one identity more, look-ups.
func tables(_ context.Context, e *env) ([]line, error) {
	var lines []line
	for _, c := range []struct {
		rules, identities int
		tiered            bool
		ms, mb            float64 // at most; 0 is no bound
	}{
		{100, 1_000, false, 10, 5},
		{1_000, 1_000, false, 60, 20},
		{100, 10_000, false, 150, 0},
		{100, 1_000, true, 30, 0},
	} {
		w := newOrderedRules(c.rules, c.identities, c.tiered)
		built, err := buildTables(w, 5*e.rounds())
		if err != nil {
			return lines, err
		}
		build := figure(w.what, "ms", built.ms).beside("an insertion into a Go map per entry", built.floor).atMost(c.ms)
		lines = append(lines, *build.note("%s entries", grouped(int64(built.entries))))
		memory := figure(w.what+": allocated", "MB", built.mb)
		if c.mb > 0 {
			memory.atMost(c.mb)
		}
		lines = append(lines, *memory)
	}
	w := newOrderedRules(1_000, 1_000, false)
	added, err := addIdentities(w, 200)
	if err != nil {
		return lines, err
	}
	looked, err := lookUps(w, 100*e.rounds())
	return append(append(lines, *added), looked...), err
}

// buildings are what several builds of one table took.
type buildings struct {
	ms, mb, floor samples
	entries       int
}

func buildTables(w *orderedRules, times int) (b buildings, err error) {
	for range times {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := time.Now()
		t, err := datapath.Build(w.table, w.ids, datapathOptions)
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		if err != nil {
			return b, err
		}
		if b.entries = t.Len(); b.entries < len(w.ids) {
			return b, fmt.Errorf("%s: %d entries are too few for the work", w.what, b.entries)
		}
		if err := w.check(t); err != nil {
			return b, err
		}
		b.ms = append(b.ms, milliseconds(took))
		b.mb = append(b.mb, float64(after.TotalAlloc-before.TotalAlloc)/1e6)
		took, err = mapInsertions(t.Entries())
		if err != nil {
			return b, err
		}
		b.floor = append(b.floor, milliseconds(took))
	}
	return b, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// mapInsertions is the floor.
func mapInsertions(entries []datapath.Entry) (time.Duration, error) {
	runtime.GC()
	began := time.Now()
	m := map[datapath.Key]datapath.Value{}
	for i := range entries {
		m[entries[i].Key] = entries[i].Value
	}
	took := time.Since(began)
	if len(m) != len(entries) {
		return 0, fmt.Errorf("the floor holds %d of %d entries", len(m), len(entries))
	}
	return took, nil
}

// addIdentities measures one identity more, each time another.
func addIdentities(w *orderedRules, times int) (*line, error) {
	s := datapath.NewState(datapathOptions)
	if _, err := s.Apply(datapath.Batch{AddRules: w.table, AddIdentities: w.ids}); err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(13, 0))
	before := len(w.ids)
	var took, floor samples
	entries := 0
	for range times {
		id := w.add(r, 32)
		began := time.Now()
		c, err := s.Apply(datapath.Batch{AddIdentities: []datapath.Identity{id}})
		took = append(took, milliseconds(time.Since(began))*1e3)
		if err != nil {
			return nil, err
		}
		if err := oneMore(s.Table(), c, id); err != nil {
			return nil, err
		}
		entries += len(c.Adds)
		began = time.Now()
		m := map[datapath.Slot]datapath.Value{}
		for _, a := range c.Adds {
			m[a.Slot] = a.Value
		}
		floor = append(floor, milliseconds(time.Since(began))*1e3)
		if _, err := s.Apply(datapath.Batch{RemoveIdentities: []string{id.Name}}); err != nil {
			return nil, err
		}
	}
	w.ids, w.groups = w.ids[:before], w.groups[:before]
	l := figure(w.what+": one identity more", "us", took).beside("an insertion into a Go map per entry", floor).atMost(100)
	return l.note("%.1f entries an identity", float64(entries)/float64(times)), nil
}

// oneMore holds the table with one more identity against the change set.
func oneMore(t *datapath.Table, c datapath.ChangeSet, added datapath.Identity) error {
	id, known := t.ID(added.Name)
	own := 0
	for _, e := range t.Entries() {
		if e.Identity == id {
			own++
		}
	}
	if !known || own != len(c.Adds) || len(c.Deletes) > 0 {
		return fmt.Errorf("%s has %d entries, and the change set adds %d and deletes %d", added.Name, own, len(c.Adds), len(c.Deletes))
	}
	return nil
}

// lookUps measures one look-up, beside one of a Go map that finds its key.
func lookUps(w *orderedRules, times int) ([]line, error) {
	t, err := datapath.Build(w.table, w.ids, datapathOptions)
	if err != nil {
		return nil, err
	}
	entries := t.Entries()
	plain := map[datapath.Key]datapath.Value{}
	for _, e := range entries {
		plain[e.Key] = e.Value
	}
	const flows = 1 << 12
	r := rand.New(rand.NewPCG(14, 0))
	ids, ports, keys := make([]datapath.ID, flows), make([]uint16, flows), make([]datapath.Key, flows)
	for i := range flows {
		ids[i], ports[i] = datapath.ID(1+r.IntN(len(w.ids))), uint16(r.IntN(65_536))
		keys[i] = entries[r.IntN(len(entries))].Key
	}
	// Short passes: most are over before the scheduler gives the core away.
	var took, floor, allocated samples
	for range times {
		var before, after runtime.MemStats
		found := 0
		runtime.ReadMemStats(&before)
		began := time.Now()
		for i := range flows {
			if e, ok := t.Lookup(datapath.Egress, ids[i], datapath.TCP, ports[i]); ok && e.Precedence > 0 {
				found++
			}
		}
		took = append(took, float64(time.Since(began).Nanoseconds())/flows)
		runtime.ReadMemStats(&after)
		allocated = append(allocated, float64(after.Mallocs-before.Mallocs)/flows)
		if found == 0 {
			return nil, fmt.Errorf("no look-up found anything")
		}
		began, found = time.Now(), 0
		for i := range flows {
			if _, ok := plain[keys[i]]; ok {
				found++
			}
		}
		floor = append(floor, float64(time.Since(began).Nanoseconds())/flows)
		if found != flows {
			return nil, fmt.Errorf("the floor found %d of %d", found, flows)
		}
	}
	// What another goroutine allocates meanwhile counts too, in some passes; a
	// look-up that allocates does in all of them.
	per := allocated.median()
	return []line{
		*figure(w.what+": a look-up", "ns", took).beside("a look-up in a Go map", floor).atMost(150),
		*figure(w.what+": allocations a look-up", "", allocated).target("0", per == 0),
	}, nil
}
