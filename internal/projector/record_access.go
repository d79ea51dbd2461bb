package projector

import (
	"encoding/binary"

	"github.com/edictdev/edict/policy"
)

func (p *principal) append(b []byte) []byte {
	b = appendU64(appendU64(b, p.version), p.seq)
	b = appendText(appendU64(appendU64(b, uint64(p.created)), uint64(p.updated)), p.createdBy)
	b = binary.AppendUvarint(b, uint64(len(p.relations)))
	for _, g := range p.relations {
		b = appendText(appendU64(appendText(b, g.relation.String()), g.seq), g.by)
	}
	if p.document == nil {
		return append(b, 0)
	}
	return policy.AppendPrincipal(append(b, 1), *p.document)
}

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
	err := l.scan(keyPrincipal, func(k, v []byte) error {
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
	return err
}
