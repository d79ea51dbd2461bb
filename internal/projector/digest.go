package projector

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/edictdev/edict/policy"
)

// Digest is one number for the whole state: equal for two stores that hold the
// same facts and rows, whatever their ordinals, files and kept past.
type Digest struct {
	Seq  uint64 // the sequence it stands for
	Rows int    // (node, policy) rows
	Sum  [32]byte
}

// Digest hashes policies with every revision, nodes with their facts, the
// derived rows, admission policies, artifacts with whose signatures count, and
// principals with their relations, all by name. The fold goes on meanwhile, but
// for the moment in which the rows are
// derived.
func (m *model) Digest(ctx context.Context) (Digest, error) {
	m.mu.RLock()
	d, err := m.digester(ctx)
	m.mu.RUnlock()
	if err != nil {
		return Digest{}, err
	}
	defer d.snap.Close()
	return d.sum(ctx)
}

// digester is a digest begun: what of one moment is still to be hashed.
type digester struct {
	seq       uint64
	snap      *pebble.Snapshot // to be closed
	idents    map[uint32][32]byte
	counts    map[uint32]int
	relations *relations
}

// digester begins a digest. The caller holds the lock. The error is ctx's, and
// then there is nothing to be closed.
func (m *model) digester(ctx context.Context) (digester, error) {
	d := digester{
		seq:    m.cursor.seq,
		idents: make(map[uint32][32]byte, m.state.live.identities),
		counts: make(map[uint32]int, m.state.live.identities),
	}
	for i := range m.state.identities.all() {
		if err := ctx.Err(); err != nil {
			return d, err
		}
		rows := rows(i.glance())
		d.idents[i.ordinal], d.counts[i.ordinal] = hashIdentity(i.labels, rows), len(rows)
	}
	d.snap = m.db.NewSnapshot() // of the same moment: the caller has the lock
	return d, nil
}

func (at digester) sum(ctx context.Context) (Digest, error) {
	d := Digest{Seq: at.seq}
	relations, err := readRelations(at.snap)
	if err != nil {
		return d, fmt.Errorf("digest: %w", err)
	}
	defer relations.close()
	at.relations = relations
	h := sha256.New()
	h.Write([]byte("edict/digest/v1\n"))
	for _, kind := range FactKinds {
		if kind.prefix == 0 {
			continue
		}
		err := scanSnapshot(ctx, at.snap, kind.prefix, func(k, v []byte) error {
			rows, err := kind.hash(at, h, k, v)
			d.Rows += rows
			return err
		})
		if err != nil {
			return d, err
		}
	}
	d.Sum = [32]byte(h.Sum(nil))
	return d, nil
}

func scanSnapshot(ctx context.Context, snap *pebble.Snapshot, prefix byte, f func(k, v []byte) error) error {
	it, err := snap.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}})
	if err != nil {
		return fmt.Errorf("digest: %w", err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(it.Key()[1:], it.Value()); err != nil {
			return err
		}
	}
	return it.Error()
}

// frame writes a value with its length, so that no two texts run together.
func frame(h hash.Hash, b []byte) {
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
	h.Write(b)
}

// hashWhole covers a record as it is stored: nothing in it is an ordinal.
func hashWhole(_ digester, h hash.Hash, key, value []byte) (rows int, err error) {
	frame(h, key)
	frame(h, value)
	return 0, nil
}

// hashPrincipal covers a principal with its relations.
func hashPrincipal(at digester, h hash.Hash, key, value []byte) (rows int, err error) {
	value, err = at.relations.with(key, value)
	frame(h, key)
	frame(h, value)
	return 0, err
}

// hashRollout covers a rollout but for an ordinal.
func hashRollout(_ digester, h hash.Hash, key, value []byte) (rows int, err error) {
	r, err := readRollout(value)
	if err != nil {
		return 0, err
	}
	if r.underWay() {
		r.trial = &policyState{selector: &selector{}, selected: r.selected, since: r.since}
	}
	frame(h, key)
	frame(h, r.append(nil))
	return 0, nil
}

func hashPolicy(_ digester, h hash.Hash, key, value []byte) (rows int, err error) {
	r, err := readPolicy(value)
	if err != nil {
		return 0, err
	}
	r.selector = 0 // an ordinal
	frame(h, key)
	frame(h, r.append(nil))
	return 0, nil
}

// hashNode covers a node's facts and, through its label set, its rows. Of a
// removed node only the ownership of its id is left.
func hashNode(at digester, h hash.Hash, key, value []byte) (rows int, err error) {
	r, err := readNode(value)
	if err != nil {
		return 0, err
	}
	frame(h, key)
	if !r.present {
		frame(h, nil)
		return 0, nil
	}
	facts := nodeRecord{present: true, seq: r.seq, since: r.since, event: r.event, addresses: r.addresses}
	frame(h, facts.append(nil))
	identity := at.idents[r.identity]
	frame(h, identity[:])
	return at.counts[r.identity], nil
}

func hashIdentity(labels policy.Labels, rows []Row) [32]byte {
	h := sha256.New()
	for _, l := range labels {
		frame(h, []byte(l.Key))
		frame(h, []byte(l.Value))
	}
	slices.SortFunc(rows, func(a, b Row) int { return bytes.Compare(a.Policy[:], b.Policy[:]) })
	for _, r := range rows {
		h.Write(r.Policy[:])
		h.Write(r.Revision[:])
		h.Write(r.Fingerprint[:])
	}
	return [32]byte(h.Sum(nil))
}
