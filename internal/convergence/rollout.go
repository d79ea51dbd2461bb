package convergence

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Lagging is a node that has not applied what it should.
type Lagging struct {
	Node  policy.NodeID
	Since time.Time // log timestamp of the first change that it is not known to have
}

// Rollout says how far a policy has come.
type Rollout struct {
	Desired int // nodes that must have its head
	Applied int // of these, nodes that have it
	Dropped int // nodes it was taken from by a revision or its deletion, and that have let go of it
	// Lagging are nodes that must still apply it, or let go of it, those behind
	// for the longest first, at most as many as were asked for; Behind is how
	// many there are.
	Lagging []Lagging
	Behind  int
	// Refusals are those that lag and say that something is not applied, those that
	// do so for the longest first, at most as many as were asked for.
	Refusals []Refusal
	// Audited is what the nodes that must have the policy say they would have denied,
	// if it is in audit mode.
	Audited Audited
	// P50 and P99 are seconds from the commit of the policy's last change until
	// a report proved it applied; nil when that is known of no node.
	P50, P99 *float64
}

// maxSteps is how much of a policy's history is looked at.
const maxSteps = 64

// Rollout says how far a policy of a project has come, deleted or not; ok is
// false when the project never had it. It lists at most limit nodes. Its cost
// grows with the policy's nodes. The error is *NotReadyError, ctx's, or
// the read model's.
func (t *Tracker) Rollout(ctx context.Context, project, id uuid.UUID, limit int) (out Rollout, ok bool, err error) {
	if !t.heard() {
		return Rollout{}, false, &NotReadyError{}
	}
	var s steps
	var groups [][]projector.NodeSummary
	t.opt.Model.Read(func(v *projector.View) {
		if s, ok, err = read(v, project, id); ok && err == nil {
			groups = v.Matched(project, s.selectors())
		}
	})
	if !ok || err != nil {
		return Rollout{}, ok, err
	}
	if err := t.refresh(ctx, groups); err != nil {
		return Rollout{}, true, err
	}
	out, behind := t.count(id, s, groups, limit)
	out.Lagging, out.Refusals = t.list(ctx, behind), oldest(out.Refusals, limit)
	return out, true, nil
}

func read(v *projector.View, project, id uuid.UUID) (steps, bool, error) {
	list, ok, err := v.Steps(project, id, maxSteps)
	return list, ok, err
}

// refresh judges the reports of nodes whose rows changed since they were.
func (t *Tracker) refresh(ctx context.Context, groups [][]projector.NodeSummary) error {
	var stale []projector.NodeSummary
	t.mu.Lock()
	for _, members := range groups {
		for _, s := range members {
			if r := t.table.of(s.Ordinal); r.known() && !r.fresh(s.Identity, s.Generation) {
				stale = append(stale, s)
			}
		}
	}
	t.mu.Unlock()
	for part := range slices.Chunk(stale, chunk) {
		if err := ctx.Err(); err != nil {
			return err
		}
		t.opt.Model.Read(func(v *projector.View) {
			t.mu.Lock()
			defer t.mu.Unlock()
			for _, s := range part {
				if now, ok := v.NodeSummary(s.ID); ok {
					t.judge(v, t.table.of(now.Ordinal), now)
				}
			}
		})
	}
	return nil
}

// late is a node that lags, and since which event: at is its log timestamp, or
// zero where the log has to be asked.
type late struct {
	node    policy.NodeID
	ordinal uint32
	seq     uint64
	at      time.Time
}

// count goes through the policy's nodes.
func (t *Tracker) count(id uuid.UUID, s steps, groups [][]projector.NodeSummary, limit int) (Rollout, *longest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out Rollout
	behind := &longest{limit: limit}
	var times sketch
	changes, newest := s.ofGroups(groups)
	for i, members := range groups {
		c := changes[i]
		if c.seq == 0 {
			continue
		}
		begin, _ := s.firstAbove(0, members[0].Labels)
		table, _ := s.lastTable(members[0].Labels)
		for _, member := range members {
			if !c.has && member.Facts > c.seq {
				continue // it came, or came to these labels, after the row had gone
			}
			r := t.table.of(member.Ordinal)
			rows := r.proves(max(c.seq, member.Facts))
			done := rows && t.table.tables.reaches(member.Ordinal, max(table.seq, member.Facts))
			switch {
			case c.has && done:
				out.Applied++
			case done:
				out.Dropped++
			default:
				if rows {
					behind.add(late{node: member.ID, ordinal: member.Ordinal, seq: table.seq, at: table.time})
				} else {
					behind.add(lag(s, member, r, c, begin))
				}
				if x, ok := t.table.refusal(&member, r); ok {
					out.Refusals = append(out.Refusals, x)
				}
			}
			if c.has {
				out.Desired++
				t.table.audits.addTo(&out.Audited, member.Ordinal, id)
			}
			if done && c.seq == newest && member.Facts < c.seq && r.first(c.seq) {
				times.add(max(0, r.arrived().Sub(c.time)))
			}
		}
	}
	out.Behind = behind.count
	if x := t.rollouts[id]; x != nil && x.seq == newest && x.times.count > times.count {
		times = x.times // of reports, too, that newer ones have replaced
	}
	out.P50, out.P99 = times.quantile(0.50), times.quantile(0.99)
	return out, behind
}

// ofGroups are the last changes of the rows of each group, zero where there
// never was one, and the sequence of the newest of them.
func (s steps) ofGroups(groups [][]projector.NodeSummary) (changes []change, newest uint64) {
	changes = make([]change, len(groups))
	for i, members := range groups {
		if c, ok := s.last(members[0].Labels); ok {
			changes[i], newest = c, max(newest, c.seq)
		}
	}
	return changes, newest
}

// lag is since when a node lags that has not proven c: since the first change
// above what it reported. A node that reported other rules than it was
// sent lags since that report. begin is the first change of the member's label set.
func lag(s steps, member projector.NodeSummary, r *report, c, begin change) late {
	l := late{node: member.ID, ordinal: member.Ordinal, seq: c.seq, at: c.time}
	if r.known() && r.version >= max(c.seq, member.Facts) {
		l.at, l.seq = r.arrived(), r.version
		return l
	}
	if r.version == 0 {
		l.seq, l.at = begin.seq, begin.time
	} else if f, ok := s.firstAbove(r.version, member.Labels); ok {
		l.seq, l.at = f.seq, f.time
	}
	if member.Facts > max(l.seq, r.version) {
		l.seq, l.at = member.Facts, time.Time{}
	}
	return l
}

// before orders by what lags for the longest, and then by what is at hand: nodes' ids
// would have to be fetched from memory for each of a fleet that all lag since one event.
func (l late) before(other late) int {
	return cmp.Or(cmp.Compare(l.seq, other.seq), cmp.Compare(l.ordinal, other.ordinal))
}

// longest keeps those behind for the longest, at most limit, and counts all: a whole
// fleet may lag. Up to twice the limit are kept unsorted, and cut.
type longest struct {
	limit, count int
	first        []late // up to limit sorted, if there are as many
}

func (x *longest) add(l late) {
	x.count++
	if x.limit <= 0 || len(x.first) >= x.limit && l.before(x.first[x.limit-1]) >= 0 {
		return // so many go before it
	}
	if x.first = append(x.first, l); len(x.first) == x.limit || len(x.first) >= 2*x.limit {
		x.cut()
	}
}

func (x *longest) cut() {
	slices.SortFunc(x.first, late.before)
	x.first = x.first[:min(len(x.first), x.limit)]
}

// list shows those behind for the longest, and asks the log for the times that nobody
// else knows.
func (t *Tracker) list(ctx context.Context, all *longest) []Lagging {
	all.cut()
	slices.SortFunc(all.first, func(a, b late) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.node, b.node))
	})
	asked := map[uint64]time.Time{}
	out := make([]Lagging, 0, len(all.first))
	for _, l := range all.first {
		if l.at.IsZero() && l.seq != math.MaxUint64 {
			at, ok := asked[l.seq]
			if !ok {
				if m, err := t.opt.Events.Get(ctx, l.seq); err == nil {
					at = m.Time
				}
				asked[l.seq] = at
			}
			l.at = at
		}
		out = append(out, Lagging{l.node, l.at})
	}
	return out
}
