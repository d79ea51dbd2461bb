package projector

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/policy"
)

// The kept past is what nodes lost and the present facts do not say: which
// selectors policies had, which labels nodes had, which artifacts. It reaches
// back for a window of log time and a budget of bytes, and belongs to this store:
// another of the same log may keep more or less of it.
const (
	defaultPast      = 7 * 24 * time.Hour
	defaultPastBytes = 512 << 20
)

// keptRecord is one entry of the kept past.
type keptRecord interface {
	at() moment
	size() int // about what it takes
	key(b []byte) []byte
	value(b []byte) []byte
}

// filedRecord is one of those of which there are few.
type filedRecord interface {
	keptRecord
	file()   // puts it where it is found
	unfile() // undoes file; it is the oldest of its kind
}

// moment is an event of the log and its time.
type moment struct {
	seq  uint64
	time int64 // unix ns, the log's
}

// lost: a policy had a selector since one event, until another that gave it a
// new one or deleted it.
type lost struct {
	until  moment
	since  uint64
	policy *policyState
	sel    policy.Selector
	scope  *scope
	arm    bool // it was that of a rollout's arm
	bytes  int
	filed  [2]term
}

// withdrawn: a node lost an artifact, which stood at a place of its set.
type withdrawn struct {
	until      moment
	node       *node
	kind, name string
	place      int
	kept       *kept
}

// kept is the past that is kept, in memory; the store has the same records.
type kept struct {
	formers   formers
	queue     []filedRecord // the others, oldest first
	bytes     int
	from      uint64 // nothing up to it is kept any more
	dropped   uint64 // for want of space
	withdrawn map[uint32][]*withdrawn
	// unread, where it is not nil, reads the formers, which a brief store has in Pebble alone.
	unread func() error
	stored former // the last of them that was added
}

func newKept() kept {
	return kept{formers: newFormers(), withdrawn: map[uint32][]*withdrawn{}}
}

func (k *kept) len() int { return k.formers.len() + len(k.queue) }

func (k *kept) add(r filedRecord) {
	r.file()
	k.queue = append(k.queue, r)
	k.bytes += r.size()
}

// addFormer adds one, where they are in memory. What it returns is to be written.
func (k *kept) addFormer(n *node, f former) *former {
	if k.unread != nil {
		k.stored, k.stored.node = f, n.ordinal
		return &k.stored
	}
	r := k.formers.add(n, f)
	k.bytes += r.size()
	return r
}

// oldest is the oldest record; nil: there is none. Of one event a former comes first.
func (k *kept) oldest() keptRecord {
	r := k.formers.oldest()
	if len(k.queue) == 0 {
		if r == nil {
			return nil
		}
		return r
	}
	if r == nil || k.queue[0].at().seq < r.until.seq {
		return k.queue[0]
	}
	return r
}

// drop forgets the oldest record.
func (k *kept) drop() {
	r := k.oldest()
	k.bytes -= r.size()
	if filed, ok := r.(filedRecord); ok {
		filed.unfile()
		k.queue[0] = nil
		k.queue = k.queue[1:]
		return
	}
	k.formers.drop()
}

// keepRecord adds a record of the present event to memory and store.
func (f *fold) keepRecord(r filedRecord) {
	f.kept.add(r)
	f.writeRecord(r)
}

func (f *fold) writeRecord(r keptRecord) {
	f.key, f.value = r.key(f.key[:0]), r.value(f.value[:0])
	f.set(f.key, f.value)
}

// keepLost remembers that a policy had its present selector until now.
func (f *fold) keepLost(p *policyState) {
	if fault.Always(fault.ForgottenSelectors) {
		return
	}
	r := &lost{until: f.moment(), since: p.selected, policy: p.itself(), sel: p.selector.sel, scope: p.selector.scope, arm: p.of != nil}
	r.measure()
	f.keepRecord(r)
}

// keepFormer remembers that a node had its present labels until now.
func (f *fold) keepFormer(n *node) {
	if fault.Always(fault.ForgottenLabels) {
		return
	}
	f.writeRecord(f.kept.addFormer(n, former{until: f.moment(), since: n.since.seq, labels: n.identity.labels}))
}

// keepWithdrawn remembers that a node had an artifact until now.
func (f *fold) keepWithdrawn(n *node, p artifactPart, place int) {
	f.keepRecord(&withdrawn{until: f.moment(), node: n, kind: p.kind, name: p.name, place: place, kept: &f.kept})
}

func (f *fold) moment() moment { return moment{f.seq, f.time} }

// trim drops what is older than the window, and the oldest of what is beyond
// the budget. What is a day or more ahead is of a clock that was wrong, and is dropped, too:
// nothing after it would be, until its time came. It stands at the end of each batch.
func (k *kept) trim(now int64, window time.Duration, most int, drop func(keptRecord)) {
	for r := k.oldest(); r != nil; r = k.oldest() {
		age := time.Duration(now - r.at().time)
		old := age > window || age <= -UsageHours*time.Hour
		if !old && k.bytes <= most && r.at().seq > k.from {
			break
		}
		if !old {
			k.dropped++
		}
		k.from = max(k.from, r.at().seq) // a brief store reads formers after the others
		drop(r)
		k.drop()
	}
}

func (l *lost) at() moment      { return l.until }
func (w *withdrawn) at() moment { return w.until }

// A record takes about what its texts do, some of them twice, and what points to
// them.
const recordSize = 192

func (l *lost) measure() {
	var buf [512]byte
	l.bytes = recordSize + 2*(len(l.sel.Source.AppendText(buf[:0]))+len(l.sel.Destination.AppendText(buf[:0]))) + len(l.scope.key())
}

func (l *lost) size() int { return l.bytes }

func (w *withdrawn) size() int { return recordSize + len(w.kind) + len(w.name) }

// file puts it under the terms by which the index would find its selector: who
// has labels asks for their terms alone.
func (l *lost) file() {
	proj := l.policy.project
	for side, e := range [...]policy.Expr{l.sel.Source, l.sel.Destination} {
		t := proj.index.rarest(e).term // the zero term: it requires no label
		l.filed[side] = t
		if side == 0 || t != l.filed[0] {
			proj.lost[t] = append(proj.lost[t], l)
		}
	}
}

func (l *lost) unfile() {
	by := l.policy.project.lost
	for side, t := range l.filed {
		if side == 0 || t != l.filed[0] {
			by[t] = by[t][1:]
			if len(by[t]) == 0 {
				delete(by, t)
			}
		}
	}
}

func (w *withdrawn) file() {
	w.kept.withdrawn[w.node.ordinal] = append(w.kept.withdrawn[w.node.ordinal], w)
}

func (w *withdrawn) unfile() {
	by := w.kept.withdrawn
	if by[w.node.ordinal] = by[w.node.ordinal][1:]; len(by[w.node.ordinal]) == 0 {
		delete(by, w.node.ordinal)
	}
}

// key: an event that moves a rollout may end the selector of both its arms.
func (l *lost) key(b []byte) []byte {
	if b = appendU64(append(b, keyLost), l.until.seq); l.arm {
		b = append(b, 1)
	}
	return b
}

func (w *withdrawn) key(b []byte) []byte {
	return binary.BigEndian.AppendUint16(appendU64(append(b, keyWithdrawn), w.until.seq), uint16(w.place))
}

func (l *lost) value(b []byte) []byte {
	b = appendU64(appendU64(b, uint64(l.until.time)), l.since)
	var buf [512]byte
	b = appendText(append(b, l.policy.id[:]...), l.sel.Source.AppendText(buf[:0]))
	return l.scope.append(appendText(b, l.sel.Destination.AppendText(buf[:0])))
}

func (w *withdrawn) value(b []byte) []byte {
	b = appendU32(appendU64(b, uint64(w.until.time)), w.node.ordinal)
	return appendText(appendText(b, w.kind), w.name)
}

// kept reads the kept past from the store.
func (l *loader) kept() error {
	k := &l.state.kept
	k.from = l.cursor.pastFrom
	if k.unread == nil {
		if err := l.formers(func() {}); err != nil {
			return err
		}
	}
	var others []filedRecord
	// Of one event in the order in which the fold adds them.
	for _, kind := range []struct {
		prefix byte
		read   func(r *reader, seq uint64, place int) filedRecord
	}{{keyWithdrawn, l.withdrawn}, {keyLost, l.lost}} {
		err := l.scan(kind.prefix, func(key, v []byte) error {
			r, place := reader{b: v}, 0
			switch len(key) {
			case 10:
				place = int(binary.BigEndian.Uint16(key[8:]))
			case 9:
				place = int(key[8])
			}
			record := kind.read(&r, binary.BigEndian.Uint64(key), place)
			if record == nil || r.err != nil {
				return errRecord
			}
			others = append(others, record)
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(others, func(a, b filedRecord) int { return cmp.Compare(a.at().seq, b.at().seq) })
	for _, r := range others {
		k.add(r)
	}
	return nil
}

func (l *loader) lost(r *reader, seq uint64, arm int) filedRecord {
	x := &lost{until: moment{seq, r.time()}, since: r.u64(), arm: arm == 1}
	x.policy = l.state.policies[uuid.UUID(r.id())]
	source, destination := r.text(), r.text()
	x.scope = r.scope()
	sel, err := parseSelector(source, destination)
	if x.policy == nil || err != nil {
		return nil
	}
	x.sel = sel
	x.measure()
	return x
}

func (l *loader) withdrawn(r *reader, seq uint64, place int) filedRecord {
	x := &withdrawn{until: moment{seq, r.time()}, place: place, kept: &l.state.kept}
	x.node = l.node(r.u32())
	x.kind, x.name = r.text(), r.text()
	if x.node == nil {
		return nil
	}
	return x
}

// node finds a node by its ordinal as a record has it.
func (l *loader) node(ordinal uint32) *node {
	part, place := l.state.partition(ordinal), int(l.state.place(ordinal))
	if part >= len(l.state.byOrdinal) || place >= len(l.state.byOrdinal[part]) {
		return nil
	}
	return l.state.byOrdinal[part][place]
}
