package convergence

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Census is where every node stood at one moment. It never changes.
type Census struct {
	nodes    []counted // by id
	sets     []labelSet
	ordinals []uint32 // as they were walked
	place    []int32  // of nodes: nodes[i] was walked as the place[i]-th

	moment moment // that it holds for
	made   time.Time
	took   time.Duration
}

// counted is a node of a census.
type counted struct {
	id    policy.NodeID
	set   int32
	state State
}

// labelSet is one that nodes of a project have.
type labelSet struct {
	project uuid.UUID
	labels  policy.Labels
}

// A census of a small fleet is always of now. A large one, which is some tens of
// milliseconds of work, is used again for a second, and for so long that at most a tenth of
// the time goes into them, however often somebody asks.
const (
	smallFleet  = 4096
	censusAge   = time.Second
	censusShare = 10
)

// Census says where all nodes stand. In a large fleet it may be a second old. The error is
// *NotReadyError, or ctx's.
func (t *Tracker) Census(ctx context.Context) (*Census, error) {
	if !t.heard() {
		return nil, &NotReadyError{}
	}
	select {
	case t.counting <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-t.counting }()
	if t.census != nil && t.serves(t.census) {
		return t.census, nil
	}
	began := time.Now()
	c := &Census{moment: t.now(0).moment(), made: began}
	if t.census != nil {
		c.nodes, c.ordinals = make([]counted, 0, len(t.census.nodes)), make([]uint32, 0, len(t.census.nodes))
	}
	if err := c.walk(ctx, t); err != nil {
		return nil, err
	}
	c.sort(t.census)
	c.took = time.Since(began)
	t.census = c
	return c, nil
}

// Counts counts all nodes by where they stand, as of now. It goes through them unless nothing
// happened since it last did. The error is *NotReadyError, or ctx's.
func (t *Tracker) Counts(ctx context.Context) (Counts, error) {
	if !t.heard() {
		return Counts{}, &NotReadyError{}
	}
	select {
	case t.counting <- struct{}{}:
	case <-ctx.Done():
		return Counts{}, ctx.Err()
	}
	defer func() { <-t.counting }()
	now := t.now(0)
	if t.counted != nil && t.counted.moment == now.moment() {
		return t.counted.counts, nil
	}
	x := &countsAt{moment: now.moment()}
	if err := t.eachNode(ctx, func(_ projector.NodeSummary, s State) { x.counts[s]++ }); err != nil {
		return Counts{}, err
	}
	t.counted = x
	return x.counts, nil
}

// countsAt are counts, and what they hold for.
type countsAt struct {
	moment moment
	counts Counts
}

func (t *Tracker) serves(c *Census) bool {
	return t.now(0).moment() == c.moment ||
		len(c.nodes) > smallFleet && time.Since(c.made) < max(censusAge, censusShare*c.took)
}

// walk goes through all nodes.
func (c *Census) walk(ctx context.Context, t *Tracker) error {
	sets := map[uint32]int32{} // by identity
	return t.eachNode(ctx, func(s projector.NodeSummary, state State) {
		set, ok := sets[s.Identity]
		if !ok {
			set = int32(len(c.sets))
			sets[s.Identity] = set
			c.sets = append(c.sets, labelSet{s.Project, s.Labels})
		}
		c.ordinals = append(c.ordinals, s.Ordinal)
		c.nodes = append(c.nodes, counted{s.ID, set, state})
	})
}

// eachNode calls f with every node and where it stands, under both locks.
func (t *Tracker) eachNode(ctx context.Context, f func(s projector.NodeSummary, state State)) error {
	var page []projector.NodeSummary
	var at projector.NodeCursor
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		t.opt.Model.Read(func(v *projector.View) {
			t.mu.Lock()
			defer t.mu.Unlock()
			page, at, more = v.NodeSummaries(page, at, stride)
			for _, s := range page {
				r := t.table.of(s.Ordinal)
				t.judge(v, r, s)
				f(s, stateOf(s, r))
			}
		})
	}
	return nil
}

// sort puts the nodes in the order of their ids. As long as the nodes are those of the
// census before, so is their order.
func (c *Census) sort(before *Census) {
	if before != nil && slices.Equal(before.ordinals, c.ordinals) {
		c.place = before.place
	} else {
		c.place = make([]int32, len(c.nodes))
		for i := range c.place {
			c.place[i] = int32(i)
		}
		slices.SortFunc(c.place, func(a, b int32) int { return cmp.Compare(c.nodes[a].id, c.nodes[b].id) })
	}
	sorted := make([]counted, len(c.nodes))
	for i, at := range c.place {
		sorted[i] = c.nodes[at]
	}
	c.nodes = sorted
}

// Among is which nodes of a census are meant: those of a project, or with uuid.Nil of any,
// whose labels satisfy Labels.
type Among struct {
	Project uuid.UUID
	Labels  policy.Expr
}

// sets says which label sets of a census are meant.
func (a Among) sets(c *Census) []bool {
	out := make([]bool, len(c.sets))
	for i, s := range c.sets {
		out[i] = (a.Project == uuid.Nil || a.Project == s.project) && a.Labels.Matches(s.labels)
	}
	return out
}

// Seq is the log sequence that the census stands at, at least.
func (c *Census) Seq() uint64 { return c.moment.seq }

// Count counts nodes.
func (c *Census) Count(a Among) (n Counts) {
	meant := a.sets(c)
	for _, x := range c.nodes {
		if meant[x.set] {
			n[x.state]++
		}
	}
	return n
}

// Above lists the nodes above an id that stand as wanted, by State, by id.
func (c *Census) Above(a Among, wanted [len(States)]bool, above policy.NodeID) iter.Seq[policy.NodeID] {
	return func(yield func(policy.NodeID) bool) {
		meant := a.sets(c)
		from, is := slices.BinarySearchFunc(c.nodes, above, func(x counted, id policy.NodeID) int { return cmp.Compare(x.id, id) })
		if is {
			from++
		}
		for _, x := range c.nodes[from:] {
			if meant[x.set] && wanted[x.state] && !yield(x.id) {
				return
			}
		}
	}
}

// Group is nodes of one value of a label.
type Group struct {
	Value  string
	Absent bool // the nodes do not have the label
	Counts Counts
}

// Groups counts nodes by the value of a label, the group with the most nodes first that
// have not applied what they must.
func (c *Census) Groups(a Among, key string) []Group {
	meant, of := a.sets(c), make([]int, len(c.sets))
	at := map[Group]int{} // by value, without counts
	var out []Group
	for i, s := range c.sets {
		if !meant[i] {
			continue
		}
		value, has := s.labels.Get(key)
		g := Group{Value: value, Absent: !has}
		n, ok := at[g]
		if !ok {
			n = len(out)
			at[g] = n
			out = append(out, g)
		}
		of[i] = n
	}
	for _, x := range c.nodes {
		if meant[x.set] {
			out[of[x.set]].Counts[x.state]++
		}
	}
	slices.SortFunc(out, func(a, b Group) int {
		open := func(g Group) int { return g.Counts.Nodes() - g.Counts[StateApplied] }
		return cmp.Or(cmp.Compare(open(b), open(a)), cmp.Compare(a.Value, b.Value))
	})
	return out
}
