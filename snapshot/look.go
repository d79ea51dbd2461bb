package snapshot

import (
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/compiler/datapath"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
)

// look is one Look on its way.
type look struct {
	*Watch
	had, own []bool
	changed  []policy.NodeID
	place    *projectTables // of the project at hand

	refused, fit int           // nodes whose table is refused now, or fits again
	first        policy.NodeID // of the refused ones
}

// fresh reports whether a partition is own and was not at the Look before.
func (l *look) fresh(p int) bool { return l.own[p] && (p >= len(l.had) || !l.had[p]) }

// events are some that may have changed a table.
type events struct {
	n    int
	last uint64 // sequence of the last one
	// told: the last one changed a row of the node, so that it hears of all of them.
	told bool
}

func (e *events) add(x events) {
	e.n += x.n
	if x.last > e.last {
		e.last, e.told = x.last, x.told
	}
}

// touchedBy is what happened in one project since it was looked at.
type touchedBy struct {
	policies map[uuid.UUID]events // told: the last one rewrote the rules
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

// project looks at the nodes of one project.
func (l *look) project(id uuid.UUID) (err error) {
	p := l.projects[id]
	known := p != nil
	if !known {
		p = &watched{facts: map[policy.NodeID]policy.Node{}, nodes: map[policy.NodeID]*enforcing{}, lists: map[listKey]*watchedList{}}
	}
	m, ok := l.model.Muster(id, max(p.seq, l.seq))
	if !ok {
		return nil
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	l.matter(m.Touched)
	by := p.touches(m.Touched, known)
	l.place = nil
	for _, list := range p.lists {
		list.used = false
		list.count(by.moves)
	}
	seen := map[policy.NodeID]bool{}
	err = m.Each(func(e *projector.Enforcement) error {
		if !known {
			p.facts[e.Node.ID] = e.Node
		}
		seen[e.Node.ID] = true
		return l.node(p, &by, e)
	})
	if err != nil {
		return err
	}
	p.sweep(seen, l.tables)
	p.seq, p.changed = m.Seq, m.Generation
	if l.projects[id] = p; len(p.nodes) == 0 && l.extended[id] == nil {
		delete(l.projects, id)
	}
	return nil
}

// touches takes up what happened and brings the facts of nodes up to date. Of a
// project that is not known yet, there are none.
func (p *watched) touches(list []projector.Touch, known bool) touchedBy {
	by := touchedBy{policies: map[uuid.UUID]events{}, nodes: map[policy.NodeID]events{}}
	for _, t := range list {
		if t.Policy != uuid.Nil {
			e := by.policies[t.Policy]
			e.add(events{1, t.Seq, t.Rewrote})
			by.policies[t.Policy] = e
			continue
		}
		id := t.Node.ID
		before, was := p.facts[id]
		e := by.nodes[id]
		e.add(events{1, t.Seq, false})
		by.nodes[id] = e
		by.moves = append(by.moves, move{t.Seq, before, t.Node, was, !t.Gone, !known && !was && e.n == 1})
		if t.Gone {
			delete(p.facts, id)
		} else {
			p.facts[id] = t.Node
		}
	}
	return by
}

// count counts the changes that the table of a list may show.
func (l *watchedList) count(moves []move) {
	l.moves, l.own = events{}, map[policy.NodeID]int{}
	for _, m := range moves {
		_, before := l.kinds.Of(m.before)
		_, after := l.kinds.Of(m.after)
		if m.was && before || m.is && after || m.unknown {
			l.moves.add(events{1, m.seq, false})
			l.own[m.after.ID]++
		}
	}
}

// node looks at one node.
func (l *look) node(p *watched, by *touchedBy, e *projector.Enforcement) error {
	id := e.Node.ID
	part := id.Partition(len(l.own))
	base := p.nodes[id]
	if !l.own[part] {
		delete(p.nodes, id)
		return nil
	}
	if !l.enforces(e) && base == nil {
		return nil
	}
	now, met, err := l.enforcing(p, by, base, e)
	if err != nil {
		return err
	}
	l.note(id, base, now)
	if p.nodes[id] = now; !l.enforces(e) {
		delete(p.nodes, id)
	}
	if !l.fresh(part) && owed(by, base, now, id, met) {
		l.changed = append(l.changed, id)
	}
	return nil
}

// at is where the tables of the project at hand are, taken once: a muster must
// not lose what it made of it when others are ahead.
func (l *look) at(e *projector.Enforcement) *projectTables {
	if l.place == nil {
		l.place = l.tables.place(e)
	}
	return l.place
}

// enforces reports whether a policy of the node has anything of section 8.
func (l *look) enforces(e *projector.Enforcement) bool {
	extended := l.extended[e.Node.Project]
	for _, h := range e.Matched {
		if extended[h.Policy] {
			return true
		}
	}
	return false
}

// enforcing is what a node enforces now, and the events that may have changed
// that. Its table is made only where one of them may.
func (l *look) enforcing(p *watched, by *touchedBy, base *enforcing, e *projector.Enforcement) (now *enforcing, met events, err error) {
	now = &enforcing{rows: e.Matched}
	own := by.nodes[e.Node.ID]
	if base != nil && own.n == 0 && len(by.policies) == 0 {
		now.list = base.list
	} else if now.list, err = l.list(p, by, e); err != nil {
		return nil, met, err
	}
	list := p.lists[now.list]
	list.used = true
	met.add(list.moves)
	if base == nil || base.list != now.list {
		if base != nil { // what either of the two lists met
			old := p.lists[base.list].moves
			met.n, met.last = max(met.n, old.n), max(met.last, old.last)
		}
		own.n -= list.own[e.Node.ID]
		met.add(own)
	} else if own.n > 1 {
		met.add(own)
	}
	met.add(by.of(base, now, by.nodes[e.Node.ID].n == 0))
	if base != nil && base.list == now.list && met.n == 0 {
		now.fingerprint, now.refused = base.fingerprint, base.refused
		return now, met, nil
	}
	now.fingerprint, now.refused, err = l.tableOf(l.at(e), e)
	return now, met, err
}

// list is the node's list, among those of the project.
func (l *look) list(p *watched, by *touchedBy, e *projector.Enforcement) (key listKey, err error) {
	heads, err := l.tables.heads(l.at(e), e, e.Matched)
	if err != nil {
		return key, err
	}
	rules, _ := datapath.List(e.Node, heads)
	key = keyOf(rules, present)
	if p.lists[key] == nil {
		list := &watchedList{kinds: datapath.NewKinds(rules)}
		list.count(by.moves)
		p.lists[key] = list
	}
	return key, nil
}

// of are the events of policies that match a node or matched it. One that had
// several may have matched in between. stayed: the node has the facts that it had,
// so that it was the policy that let go of it.
func (by *touchedBy) of(base, now *enforcing, stayed bool) (met events) {
	matched, gone := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
	if base != nil {
		for _, h := range base.rows {
			gone[h.Policy] = true
		}
	}
	for _, h := range now.rows {
		matched[h.Policy] = true
		delete(gone, h.Policy)
	}
	for id, e := range by.policies {
		switch {
		case gone[id]:
			e.told = e.n == 1 && stayed
		case !matched[id] && e.n == 1:
			continue
		case !matched[id]:
			e.told = false
		}
		met.add(e)
	}
	return met
}

// owed reports whether a node must be told that its table changed.
func owed(by *touchedBy, base, now *enforcing, id policy.NodeID, met events) bool {
	switch {
	case met.told:
		return false
	case base != nil && base.fingerprint == now.fingerprint:
		return met.n > 1 // it may have been another in between
	case met.n > 1:
		return true // a row may tell of one of them, and the node may have looked before the others
	}
	return !rowsTold(by, base, now, id)
}

// rowsTold reports whether the one event that a look met changed a row of the
// node.
func rowsTold(by *touchedBy, base, now *enforcing, id policy.NodeID) bool {
	if base == nil { // its first policy of the kind
		return by.nodes[id].n > 0
	}
	return !slices.EqualFunc(base.rows, now.rows, func(a, b projector.HeadRef) bool { // both by policy id
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

// sweep lets go what no node has any more.
func (p *watched) sweep(seen map[policy.NodeID]bool, tables *Tables) {
	for id := range p.nodes {
		if !seen[id] {
			delete(p.nodes, id)
			tables.gone(id)
		}
	}
	for key, list := range p.lists {
		if !list.used {
			delete(p.lists, key)
		}
	}
}
