package projector

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// load reads the store into memory, or writes the first records of a new one.
func (p *Projector) load() error {
	p.state = newState(p.opt.Partitions)
	if p.opt.Brief {
		later := loader{Projector: p, labels: map[string]policy.Labels{}}
		p.state.kept.unread = later.readFormers
	}
	defer func() {
		p.admissionSeq.Store(p.state.admission.last())
		p.accessSeq.Store(p.state.access.last())
	}()
	fresh, err := p.loadSchema()
	if err != nil || fresh {
		return err
	}
	l := loader{Projector: p, bySelector: map[uint32]*selector{}, labels: map[string]policy.Labels{}}
	defer func() { p.state.changes.skip(p.cursor.seq) }()
	if err := l.all(); err != nil {
		return fmt.Errorf("load store %s: %w", p.dir, err)
	}
	return nil
}

// all loads what the facts refer to, the facts, and what refers to them.
func (l *loader) all() error {
	steps := []func() error{l.cursorRecord, l.identities, l.selectors}
	for _, kind := range FactKinds {
		if kind.load != nil {
			steps = append(steps, func() error { return kind.load(l) })
		}
	}
	for _, step := range append(steps, l.kept, l.usage) {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// loadSchema checks what wrote the store; fresh means that nobody has.
func (p *Projector) loadSchema() (fresh bool, err error) {
	v, err := p.get(schemaKey())
	if errors.Is(err, pebble.ErrNotFound) {
		p.cursor = cursor{created: p.opt.Created.UnixNano(), first: p.opt.First, base: p.opt.Base}
		b := p.db.NewBatch()
		defer b.Close()
		schema := appendU32(appendU32(nil, SchemaVersion), uint32(p.opt.Partitions))
		err = errors.Join(b.Set(schemaKey(), schema, nil), b.Set(cursorKey(), p.cursor.append(nil), nil), b.Commit(pebble.NoSync), p.flush())
		return true, err
	}
	if err != nil {
		return false, err
	}
	have, parts, err := readSchema(v)
	switch {
	case err != nil:
		return false, err
	case have != SchemaVersion:
		return false, &SchemaError{Dir: p.dir, Have: have, Know: SchemaVersion}
	case int(parts) != p.opt.Partitions:
		return false, &OtherLogError{Dir: p.dir, Detail: fmt.Sprintf("that log has %d partitions, this one %d", parts, p.opt.Partitions)}
	}
	return false, nil
}

func readSchema(v []byte) (version, partitions uint32, err error) {
	r := reader{b: v}
	version, partitions = r.u32(), r.u32()
	return version, partitions, r.err
}

func (m *model) get(key []byte) ([]byte, error) { return get(m.db, key) }

func get(db *pebble.DB, key []byte) ([]byte, error) {
	v, closer, err := db.Get(key)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return append([]byte(nil), v...), nil
}

type loader struct {
	*Projector
	bySelector map[uint32]*selector
	labels     map[string]policy.Labels // of the kept past, as records have them
}

// scan calls f with every record under a prefix; neither slice outlives the call.
func (l *loader) scan(prefix byte, f func(key, value []byte) error) error {
	return l.scanFrom([]byte{prefix}, f)
}

// scanFrom is scan for the records of a prefix from a key on.
func (l *loader) scanFrom(key []byte, f func(key, value []byte) error) error {
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: key, UpperBound: []byte{key[0] + 1}})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if err := f(it.Key()[1:], it.Value()); err != nil {
			return err
		}
	}
	return it.Error()
}

func (l *loader) cursorRecord() error {
	v, err := l.get(cursorKey())
	if err != nil {
		return err
	}
	if l.cursor, err = readCursor(v); err != nil {
		return err
	}
	if l.cursor.created != l.opt.Created.UnixNano() {
		return &OtherLogError{Dir: l.dir, Detail: fmt.Sprintf("that log was created %s, this one %s", stamp(l.cursor.created), stamp(l.opt.Created.UnixNano()))}
	}
	l.rejected = l.cursor.seq
	l.state.nextIdent, l.state.nextSel, l.state.accepted = l.cursor.nextIdentity, l.cursor.nextSelector, l.cursor.policies
	if err := l.takeBase(); err != nil {
		return err
	}
	v, err = l.get(reportedKey())
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil || len(v) != 8 {
		return errors.Join(err, errRecord)
	}
	l.reported = binary.BigEndian.Uint64(v)
	return nil
}

// takeBase takes a base that the log was given since: an accepted loss raises
// it. It never falls.
func (l *loader) takeBase() error {
	switch have := l.cursor.base; {
	case have > l.opt.Base:
		return &OtherLogError{Dir: l.dir, Detail: fmt.Sprintf("event ids of that log count from %d, of this one from %d", have, l.opt.Base)}
	case have < l.opt.Base:
		l.cursor.base = l.opt.Base
		return errors.Join(l.db.Set(cursorKey(), l.cursor.append(nil), pebble.NoSync), l.flush())
	}
	return nil
}

func (l *loader) identities() error {
	return l.scan(keyIdentity, func(k, v []byte) error {
		project, labels, err := readIdentity(v)
		ordinal := binary.BigEndian.Uint32(k)
		if err != nil || ordinal >= l.state.nextIdent {
			return errRecord
		}
		i := &identity{ordinal: ordinal, project: l.state.project(project), key: labels.Key(), labels: labels, since: l.cursor.seq}
		l.state.identities.put(ordinal, i)
		i.project.identities[i.key] = i
		i.project.index.enter(i)
		l.state.live.identities++
		return nil
	})
}

func (l *loader) nodes() error {
	var nodes slab[node]
	var ids texts
	err := l.scan(keyNode, func(k, v []byte) error {
		r, err := readNode(v)
		if err != nil {
			return err
		}
		n := nodes.next()
		*n = node{
			id: policy.NodeID(ids.text(k[16:])), project: l.state.project(uuid.UUID(k[:16])), ordinal: r.ordinal,
			since: r.since, event: r.event, recent: r.recent,
		}
		if n.id.Partition(l.state.parts) != l.state.partition(n.ordinal) {
			return errRecord
		}
		n.placed(len(r.addresses))
		l.state.enroll(n)
		*l.state.factsOf(n) = r.seq
		n.project.changed = max(n.project.changed, r.seq)
		if !r.present {
			return nil
		}
		l.state.live.nodes++
		n.project.nodes++
		if n.identity = l.state.identities.at(r.identity); n.identity == nil {
			return errRecord
		}
		return nil
	})
	if err != nil {
		return err
	}
	// In ordinal order: appending to a bitmap is cheap, inserting is not.
	for _, part := range l.state.byOrdinal {
		for _, n := range part {
			if n == nil {
				return errRecord
			}
			if n.identity != nil {
				n.identity.nodes.add(&l.state.layout, n.ordinal)
				l.state.hold(n.identity)
			}
		}
	}
	return nil
}

// selectors come after the identities, and find those that they match.
func (l *loader) selectors() error {
	return l.scan(keySelector, func(k, v []byte) error {
		project, sel, within, err := readSelector(v)
		if err != nil {
			return err
		}
		s := &selector{ordinal: binary.BigEndian.Uint32(k), project: l.state.project(project), sel: sel, scope: within, generation: l.cursor.seq}
		l.bySelector[s.ordinal] = s
		s.project.selectors[s.key()] = s
		s.project.index.file(s)
		l.state.live.selectors++
		s.identities = l.state.match(s.project, s)
		return nil
	})
}

func (l *loader) policies() error {
	return l.scan(keyPolicy, func(k, v []byte) error {
		r, err := readPolicy(v)
		if err != nil {
			return err
		}
		p := &policyState{
			id: uuid.UUID(k[16:]), project: l.state.project(uuid.UUID(k[:16])), slug: r.slug, name: r.name,
			head: r.head, headSeq: r.headSeq, headTime: r.headTime, created: r.created, fp: r.fp,
			number: r.number, since: r.since, selected: r.selected, ended: r.ended,
		}
		l.state.policies[p.id] = p
		p.project.changed = max(p.project.changed, p.headSeq, p.since.seq)
		if r.deleted {
			return nil
		}
		if p.selector = l.bySelector[r.selector]; p.selector == nil {
			return errRecord
		}
		p.selector.policies = append(p.selector.policies, p)
		p.project.slugs[p.slug] = p
		l.state.live.policies++
		l.state.payloads[p.fp]++
		return nil
	})
}

func (l *loader) revisions() error {
	err := l.scan(keyRevisionID, func(k, v []byte) error {
		p := l.state.policies[uuid.UUID(k[:16])]
		if p == nil || len(v) != 8 {
			return errRecord
		}
		p.revisions.add(binary.BigEndian.Uint64(v), uuid.UUID(k[16:]))
		return nil
	})
	for _, p := range l.state.policies {
		p.revisions.sort()
	}
	return err
}

func (l *loader) usage() error {
	return l.scan(keyUsage, func(k, v []byte) error {
		u, err := readUsage(v)
		if err != nil || len(k) != len(uuid.UUID{}) {
			return errRecord
		}
		l.state.usage.put(uuid.UUID(k), u)
		return nil
	})
}

// pebbleLog passes on what an operator should see. A store that cannot write its
// manifest is unusable: the process ends, and the next one folds again from what is
// on disk.
type pebbleLog struct {
	log *slog.Logger
	dir string
}

// unusable is the exit code of a process that ends with its store: that of what is unavailable,
// since 1 would say of a comparison that it found a difference.
const unusable = 7

func (pebbleLog) Infof(string, ...any) {}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.log.Error("the store reports an error", "detail", fmt.Sprintf(format, args...), "component", "pebble")
}

func (l pebbleLog) Fatalf(format string, args ...any) {
	log := l.log
	if !log.Enabled(context.Background(), slog.LevelError) { // nobody reads it, and this is the last word
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	log.Error("the store cannot go on; the process ends", "detail", fmt.Sprintf(format, args...), "dir", l.dir, "component", "pebble")
	os.Exit(unusable)
}
