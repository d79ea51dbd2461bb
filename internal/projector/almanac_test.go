package projector

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// testBase is the base of the logs whose event ids are compared.
const testBase = 1 << 20

// thing is what a node is told of: a policy's row, or an artifact.
type thing struct {
	policy     uuid.UUID
	kind, name string
}

// almanac is an honest fool who writes down what every node has after each
// event, under which id, and what it lost. It reads events, and nothing that the
// fold made of them.
type almanac struct {
	*oracle
	msgs      []streams.Message
	number    map[uuid.UUID]uint32
	since     map[uuid.UUID]uint64 // rules or selector
	revisions map[uuid.UUID][]policy.RevisionCreated
	seqOf     map[uuid.UUID]uint64 // of a revision
	waveAt    map[uuid.UUID]uint64 // of the last wave that was opened
	nodeSince map[policy.NodeID]uint64
	sets      map[policy.NodeID][]*artifactOf
	changed   map[uuid.UUID]uint64 // by project
	has       []map[policy.NodeID]map[thing]PastItem
	lost      []map[policy.NodeID]map[thing]PastItem
}

// artifactOf is an artifact of a node, and where its id stands.
type artifactOf struct {
	kind, name string
	fp         compiler.Fingerprint
	since      uint64
	place      int
}

func newAlmanac() *almanac {
	none := map[policy.NodeID]map[thing]PastItem{}
	return &almanac{
		oracle: newOracle(), number: map[uuid.UUID]uint32{}, since: map[uuid.UUID]uint64{}, revisions: map[uuid.UUID][]policy.RevisionCreated{},
		seqOf: map[uuid.UUID]uint64{}, waveAt: map[uuid.UUID]uint64{}, nodeSince: map[policy.NodeID]uint64{}, sets: map[policy.NodeID][]*artifactOf{},
		changed: map[uuid.UUID]uint64{}, has: []map[policy.NodeID]map[thing]PastItem{none}, lost: []map[policy.NodeID]map[thing]PastItem{none},
	}
}

// add takes the next event of the log.
func (a *almanac) add(e policy.Event, m streams.Message) {
	a.msgs = append(a.msgs, m)
	before := map[policy.NodeID][]artifactOf{}
	for n, set := range a.sets {
		for _, x := range set {
			before[n] = append(before[n], *x)
		}
	}
	a.event(e, m.Seq)
	had, has := a.has[m.Seq-1], a.present()
	lost := map[policy.NodeID]map[thing]PastItem{}
	for n, things := range had {
		lost[n] = map[thing]PastItem{}
		for x := range things {
			if _, still := has[n][x]; !still {
				lost[n][x] = a.tombstone(x, m.Seq, before[n])
			}
		}
	}
	a.has, a.lost = append(a.has, has), append(a.lost, lost)
}

func (a *almanac) event(e policy.Event, seq uint64) {
	switch e := e.(type) {
	case policy.RevisionCreated:
		was, old := a.pols[e.Policy], a.used[e.Policy]
		a.apply(e)
		if a.pols[e.Policy].ID != e.ID {
			return // refused
		}
		if !old {
			a.number[e.Policy] = uint32(len(a.number))
		}
		sameRules := old && compiler.Compile(was.Revision.Rules).Fingerprint == compiler.Compile(e.Revision.Rules).Fingerprint
		if !sameRules || was.Revision.Selector.Key() != e.Revision.Selector.Key() {
			a.since[e.Policy] = seq
		}
		a.revisions[e.Policy] = append(a.revisions[e.Policy], e)
		a.seqOf[e.Revision.ID] = seq
		a.changed[e.Project] = seq
	case policy.PolicyDeleted:
		if _, lives := a.pols[e.Policy]; lives {
			a.changed[e.Project] = seq
		}
		a.apply(e)
	case policy.NodeUpdated:
		was, there := a.nodes[e.Node]
		if !there || !was.Labels.Equal(e.Labels) {
			a.nodeSince[e.Node] = seq
			for i, x := range a.sets[e.Node] {
				x.since, x.place = seq, i
			}
		}
		a.changed[e.Project] = seq
		a.apply(e)
	case policy.NodeRemoved:
		a.changed[e.Project] = seq
		a.apply(e)
	case policy.RevisionStaged:
		a.rollout(e)
	case policy.RevisionPromoted:
		a.move(e, e.Policy, seq)
	case policy.WaveOpened:
		a.move(e, e.Policy, seq)
	case policy.RolloutStopped:
		a.move(e, e.Policy, seq)
	case policy.RolloutAborted:
		a.move(e, e.Policy, seq)
	case policy.ArtifactReleased:
		var set []*artifactOf
		_, released, _ := ReleasedArtifacts(e)
		for i, x := range released {
			set = append(set, &artifactOf{x.Kind, x.Name, x.Fingerprint, seq, i})
		}
		a.sets[e.Node] = set
	case policy.ArtifactWithdrawn:
		a.sets[e.Node] = slices.DeleteFunc(a.sets[e.Node], func(x *artifactOf) bool { return x.kind == e.Kind && x.name == e.Name })
	}
}

// move takes an event that may move a rollout.
func (a *almanac) move(e policy.Event, id uuid.UUID, seq uint64) {
	before := a.pols[id]
	if !a.rollout(e) {
		return
	}
	now := a.pols[id]
	a.changed[now.Project] = seq
	switch {
	case a.rolling[id].underWay():
		a.waveAt[id] = seq
	case now.ID == before.ID: // all went back
		a.since[id] = seq
	default:
		same := before.Revision.Selector.Key() == now.Revision.Selector.Key() &&
			compiler.Compile(before.Revision.Rules).Fingerprint == compiler.Compile(now.Revision.Rules).Fingerprint
		if promoted, atOnce := e.(policy.RevisionPromoted); !same || !atOnce || len(promoted.Waves) > 0 {
			a.since[id] = seq
		}
		a.revisions[id] = append(a.revisions[id], now)
		a.seqOf[now.Revision.ID] = seq
	}
}

// present is what every node has now.
func (a *almanac) present() map[policy.NodeID]map[thing]PastItem {
	out := map[policy.NodeID]map[thing]PastItem{}
	for id, n := range a.nodes {
		out[id] = map[thing]PastItem{}
		for _, p := range a.pols {
			if r, trial := a.says(p, n.Labels); p.Project == n.Project && r.Selector.Matches(n.Labels) {
				since := a.since[p.Policy]
				if trial {
					since = a.waveAt[p.Policy]
				}
				item := a.item(max(since, a.nodeSince[id]), a.number[p.Policy])
				item.Policy, item.Revision = p.Policy, a.headAt(p.Policy, item.Seq)
				if trial {
					item.Revision = r.ID
				}
				item.Fingerprint = compiler.Compile(r.Rules).Fingerprint
				out[id][thing{policy: p.Policy}] = PastItem{Item: item}
			}
		}
		for _, x := range a.sets[id] {
			item := a.item(x.since, policy.NumberArtifact+uint32(x.place))
			item.Kind, item.Name, item.Fingerprint = x.kind, x.name, x.fp
			out[id][thing{kind: x.kind, name: x.name}] = PastItem{Item: item}
		}
	}
	return out
}

func (a *almanac) item(seq uint64, number uint32) Item {
	return Item{ID: policy.NewEventID(testBase, seq, number), Seq: seq, Time: a.msgs[seq-1].Time}
}

func (a *almanac) headAt(id uuid.UUID, seq uint64) (head uuid.UUID) {
	for _, r := range a.revisions[id] {
		if a.seqOf[r.Revision.ID] <= seq {
			head = r.Revision.ID
		}
	}
	return head
}

func (a *almanac) tombstone(x thing, seq uint64, before []artifactOf) PastItem {
	number := a.number[x.policy]
	if x.policy == uuid.Nil {
		place := slices.IndexFunc(before, func(b artifactOf) bool { return b.kind == x.kind && b.name == x.name })
		number = policy.NumberWithdrawn + uint32(place)
	}
	item := a.item(seq, number)
	item.Policy, item.Kind, item.Name = x.policy, x.kind, x.name
	if x.policy != uuid.Nil {
		item.Revision = a.headAt(x.policy, seq)
	}
	return PastItem{Item: item, Gone: true}
}

// past is what a node missed above an id, when the log stands at seq. Whole:
// with what it lost.
func (a *almanac) past(n policy.NodeID, after policy.EventID, seq uint64, whole bool) (items []PastItem) {
	seen := map[thing]bool{}
	say := func(x thing, item PastItem) {
		if !seen[x] && item.ID > after {
			items = append(items, item)
		}
		seen[x] = true
	}
	for x, item := range a.has[seq][n] {
		say(x, item)
	}
	for s := seq; whole && s > 0; s-- {
		for x, item := range a.lost[s][n] {
			say(x, item)
		}
	}
	slices.SortFunc(items, func(x, y PastItem) int { return cmp.Compare(x.ID, y.ID) })
	return items
}

// live is what an event tells a node.
func (a *almanac) live(n policy.NodeID, seq uint64) (items []PastItem) {
	for x, item := range a.has[seq][n] {
		if was, had := a.has[seq-1][n][x]; !had || was.Fingerprint != item.Fingerprint {
			items = append(items, item)
		}
	}
	for _, item := range a.lost[seq][n] {
		items = append(items, item)
	}
	slices.SortFunc(items, func(x, y PastItem) int { return cmp.Compare(x.ID, y.ID) })
	return items
}

// drawAlmanac draws a log in which a few policies, nodes and artifacts come, go
// and change a lot.
func drawAlmanac(t *rapid.T, most int) *almanac {
	a, j := newAlmanac(), &journal{}
	slots := [5]int{1, 2, 3, 4, 5} // the policy that each stands for
	key := one("k1")
	events := rapid.IntRange(1, most).Draw(t, "events")
	for i := 1; i <= events; i++ {
		num := rapid.IntRange(0, 3).Draw(t, "node")
		node, proj := fmt.Sprint("n", num), 1+num/3
		slot := rapid.IntRange(0, 4).Draw(t, "policy")
		at, owner := slots[slot], 1+slot/4
		head, lives := a.pols[pol(at)]
		parts := a.sets[policy.NodeID(node)]
		var e policy.Event
		switch kind := rapid.IntRange(0, 15).Draw(t, "kind"); {
		case kind > 11:
			e = drawRollout(t, a.oracle, i, owner, at)
		case kind < 4:
			e = drawRevision(t, i, owner, at, head, lives)
		case kind < 5 && lives:
			e = remove(i, owner, at)
			slots[slot] = at + 10
		case kind < 6:
			e = leave(i, proj, node)
		case kind < 7:
			names := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"dns", "flor", "wg"}), rapid.ID[string]).Draw(t, "vertices")
			e = pinning(release(i, proj, node, uint64(i), key, []string{key}, names...), key)
		case kind < 8 && len(parts) > 0:
			x := rapid.SampledFrom(parts).Draw(t, "artifact")
			e = withdraw(i, proj, node, x.kind, x.name)
		default:
			var kv []string
			for _, k := range []string{"role", "env"} {
				if v := rapid.SampledFrom([]string{"", "web", "db", "prod"}).Draw(t, k); v != "" {
					kv = append(kv, k, v)
				}
			}
			e = update(t, i, proj, node, kv...)
		}
		a.add(e, j.add(e))
	}
	return a
}

func drawRevision(t *rapid.T, i, proj, p int, head policy.RevisionCreated, lives bool) policy.RevisionCreated {
	e := revise(t, i, proj, p, i, 0, fmt.Sprint("s", p), rapid.SampledFrom(selectorPool).Draw(t, "source"), rapid.IntRange(1, 2).Draw(t, "port"))
	e.Revision.Selector.Destination = expr(t, rapid.SampledFrom(selectorPool).Draw(t, "destination"))
	e.Revision.ID = rev(i * 389 % 1009) // in another order than the log
	if !lives {
		return e
	}
	e.Revision.Parent = head.Revision.ID
	if rapid.Bool().Draw(t, "same selector") {
		e.Revision.Selector = head.Revision.Selector
	}
	if rapid.Bool().Draw(t, "same rules") {
		e.Revision.Rules = head.Revision.Rules
	}
	return e
}

// requirePast holds what a store says a node missed against the almanac.
func (a *almanac) requirePast(t require.TestingT, p *Projector, n policy.NodeID, after policy.EventID) Past {
	at := p.Applied()
	joined := 0
	past, err := p.Past(n, after, func(seq uint64, node NodeRef) {
		joined++
		require.Equal(t, at, seq)
	})
	seq, _ := after.Seq(testBase)
	if a.has[at][n] == nil {
		require.ErrorIs(t, err, ErrUnknownNode)
		require.Zero(t, joined)
		return past
	}
	if seq > at {
		require.ErrorIs(t, err, ErrBehind)
		require.Zero(t, joined)
		return past
	}
	require.NoError(t, err)
	require.Equal(t, 1, joined)
	require.Equal(t, at, past.Seq)
	past.Plain = false // requirePlain judges it: it says what memory knows, and a restart forgets
	from := p.PastStatus().From
	require.Equal(t, from == 0 || seq > from, past.Whole)
	for i := range past.Items {
		item := &past.Items[i]
		require.Equal(t, item.Gone, item.Payload == nil)
		if !item.Gone {
			require.Equal(t, item.Fingerprint, compiler.FingerprintOf(item.Payload))
		}
		item.Payload = nil
	}
	require.Equal(t, a.past(n, after, at, past.Whole), past.Items, "%s after %v of %d", n, after, at)
	return past
}
