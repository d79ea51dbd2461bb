package projector

import (
	"encoding/binary"
	"fmt"

	"github.com/edictdev/edict/policy"
)

// former: a node had labels since one event, until another that gave it new ones
// or removed it.
type former struct {
	until  moment
	since  uint64
	labels policy.Labels
	before uint64 // number of the node's former before this one; below formers.first: it is not kept
	node   uint32 // ordinal
}

// formers are the kept ones, oldest first, each with a number: one more than the one
// before it has. There are millions, so they are values in chunks, which cost the
// collector of garbage next to nothing. The latest of each node, which the node
// knows, leads to those before it.
type formers struct {
	chunks [][]former // the first begins with number base
	base   uint64
	first  uint64 // number of the oldest
	next   uint64 // number that the next one gets
}

const formerChunk = 1024

func newFormers() formers { return formers{base: 1, first: 1, next: 1} }

func (fs *formers) len() int { return int(fs.next - fs.first) }

func (fs *formers) at(number uint64) *former {
	i := number - fs.base
	return &fs.chunks[i/formerChunk][i%formerChunk]
}

// oldest is the oldest one; nil: there is none.
func (fs *formers) oldest() *former {
	if fs.first == fs.next {
		return nil
	}
	return fs.at(fs.first)
}

// add makes f the latest of its node.
func (fs *formers) add(n *node, f former) *former {
	f.node, f.before = n.ordinal, n.former
	n.former = fs.next
	fs.next++
	last := len(fs.chunks) - 1
	if last < 0 || len(fs.chunks[last]) == formerChunk {
		// Most planes keep few for long: the first chunk grows as they come.
		var chunk []former
		if last >= 0 {
			chunk = make([]former, 0, formerChunk)
		}
		fs.chunks = append(fs.chunks, chunk)
		last++
	}
	fs.chunks[last] = append(fs.chunks[last], f)
	return fs.at(n.former)
}

// drop forgets the oldest.
func (fs *formers) drop() {
	*fs.at(fs.first) = former{}
	if fs.first++; fs.first-fs.base == formerChunk {
		fs.chunks[0] = nil
		fs.chunks = fs.chunks[1:]
		fs.base = fs.first
	}
}

// of calls f with those of a node, latest first, until f returns false.
func (fs *formers) of(n *node, f func(*former) bool) {
	for number := n.former; number >= fs.first; {
		r := fs.at(number)
		if !f(r) {
			return
		}
		number = r.before
	}
}

// Came is the event by which a node that exists now came, or came again after it was removed;
// 0: that is further back than the past is kept.
func (v *View) Came(id policy.NodeID) uint64 {
	n, k := v.m.state.nodes[id], &v.m.state.kept
	if n == nil || n.identity == nil || k.unread != nil {
		return 0
	}
	at := n.since.seq
	k.formers.of(n, func(f *former) bool {
		if f.until.seq != at {
			return false // it was gone in between
		}
		at = f.since
		return true
	})
	if at <= k.from {
		return 0 // labels that it had before are not kept
	}
	return at
}

func (r *former) at() moment { return r.until }

func (r *former) size() int {
	n := recordSize
	for _, l := range r.labels {
		n += 32 + len(l.Key) + len(l.Value)
	}
	return n
}

func (r *former) key(b []byte) []byte { return appendU64(append(b, keyFormer), r.until.seq) }

func (r *former) value(b []byte) []byte {
	b = appendU64(appendU64(b, uint64(r.until.time)), r.since)
	return appendLabels(appendU32(b, r.node), r.labels)
}

// formers reads those that the store has and the kept past does not leave out, and calls
// added after each.
func (l *loader) formers(added func()) error {
	return l.scanFrom(appendU64([]byte{keyFormer}, l.state.kept.from+1), func(key, v []byte) error {
		r := reader{b: v}
		f := former{until: moment{binary.BigEndian.Uint64(key), r.time()}, since: r.u64()}
		n := l.node(r.u32())
		if f.labels = l.shared(&r); n == nil || r.err != nil {
			return errRecord
		}
		l.state.kept.addFormer(n, f)
		added()
		return nil
	})
}

// readFormers reads those that a brief store has in Pebble alone, with the lock held: few
// of its readers ask for them, and beside the nodes they are most of what there is to load.
// Once it failed it fails again: what it read is a part of them.
func (l *loader) readFormers() error {
	k := &l.state.kept
	k.unread = nil
	err := l.formers(func() { k.trim(l.cursor.time, l.opt.Past, l.opt.PastBytes, func(keptRecord) {}) })
	if err != nil {
		err = fmt.Errorf("read the labels that nodes had from store %s: %w", l.dir, err)
		k.unread = func() error { return err }
	}
	return err
}

// wholePast sees to it that the kept past is in memory.
func (m *model) wholePast() error {
	m.mu.RLock()
	unread := m.state.kept.unread != nil
	m.mu.RUnlock()
	if !unread {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if read := m.state.kept.unread; read != nil {
		return read()
	}
	return nil
}

// shared reads the labels at the end of a record, one copy for all records that have them:
// most have what others had, and need not be decoded.
func (l *loader) shared(r *reader) policy.Labels {
	record := r.b
	if known, ok := l.labels[string(record)]; ok {
		return known
	}
	labels := r.labels()
	if r.err == nil {
		l.labels[string(record)] = labels
	}
	return labels
}
