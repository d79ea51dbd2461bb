package projector

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// TestEdgesTellEachNodeWhatChanged walks through one policy's life.
func TestEdgesTellEachNodeWhatChanged(t *testing.T) {
	p, j := openFresh(t), &journal{}
	ear := listen(p)
	edges := func(e policy.Event) string {
		require.Equal(t, "applied", verdict(t, p, j.add(e)))
		var have, lost []policy.NodeID
		for _, e := range ear.take(t) {
			have, lost = append(have, nodeIDs(e.Have)...), append(lost, nodeIDs(e.Lost)...)
		}
		return fmt.Sprintf("have %v lost %v", have, lost)
	}
	require.Equal(t, "have [] lost []", edges(update(t, 1, 1, "a", "role", "web", "env", "prod")))
	require.Equal(t, "have [] lost []", edges(update(t, 2, 1, "b", "role", "web", "env", "test")))
	require.Equal(t, "have [a b] lost []", edges(revise(t, 3, 1, 1, 1, 0, "web", "role=web", 80)))
	require.Equal(t, "have [] lost []", edges(revise(t, 4, 1, 1, 2, 1, "web", "role=web", 80)), "equal rules: hash and skip")
	require.Equal(t, "have [] lost [b]", edges(revise(t, 5, 1, 1, 3, 2, "web", "role=web,env=prod", 80)), "narrowed")
	require.Equal(t, "have [a b] lost []", edges(revise(t, 6, 1, 1, 4, 3, "web", "role=web", 443)), "widened with other rules")
	require.Equal(t, "have [] lost [a]", edges(update(t, 7, 1, "a", "role", "db")))
	require.Equal(t, "have [a] lost []", edges(update(t, 8, 1, "a", "role", "web", "zone", "z")))
	require.Equal(t, "have [] lost []", edges(update(t, 9, 1, "a", "role", "web")), "a label that changes no row")
	require.Equal(t, "have [] lost [b]", edges(leave(10, 1, "b")))
	require.Equal(t, "have [] lost [a]", edges(remove(11, 1, 1)))
}

// oracle is an honest fool: what every node holds, from the facts as they are.
type oracle struct {
	nodes   map[policy.NodeID]policy.NodeUpdated
	pols    map[uuid.UUID]policy.RevisionCreated
	used    map[uuid.UUID]bool
	rolling map[uuid.UUID]*rolling
}

func newOracle() *oracle {
	return &oracle{map[policy.NodeID]policy.NodeUpdated{}, map[uuid.UUID]policy.RevisionCreated{}, map[uuid.UUID]bool{}, map[uuid.UUID]*rolling{}}
}

func (o *oracle) apply(e policy.Event) {
	switch e := e.(type) {
	case policy.RevisionCreated:
		head, ok := o.pols[e.Policy]
		switch {
		case !ok && (o.used[e.Policy] || e.Revision.Parent != uuid.Nil),
			ok && (head.Project != e.Project || e.Revision.Parent != head.Revision.ID || o.rolling[e.Policy].underWay()):
			return
		}
		for id, other := range o.pols {
			if id != e.Policy && other.Project == e.Project && other.Slug == e.Slug {
				return
			}
		}
		o.pols[e.Policy], o.used[e.Policy] = e, true
	case policy.PolicyDeleted:
		if head, ok := o.pols[e.Policy]; ok && head.Project == e.Project {
			delete(o.pols, e.Policy)
			delete(o.rolling, e.Policy)
		}
	case policy.NodeUpdated:
		o.nodes[e.Node] = e
	case policy.NodeRemoved:
		delete(o.nodes, e.Node)
	default:
		o.rollout(e)
	}
}

func (o *oracle) rows() held {
	h := held{}
	for id, n := range o.nodes {
		for _, p := range o.pols {
			if r, _ := o.says(p, n.Labels); p.Project == n.Project && r.Selector.Matches(n.Labels) {
				h.set(id, p.Policy, compiler.Compile(r.Rules).Fingerprint)
			}
		}
	}
	return h
}

// generations remembers rows as a cache would, by identity and generation.
type generations map[[2]uint64][]Row

func (g generations) check(t require.TestingT, p *Projector) {
	p.Read(func(v *View) {
		for _, n := range nodeNames(31) {
			rows, ok := v.Rows(n)
			if !ok {
				continue
			}
			key := [2]uint64{uint64(rows.Identity), rows.Generation}
			if was, ok := g[key]; ok {
				require.Equal(t, was, rows.Rows, "rows changed, their generation did not")
			}
			g[key] = rows.Rows
		}
	})
}

var selectorPool = []string{
	"role=web", "role=db", "role!=web", "role in (web, db)", "role", "!role", "role=web,env=prod",
	"env=prod", "env in (prod, test),role!=db", "!env", "env", "env!=prod,role", "role=cache",
}

// world draws a log. Projects: node and policy numbers are split between two.
func drawLog(t *rapid.T, n int) (*journal, []policy.Event) {
	j := &journal{}
	heads := map[int]int{}
	var events []policy.Event
	o := newOracle()
	for i := 1; i <= n; i++ {
		var e policy.Event
		num := rapid.IntRange(1, 6).Draw(t, "which")
		proj := 1 + num%2
		switch rapid.IntRange(0, 13).Draw(t, "kind") {
		case 10, 11, 12, 13:
			e = drawRollout(t, o, i, proj, num)
		case 0, 1, 2, 3:
			if head := o.pols[pol(num)]; head.ID != uuid.Nil {
				heads[num] = int(head.Revision.ID[14])<<8 | int(head.Revision.ID[15])
			}
			r := revise(t, i, proj, num, i, heads[num], fmt.Sprintf("s%d", rapid.IntRange(1, 8).Draw(t, "slug")),
				rapid.SampledFrom(selectorPool).Draw(t, "source"), rapid.SliceOfNDistinct(rapid.IntRange(1, 3), 1, 2, rapid.ID[int]).Draw(t, "ports")...)
			r.Revision.Selector.Destination = expr(t, rapid.SampledFrom(selectorPool).Draw(t, "destination"))
			if rapid.IntRange(0, 9).Draw(t, "stale") > 0 {
				heads[num] = i
			}
			e = r
		case 4:
			e = remove(i, proj, num)
		case 5:
			e = leave(i, 1, fmt.Sprintf("n%d", rapid.IntRange(0, 30).Draw(t, "node")))
		default:
			kv := []string{}
			if v := rapid.SampledFrom([]string{"", "web", "db", "cache"}).Draw(t, "role"); v != "" {
				kv = append(kv, "role", v)
			}
			if v := rapid.SampledFrom([]string{"", "prod", "test"}).Draw(t, "env"); v != "" {
				kv = append(kv, "env", v)
			}
			e = update(t, i, 1, fmt.Sprintf("n%d", rapid.IntRange(0, 30).Draw(t, "node")), kv...)
		}
		events = append(events, e)
		o.apply(e)
		j.add(e)
	}
	return j, events
}

// TestRowsAndEdgesEqualTheOracle folds a random log in random batches, with
// repeats and restarts between, and holds three things against
// the oracle: the rows, what the edges told each node, and the digest of a
// store that saw the log in one go.
func TestRowsAndEdgesEqualTheOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log, events := drawLog(rt, rapid.IntRange(1, 60).Draw(rt, "events"))
		d := newDisk()
		p := d.open(rt)
		defer func() { require.NoError(rt, p.Close()) }()
		o, h, at, cache, ear := newOracle(), held{}, 0, generations{}, listen(p)
		for at < len(log.msgs) {
			from := rapid.IntRange(0, at).Draw(rt, "repeat from")
			to := rapid.IntRange(at+1, min(at+20, len(log.msgs))).Draw(rt, "to")
			require.NoError(rt, p.Apply(log.msgs[from:to]))
			for _, e := range events[at:to] {
				o.apply(e)
			}
			heard(rt, ear.take(rt), h)
			at = to
			require.Equal(rt, o.rows(), rowsOf(p, nodeNames(31)), "rows at %d", at)
			require.Equal(rt, o.rows(), h, "what edges told at %d", at)
			cache.check(rt, p)
			if rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
				require.NoError(rt, p.Close())
				p, cache = d.open(rt), generations{}
				ear = listen(p)
			}
		}
		whole := newDisk().open(rt)
		defer func() { require.NoError(rt, whole.Close()) }()
		require.NoError(rt, whole.Apply(log.msgs))
		a, err := p.Digest(context.Background())
		require.NoError(rt, err)
		b, err := whole.Digest(context.Background())
		require.NoError(rt, err)
		require.Equal(rt, a, b)
		require.Equal(rt, whole.cursor.chain, p.cursor.chain)
	})
}

// TestMemoryIsWhatAReloadWouldBuild compares the indexes after a random log
// with those rebuilt from the store.
func TestMemoryIsWhatAReloadWouldBuild(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log, _ := drawLog(rt, rapid.IntRange(1, 60).Draw(rt, "events"))
		d := newDisk()
		p := d.open(rt)
		defer func() { require.NoError(rt, p.Close()) }() // also when a draw is given up
		require.NoError(rt, p.Apply(log.msgs))
		before := summary(p)
		require.NoError(rt, p.Close())
		p = d.open(rt)
		require.Equal(rt, before, summary(p))
	})
}

// summary tells the state in plain words: every set, list and count of it.
func summary(p *Projector) map[string]string {
	out := map[string]string{"live": fmt.Sprint(p.state.live), "payloads": fmt.Sprint(p.state.payloads), "accepted": fmt.Sprint(p.state.accepted)}
	members := func(s *set) (xs []uint32) {
		s.each(func(x uint32) bool { xs = append(xs, x); return true })
		return xs
	}
	nodes := func(s *nodeSet) (xs []uint32) {
		s.each(&p.state.layout, func(x uint32) bool { xs = append(xs, x); return true })
		return xs
	}
	for _, proj := range p.state.projects {
		for key, s := range proj.selectors {
			out["selector "+key+proj.id.String()] = fmt.Sprint(s.ordinal, members(&s.identities), len(s.policies))
		}
		for key, i := range proj.identities {
			var sels []uint32
			for _, s := range i.selectors() {
				sels = append(sels, s.ordinal)
			}
			out["identity "+key+proj.id.String()] = fmt.Sprint(i.ordinal, nodes(&i.nodes), p.state.alone.at(i.ordinal), sels)
		}
		for slug, pol := range proj.slugs {
			out["slug "+slug+proj.id.String()] = pol.id.String()
		}
		out["all "+proj.id.String()] = fmt.Sprint(members(&proj.index.all))
		out["changed "+proj.id.String()] = fmt.Sprint(proj.changed)
	}
	for id, n := range p.state.nodes {
		out["node "+string(id)] = fmt.Sprint(n.ordinal, n.identity != nil, n.addressed, *p.state.factsOf(n), n.since, n.event, n.recent)
	}
	for id, pol := range p.state.policies {
		out["policy "+id.String()] = fmt.Sprint(pol.number, pol.head, pol.headSeq, pol.since, pol.selected, pol.ended, pol.fp, pol.revisions.list, pol.changed())
		if r := pol.rollout; r != nil {
			out["rollout "+id.String()] = fmt.Sprintf("%x", r.append(nil))
			if r.trial != nil {
				out["trial "+id.String()] = fmt.Sprint(r.trial.number, r.trial.head, r.trial.headSeq, r.trial.headTime, r.trial.revisions.list, len(p.state.underWay))
			}
		}
	}
	out["kept"] = fmt.Sprint(p.state.kept.from, p.state.kept.bytes)
	for i, r := range keptRecords(p) {
		out[fmt.Sprint("kept ", i)] = fmt.Sprintf("%v %d %x %x", r.at(), r.size(), r.key(nil), r.value(nil))
	}
	return out
}

func TestAPayloadIsKeptWhileAHeadHasIt(t *testing.T) {
	p, j := openFresh(t), &journal{}
	apply := func(e policy.Event) { require.Equal(t, "applied", verdict(t, p, j.add(e))) }
	stored := func(port int) bool {
		_, err := payload(p.db, compiler.Compile([]policy.Rule{rule(port)}).Fingerprint)
		return err == nil
	}
	apply(update(t, 1, 1, "a", "role", "web"))
	apply(revise(t, 2, 1, 1, 1, 0, "web", "role=web", 80))
	apply(revise(t, 3, 1, 1, 2, 1, "web", "role=web", 81))
	require.False(t, stored(80))
	require.True(t, stored(81))
	apply(revise(t, 4, 1, 1, 3, 2, "web", "role=web", 82))
	require.False(t, stored(81))
	apply(revise(t, 5, 1, 2, 4, 0, "www", "role=web", 81)) // and returns
	apply(revise(t, 6, 1, 3, 5, 0, "wwww", "role=web", 81))
	apply(remove(7, 1, 2))
	require.True(t, stored(81), "another head has it")
	apply(remove(8, 1, 3))
	require.False(t, stored(81))
}

func TestAnIdentityLivesWhileANodeHasIt(t *testing.T) {
	p, j := openFresh(t), &journal{}
	identities := func(e policy.Event) (n int) {
		require.Equal(t, "applied", verdict(t, p, j.add(e)))
		p.Read(func(v *View) { n = v.Counts().Identities })
		return n
	}
	require.Equal(t, 1, identities(update(t, 1, 1, "a", "role", "web")))
	require.Equal(t, 1, identities(update(t, 2, 1, "b", "role", "web")))
	require.Equal(t, 1, identities(revise(t, 3, 1, 1, 1, 0, "web", "role=web", 80)))
	require.Equal(t, 2, identities(update(t, 4, 1, "a", "role", "db")))
	require.Equal(t, 1, identities(update(t, 5, 1, "a", "role", "web")))
	require.Equal(t, 1, identities(leave(6, 1, "a")))
	require.Equal(t, 0, identities(leave(7, 1, "b")))
	require.Zero(t, count(t, p, keyIdentity))
	require.Equal(t, 1, count(t, p, keySelector))
	identities(remove(8, 1, 1))
	require.Zero(t, count(t, p, keySelector), "a selector lives while a head uses it")
}

func count(t *testing.T, p *Projector, prefix byte) (n int) {
	l := loader{Projector: p}
	require.NoError(t, l.scan(prefix, func(_, _ []byte) error { n++; return nil }))
	return n
}

func TestALogThatIsNotTheOneFoldedIsRefused(t *testing.T) {
	dir := t.TempDir()
	p, err := Open(dir, Options{Partitions: testPartitions, Created: born})
	require.NoError(t, err)
	j := &journal{}
	for i := range 3 {
		verdict(t, p, j.add(update(t, i+1, 1, fmt.Sprintf("n%d", i))))
	}
	require.NoError(t, p.Verify(context.Background(), j))

	var other *OtherLogError
	short := &journal{msgs: j.msgs[:2]}
	require.ErrorAs(t, p.Verify(context.Background(), short), &other, "a log that lost its tail")
	changed := &journal{msgs: slices.Clone(j.msgs)}
	changed.msgs[2].Body = append(slices.Clone(changed.msgs[2].Body), ' ')
	require.ErrorAs(t, p.Verify(context.Background(), changed), &other, "a changed event")

	_, err = Open(dir, Options{Partitions: testPartitions, Created: born})
	var locked *LockedError
	require.ErrorAs(t, err, &locked)
	require.NoError(t, p.Close())
	_, err = Open(dir, Options{Partitions: testPartitions, Created: born.Add(1)})
	require.ErrorAs(t, err, &other, "a log created at another time")
}

func (j *journal) Get(_ context.Context, seq uint64) (streams.Message, error) {
	if seq == 0 || seq > uint64(len(j.msgs)) {
		return streams.Message{}, streams.ErrNotFound
	}
	return j.msgs[seq-1], nil
}

func TestAHoleInTheLogStopsTheFold(t *testing.T) {
	p, j := openFresh(t), &journal{}
	for i := range 3 {
		j.add(update(t, i+1, 1, fmt.Sprintf("n%d", i)))
	}
	require.ErrorContains(t, p.Apply([]streams.Message{j.msgs[0], j.msgs[2]}), "log continues at 3, not at 2")
}

// An invalid event about an id that reads as none is told as what is wrong with it,
// wherever it stands: nobody can say where it belongs.
func TestAnInvalidEventAboutNoIDIsNotMisplaced(t *testing.T) {
	p, j := openFresh(t), &journal{}
	const none = "00000000-0000-0000-0000-000000000000" // a node may be called so
	body := func(node string) []byte {
		return fmt.Appendf(nil, `{"id":%q,"type":"node_updated","project_id":%q,"node_id":%q,"labels":{},"addresses":["ten"]}`, evt(1), tenant(1), node)
	}
	elsewhere := wire.Subject(leave(1, 1, "elsewhere"))
	require.Equal(t, policy.Invalid, verdict(t, p, j.raw(elsewhere, body(none))))
	require.Equal(t, CodeSubjectMismatch, verdict(t, p, j.raw(elsewhere, body("n"))))
}
