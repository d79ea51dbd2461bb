package projector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// append is what keyRollout holds: the rollout, what its arm is, and at the end the
// event that would publish its revision.
func (r *rollout) append(b []byte) []byte {
	b = append(append(append(b, byte(r.phase)), r.revision[:]...), r.parent[:]...)
	b = append(r.ended.append(r.staged.append(b)), r.gate.MinApplied, r.gate.MaxRefused, bit(r.extended)|bit(r.gate.Abort)<<1)
	b = appendWaves(b, r.waves)
	b = binary.AppendUvarint(b, uint64(len(r.opened)))
	for _, m := range r.opened {
		b = m.append(b)
	}
	var buf [256]byte
	b = appendText(append(appendText(b, r.reason), r.fp[:]...), r.selector.Source.AppendText(buf[:0]))
	b = appendText(b, r.selector.Destination.AppendText(buf[:0]))
	if t := r.trial; t != nil {
		b = t.since.append(appendU64(appendU32(b, t.selector.ordinal), t.selected))
	}
	return append(b, r.body...)
}

// rolloutRecord is a rollout as it is stored.
type rolloutRecord struct {
	rollout
	ordinal  uint32 // of the arm's selector, while it is under way; so the two below
	selected uint64
	since    moment
}

func readRollout(b []byte) (x rolloutRecord, err error) {
	r := reader{b: b}
	x.phase, x.revision, x.parent = phase(r.u8()), r.id(), r.id()
	x.staged, x.ended = r.moment(), r.moment()
	x.gate = policy.Gate{MinApplied: r.u8(), MaxRefused: r.u8()}
	bits := r.u8()
	x.extended, x.gate.Abort = bits&1 != 0, bits&2 != 0
	x.waves = r.waves()
	for range min(r.uvarint(), policy.MaxWaves+1) {
		x.opened = append(x.opened, r.moment())
	}
	x.reason, x.fp = r.text(), r.hash()
	source, destination := r.text(), r.text()
	if x.underWay() {
		x.ordinal, x.selected, x.since = r.u32(), r.u64(), r.moment()
	}
	if len(r.b) > 0 {
		x.body = append([]byte(nil), r.b...)
	}
	if r.err != nil || x.phase < phaseStaged || x.phase > phaseAborted {
		return x, errRecord
	}
	x.selector, err = parseSelector(source, destination)
	return x, err
}

func bit(is bool) byte {
	if is {
		return 1
	}
	return 0
}

func appendWaves(b []byte, waves []policy.Expr) []byte {
	var buf [256]byte
	b = binary.AppendUvarint(b, uint64(len(waves)))
	for _, w := range waves {
		b = appendText(b, w.AppendText(buf[:0]))
	}
	return b
}

func (r *reader) waves() (waves []policy.Expr) {
	for range min(r.uvarint(), policy.MaxWaves) {
		e, faults := policy.ParseExpr(r.text())
		if len(faults) > 0 && r.err == nil {
			r.err = errRecord
		}
		waves = append(waves, e)
	}
	return waves
}

// appendScope appends a scope, where there is one.
func (s *scope) append(b []byte) []byte {
	if s == nil {
		return b
	}
	return appendWaves(append(b, bit(s.outside)), s.waves)
}

// scope reads one at the end of a record.
func (r *reader) scope() *scope {
	if len(r.b) == 0 {
		return nil
	}
	outside := r.u8() == 1
	return &scope{waves: r.waves(), outside: outside}
}

// rollouts loads them, and the arms of those under way.
func (l *loader) rollouts() error {
	return l.scan(keyRollout, func(k, v []byte) error {
		x, err := readRollout(v)
		if len(k) > len(uuid.UUID{}) {
			return err // a former one
		}
		p := l.state.policies[uuid.UUID(k)]
		if err != nil || p == nil {
			return errors.Join(err, errRecord)
		}
		r := &x.rollout
		p.rollout = r
		if !r.underWay() {
			return nil
		}
		s := l.bySelector[x.ordinal]
		if s == nil || len(r.opened) == 0 {
			return errRecord
		}
		first := r.opened[0]
		r.trial = p.newTrial(first.seq, first.time)
		r.trial.selector, r.trial.selected, r.trial.since = s, x.selected, x.since
		s.policies = append(s.policies, r.trial)
		p.project.changed = max(p.project.changed, x.since.seq)
		l.state.payloads[r.fp]++
		l.state.underWay[p] = struct{}{}
		return nil
	})
}

// rolloutsOf yields the rollouts of a policy that reached nodes, newest first.
func rolloutsOf(from pebble.Reader, id uuid.UUID) iter.Seq2[rolloutRecord, error] {
	return func(yield func(rolloutRecord, error) bool) {
		latest, err := rolloutOf(from, id)
		if err != nil || latest.phase == 0 {
			if err != nil {
				yield(latest, err)
			}
			return
		}
		if len(latest.opened) > 0 && !yield(latest, nil) {
			return
		}
		it, err := from.NewIter(&pebble.IterOptions{LowerBound: appendFormerRolloutKey(nil, id, 0), UpperBound: after(appendRolloutKey(nil, id))})
		if err != nil {
			yield(latest, fmt.Errorf("list rollouts of policy %s: %w", id, err))
			return
		}
		defer it.Close()
		for ok := it.Last(); ok; ok = it.Prev() {
			if x, err := readRollout(it.Value()); !yield(x, err) {
				return
			}
		}
		if err := it.Error(); err != nil {
			yield(latest, fmt.Errorf("list rollouts of policy %s: %w", id, err))
		}
	}
}

// revisionRecord reads the record of a revision that nodes have: of a head, or of a
// rollout under way. Close it.
func revisionRecord(from pebble.Reader, id uuid.UUID, seq uint64) (value []byte, closer io.Closer, err error) {
	value, closer, err = from.Get(appendRevisionKey(nil, id, seq))
	if !errors.Is(err, pebble.ErrNotFound) {
		return value, closer, err
	}
	b, rolling, failed := from.Get(appendRolloutKey(nil, id))
	if failed != nil {
		return nil, nil, errors.Join(err, failed)
	}
	defer rolling.Close()
	x, failed := readRollout(b)
	if failed != nil || len(x.opened) == 0 || x.opened[0].seq != seq || x.body == nil {
		return nil, nil, errors.Join(err, failed)
	}
	return append(appendU64(nil, uint64(x.opened[0].time)), x.body...), io.NopCloser(nil), nil
}

func rolloutFact(k, v []byte) (Fact, error) {
	r, err := readRollout(v)
	if err != nil {
		return Fact{}, err
	}
	waves, opened := make([]string, len(r.waves)), make([]string, len(r.opened))
	for i, w := range r.waves {
		waves[i] = w.Canonical()
	}
	for i, m := range r.opened {
		opened[i] = m.String()
	}
	key := uuid.UUID(k).String()
	if former := k[len(uuid.UUID{}):]; len(former) == 8 {
		key += fmt.Sprintf("/%020d", binary.BigEndian.Uint64(former))
	}
	return Fact{FactRollout, key, map[string]string{
		"revision": r.revision.String(), "parent": r.parent.String(), "phase": r.phase.String(), "staged": r.staged.String(), "ended": r.ended.String(),
		"waves": strings.Join(waves, ";"), "opened": strings.Join(opened, " "), "reason": r.reason, "fingerprint": r.fp.String(),
		"min_applied_percent": strconv.Itoa(int(r.gate.MinApplied)), "max_refused_percent": strconv.Itoa(int(r.gate.MaxRefused)), "on_refusal": r.gate.OnRefusal(),
		"selected": strconv.FormatUint(r.selected, 10), "since": r.since.String(),
	}}, nil
}
