package snapshot

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// look is one Look on its way.
type look struct {
	*Watch
	ctx        context.Context
	all, asked []policy.NodeID
	place      *projectTables // of the project at hand
	allowed    int            // steps that its tables may still take: half of what one table may, at first

	refused, fit int           // nodes whose table is refused now, or fits again
	first        policy.NodeID // of the refused ones
}

// events are some that may have changed a table.
type events struct {
	n    int
	last uint64 // sequence of the last one
	// rowSent: the last one changed a row of the node, whose message announces all of
	// them.
	rowSent bool
}

func (e *events) add(x events) {
	e.n += x.n
	if x.last > e.last {
		e.last, e.rowSent = x.last, x.rowSent
	}
}

// touchedBy is what happened in one project since it was looked at.
type touchedBy struct {
	policies map[uuid.UUID]events // rowSent: the last one rewrote the rules
	nodes    map[policy.NodeID]events
	moves    []move
}

// move is one change of a node's facts.
type move struct {
	seq           uint64
	before, after policy.Node
	was, is       bool // it had facts, and has
	unknown       bool // what it had is not known
}

// project looks at the nodes of one project: at those that an event may concern.
func (l *look) project(id uuid.UUID) (err error) {
	p := l.projects[id]
	if p.idle() && l.extended[id] == nil && len(p.fresh) == 0 {
		p.forget() // what passes now is not taken up
		return nil
	}
	var picked []policy.NodeID
	all := !p.known && (!p.idle() || l.extended[id] != nil)
	m, ok := l.model.ProjectSnapshot(id, max(p.seq, l.seq), func(m *projector.ProjectSnapshot, matching func(uuid.UUID) iter.Seq[policy.NodeID]) []policy.NodeID {
		picked = p.pick(m, matching, all)
		return picked
	})
	if !ok {
		return nil
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if !m.Whole && p.known {
		return errForgotten
	}
	note(l.extended, m.Changes)
	if p.idle() && l.extended[id] == nil {
		return l.plain(p, m)
	}
	by := p.touches(m.Changes, p.known)
	if err := l.meet(p, m); err != nil {
		return err
	}
	l.allowed = l.tables.opt.Budget() / 2
	for _, list := range p.lists {
		if list.count(by.moves); list.moves.n > 0 {
			picked = slices.AppendSeq(picked, maps.Keys(list.nodes))
		}
	}
	slices.Sort(picked)
	for _, id := range slices.Compact(picked) {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if err := l.one(p, &by, m, id); err != nil {
			return err
		}
	}
	l.tables.let(l.place, p.sweep())
	p.known, p.seq = true, m.Seq
	return nil
}

// plain looks at a project without anything to watch: a node that came may have
// had something before.
func (l *look) plain(p *watched, m *projector.ProjectSnapshot) error {
	p.forget()
	for id, at := range p.fresh {
		heads, ok := m.Heads(id)
		if !ok || m.Generation <= at {
			continue
		}
		was, err := m.Enforcement(policy.Node{ID: id, Project: m.Project, Labels: m.Labels(id)}, heads).WasExtended(at)
		if err != nil {
			return err
		}
		if was {
			l.all = append(l.all, id)
		}
	}
	return nil
}

// meet shares the facts of all nodes with who makes tables, or reads them. The
// place is taken once: a look must not lose what it made of it when others are
// ahead.
func (l *look) meet(p *watched, m *projector.ProjectSnapshot) error {
	e := m.Enforcement(policy.Node{Project: m.Project}, nil)
	if l.place = l.tables.place(e); p.known {
		p.roster = l.tables.keepRoster(l.place, p.roster)
		return nil
	}
	err := l.tables.nodes(l.place, e, l.ctx.Err)
	p.roster = l.place.roster
	return err
}

// one looks at one node, if it still exists.
func (l *look) one(p *watched, by *touchedBy, m *projector.ProjectSnapshot, id policy.NodeID) error {
	n := p.roster.get(id)
	if n == nil {
		p.drop(id)
		l.tables.gone(id)
		return nil
	}
	heads, picked := m.Heads(id)
	if !picked { // it has the policies that it had
		heads = p.nodes[id].rows
	}
	return l.node(p, by, m.Enforcement(n.Node, heads))
}

// touches takes up what happened and brings the facts of nodes up to date. Of a
// project that is not known yet, there are none.
func (p *watched) touches(list []projector.Change, known bool) touchedBy {
	by := touchedBy{policies: map[uuid.UUID]events{}, nodes: map[policy.NodeID]events{}}
	for _, t := range list {
		if t.Policy != uuid.Nil {
			e := by.policies[t.Policy]
			e.add(events{1, t.Seq, t.Rewrote})
			by.policies[t.Policy] = e
		}
	}
	p.roster, by.moves = p.roster.follow(list)
	for i := range by.moves {
		m := &by.moves[i]
		e := by.nodes[m.after.ID]
		e.add(events{n: 1, last: m.seq})
		by.nodes[m.after.ID] = e
		m.unknown = !known && !m.was && e.n == 1
	}
	return by
}

// count counts the changes that the table of a list may show.
func (l *watchedList) count(moves []move) {
	l.moves, l.own = events{}, map[policy.NodeID]int{}
	for _, m := range moves {
		if m.unknown || l.kinds == nil || m.was && l.kinds.Know(m.before) || m.is && l.kinds.Know(m.after) {
			l.moves.add(events{n: 1, last: m.seq})
			l.own[m.after.ID]++
		}
	}
}

// node looks at one node.
func (l *look) node(p *watched, by *touchedBy, e *projector.Enforcement) error {
	id := e.Node.ID
	base, tables := p.nodes[id], p.here[id]
	at, fresh := p.fresh[id]
	late := fresh && e.Generation > at // what it missed is not known
	ordered := matched(l.extended[e.Node.Project], e.Matched)
	was := base != nil && base.ordered
	if late && !ordered && !was {
		var err error
		if was, err = e.WasExtended(at); err != nil {
			return err
		}
	}
	if !ordered && !tables && base == nil {
		l.tell(id, late && was, was)
		return nil
	}
	now, met, err := l.enforcing(p, by, base, e)
	if err != nil {
		return err
	}
	now.ordered = ordered
	l.note(id, base, now)
	if p.put(id, now); !ordered && !tables {
		p.drop(id)
	}
	unseen := fresh && base == nil // nothing to compare with, and nothing missed
	moved := base != nil && ordered && base.resolvedOtherwise(now)
	l.tell(id, late || !unseen && (moved || owed(by, base, now, id, met)), ordered || was)
	return nil
}

// resolvedOtherwise reports whether a node has another resolved block now, which has its
// addresses, and which no row tells of: others, or none before.
func (e *enforcing) resolvedOtherwise(now *enforcing) bool {
	return !slices.Equal(e.addresses, now.addresses) || !e.ordered && sameRows(e, now)
}

// tell notes that a node must be sent that its table changed; ordered: whoever listens.
func (l *look) tell(id policy.NodeID, yes, ordered bool) {
	switch {
	case yes && ordered:
		l.all = append(l.all, id)
	case yes:
		l.asked = append(l.asked, id)
	}
}

// enforcing is what a node enforces now, and the events that may have changed
// that. Its table is made only where one of them may.
func (l *look) enforcing(p *watched, by *touchedBy, base *enforcing, e *projector.Enforcement) (now *enforcing, met events, err error) {
	now = &enforcing{rows: e.Matched, addresses: e.Node.Addresses}
	own := by.nodes[e.Node.ID]
	stayed := base != nil && own.n == 0 && !base.unseen && (len(by.policies) == 0 || slices.Equal(base.rows, e.Matched))
	if stayed {
		now.list = base.list
	} else if now.list, err = l.list(p, by, e); errors.Is(err, errAllowance) {
		now.list, now.unseen, err = p.unseen(by), true, nil
	} else if err != nil {
		return nil, met, err
	}
	list := p.lists[now.list]
	met.add(list.moves)
	policies := by.of(base, now, own.n == 0)
	if base == nil || base.list != now.list {
		if base != nil { // what either of the two lists met
			old := p.lists[base.list].moves
			met.n, met.last = max(met.n, old.n), max(met.last, old.last)
		}
		own.n -= list.own[e.Node.ID]
		met.add(own)
	} else if own.n > 1 || own.n > 0 && (policies.n > 0 || !sameRows(base, now)) { // it had another list in between, or heard of one
		met.add(own)
	}
	met.add(policies)
	if base != nil && (base.list == now.list && met.n == 0 || now.unseen) {
		now.sum, now.refused, now.unseen = base.sum, base.refused, base.unseen || now.unseen
		return now, met, nil
	}
	if base != nil && !base.refused && !base.unseen && !now.unseen {
		s, err := l.stands(list, now.list)
		if err != nil {
			return nil, met, err
		}
		if s != nil {
			now.sum = s.sum
			return now, met, nil
		}
	}
	if !now.unseen {
		if now.sum, now.refused, err = l.tableOf(e); errors.Is(err, errAllowance) {
			now.unseen, err = true, nil
		}
	}
	return now, met, err
}

// unseen is the list of nodes whose lists were not looked at: any node that
// changed may change their tables.
func (p *watched) unseen(by *touchedBy) (none listKey) {
	if p.lists[none] == nil {
		list := &watchedList{nodes: map[policy.NodeID]bool{}}
		list.count(by.moves)
		p.lists[none] = list
	}
	return none
}

// job waits for a worker to look at tables of the project at hand. End its turn.
func (l *look) job() (*job, error) {
	turn, err := l.tables.turns.beside(l.ctx)
	return &job{turn, l.allowed}, err
}

// list is the node's list, among those of the project.
func (l *look) list(p *watched, by *touchedBy, e *projector.Enforcement) (key listKey, err error) {
	j, err := l.job()
	if err != nil {
		return key, err
	}
	defer j.end()
	w := l.tables.work(j)
	of, err := l.tables.list(w, e, e.Matched)
	err = l.tables.worked(j, w, err)
	if l.allowed = j.allowed; err != nil {
		return key, err
	}
	key = keyOf(sumOf(of), present)
	if p.lists[key] == nil {
		list := &watchedList{kinds: datapath.NewKinds(of.Rules), nodes: map[policy.NodeID]bool{}}
		list.count(by.moves)
		p.lists[key] = list
	}
	list := p.lists[key]
	list.listed = max(list.listed, w.Steps())
	return key, nil
}

// of are the events of policies that match a node or matched it. One that had
// several may have matched in between. stayed: the node has the facts that it had,
// so that it was the policy that let go of it.
func (by *touchedBy) of(base, now *enforcing, stayed bool) (met events) {
	for id, e := range by.policies {
		switch matched, had := now.has(id), base.has(id); {
		case had && !matched:
			e.rowSent = e.n == 1 && stayed
		case !matched && e.n == 1:
			continue
		case !matched:
			e.rowSent = false
		}
		met.add(e)
	}
	return met
}

// owed reports whether a node must be sent that its table changed.
func owed(by *touchedBy, base, now *enforcing, id policy.NodeID, met events) bool {
	switch {
	case met.rowSent:
		return false
	case auditsOthers(base, now):
		return true
	case base != nil && (base.unseen || now.unseen):
		return met.n > 0
	case base != nil && base.sum == now.sum:
		return met.n > 1 // it may have been another in between
	case met.n > 1:
		return true // a row may tell of one of them, and the node may have looked before the others
	}
	return !rowsSent(by, base, now, id)
}

// rowsSent reports whether the one event that a look met changed a row of the
// node.
func rowsSent(by *touchedBy, base, now *enforcing, id policy.NodeID) bool {
	if base == nil { // its first policy of the kind
		return by.nodes[id].n > 0
	}
	return !sameRows(base, now)
}

// auditsOthers reports whether a policy in audit mode has another revision. Its rows
// have no rules, which no other policy's have, so none tells of it.
func auditsOthers(base, now *enforcing) bool {
	if base == nil {
		return false
	}
	return slices.ContainsFunc(now.rows, func(r projector.HeadRef) bool {
		i := slices.IndexFunc(base.rows, func(b projector.HeadRef) bool { return b.Policy == r.Policy })
		return i >= 0 && r.Fingerprint == compiler.Empty.Fingerprint && base.rows[i].Fingerprint == r.Fingerprint && base.rows[i].Revision != r.Revision
	})
}

func sameRows(a, b *enforcing) bool {
	return slices.EqualFunc(a.rows, b.rows, func(a, b projector.HeadRef) bool { // both by policy id
		return a.Policy == b.Policy && a.Fingerprint == b.Fingerprint
	})
}

// note counts what changed about refusals.
func (l *look) note(id policy.NodeID, base, now *enforcing) {
	was := base != nil && base.refused
	switch {
	case now.refused && !was:
		if l.refused++; l.first == "" {
			l.first = id
		}
	case was && !now.refused:
		l.fit++
	}
}

// report tells the operator.
func (l *look) report() {
	if l.refused > 0 {
		refusals := l.tables.Refused([]policy.NodeID{l.first})
		detail := ""
		if len(refusals) > 0 {
			detail = refusals[0].Err.Error()
		}
		l.log.Warn("tables are refused: their nodes keep the last good ones", "nodes", l.refused, "node", l.first, "detail", detail)
	}
	if l.fit > 0 {
		l.log.Info("tables that were refused fit again", "nodes", l.fit)
	}
}

// stands is what a list of nodes comes to now, where that is in memory or soon
// found, and none of them is refused it; nil: ask for each.
func (l *look) stands(list *watchedList, key listKey) (*listState, error) {
	if list.place != l.place || list.stands == nil {
		j, err := l.job()
		if err != nil {
			return nil, err
		}
		defer j.end()
		list.place, list.stands = l.place, l.tables.stands(j, l.place, key, present)
		l.allowed = j.allowed
	}
	if s := list.stands; s != nil && s.err == nil && list.listed+s.sorting <= l.tables.opt.Budget() {
		return s, nil
	}
	return nil, nil
}

// tableOf is the contents of what a node enforces.
func (l *look) tableOf(e *projector.Enforcement) (sum contents, refused bool, err error) {
	x, known := l.tables.answered(l.place, e.Node.ID)
	if !known {
		j, err := l.job()
		if err != nil {
			return sum, false, err
		}
		defer j.end()
		_, x, _, err = l.tables.decide(j, l.place, e)
		if l.allowed = j.allowed; err != nil {
			return sum, false, err
		}
	}
	if x.none != nil {
		return sum, true, nil
	}
	return x.sum, x.refused != nil, nil
}
