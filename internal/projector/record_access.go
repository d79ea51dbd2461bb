package projector

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/edictdev/edict/policy"
)

// append is what keyPrincipal holds. Relations have records of their own: a principal may
// have one to each node, and an event of one is not to write them all.
func (p *principal) append(b []byte) []byte {
	b = appendU64(appendU64(b, p.version), p.seq)
	b = appendText(appendU64(appendU64(b, uint64(p.created)), uint64(p.updated)), p.createdBy)
	if p.document == nil {
		return append(b, 0)
	}
	return policy.AppendPrincipal(append(b, 1), *p.document)
}

// append is what keyRelation holds.
func (g grant) append(b []byte) []byte { return appendText(appendU64(b, g.seq), g.by) }

// relations reads those of one principal after the other, in the order of ids.
type relations struct {
	at   *pebble.Iterator
	more bool
}

func readRelations(from pebble.Reader) (*relations, error) {
	at, err := from.NewIter(&pebble.IterOptions{LowerBound: []byte{keyRelation}, UpperBound: []byte{keyRelation + 1}})
	if err != nil {
		return nil, err
	}
	return &relations{at, at.First()}, nil
}

func (l *relations) close() error { return l.at.Close() }

// with puts the relations of the next principal into its record: between what it has of
// itself and its document. So the digest has them, and so one record had all before schema 16.
func (l *relations) with(id, record []byte) ([]byte, error) {
	r := reader{b: record}
	r.take(4 * 8)
	r.bytes()
	if r.err != nil {
		return nil, r.err
	}
	var all []byte
	n := uint64(0)
	for ; l.more; l.more = l.at.Next() {
		of, relation, _ := bytes.Cut(l.at.Key()[1:], []byte{0})
		if c := bytes.Compare(of, id); c > 0 {
			break
		} else if c < 0 { // of a principal that has no record
			return nil, errRecord
		}
		all = append(appendText(all, relation), l.at.Value()...)
		n++
	}
	head := record[: len(record)-len(r.b) : len(record)-len(r.b)]
	return append(append(binary.AppendUvarint(head, n), all...), r.b...), l.at.Error()
}

// readPrincipal reads a record that has the relations in it.
func readPrincipal(id policy.PrincipalID, b []byte) (*principal, error) {
	r := reader{b: b}
	p := &principal{id: id, version: r.u64(), seq: r.u64(), created: r.time(), updated: r.time(), createdBy: r.text()}
	for range r.uvarint() {
		rel, err := policy.ParseRelation(r.text())
		g := grant{rel, r.u64(), r.text()}
		if err != nil || r.err != nil {
			return nil, errRecord
		}
		p.relations = append(p.relations, g)
	}
	if live := r.u8() == 1; !live || r.err != nil {
		return p, r.err
	}
	d, err := policy.DecodePrincipal(r.b)
	if err != nil {
		return nil, errRecord
	}
	p.document = &d
	return p, nil
}

// access reads the principals from the store.
func (l *loader) access() error {
	a := &l.state.access
	related, err := readRelations(l.db)
	if err != nil {
		return err
	}
	err = l.scan(keyPrincipal, func(k, v []byte) error {
		v, err := related.with(k, v)
		if err != nil {
			return err
		}
		p, err := readPrincipal(policy.PrincipalID(k), v)
		if err != nil {
			return err
		}
		document := p.document
		p.document = nil // it is counted by put
		a.put(p, document)
		a.changes = append(a.changes, changed[policy.PrincipalID]{p.seq, p.id})
		return nil
	})
	sortChanges(a.changes)
	if err == nil && related.more { // than there are principals
		err = errRecord
	}
	return errors.Join(err, related.close())
}
