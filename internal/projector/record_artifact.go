package projector

import (
	"encoding/binary"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

func (s *artifactSet) append(b []byte) []byte {
	name := ""
	if s.rete != nil {
		name = s.rete.name
	}
	b = appendU64(appendU64(appendU64(b, s.version), s.seq), uint64(s.time))
	b = appendText(appendU64(append(b, s.event[:]...), s.seen), name)
	b = binary.AppendUvarint(b, uint64(len(s.parts)))
	for _, p := range s.parts {
		b = append(appendText(appendText(b, p.kind), p.name), p.fingerprint[:]...)
		b = binary.BigEndian.AppendUint16(p.since.append(b), uint16(p.place))
	}
	if s.was != "" {
		b = appendText(b, s.was)
	}
	return b
}

// readArtifacts reads what append wrote; the rete is for the caller to find.
func readArtifacts(b []byte) (s artifactSet, reteName string, err error) {
	r := reader{b: b}
	s.version, s.seq, s.time = r.u64(), r.u64(), r.time()
	s.event, s.seen, reteName = r.id(), r.u64(), r.text()
	for range min(r.uvarint(), policy.MaxArtifacts) {
		p := heldPart{artifactPart: artifactPart{r.text(), r.text(), compiler.Fingerprint(r.hash())}, since: r.moment()}
		p.place = int(binary.BigEndian.Uint16(r.take(2)))
		s.parts = append(s.parts, p)
	}
	if r.err == nil && len(r.b) > 0 {
		s.was = r.text()
	}
	return s, reteName, r.err
}

func (t *rete) append(b []byte) []byte {
	b = binary.AppendUvarint(appendU64(b, t.version), uint64(len(t.signers)))
	for _, s := range t.signers {
		b = appendText(appendText(b, s.SPIFFE), s.Key)
	}
	return b
}

func readRete(b []byte) (t rete, err error) {
	r := reader{b: b}
	t.version = r.u64()
	for range min(r.uvarint(), policy.MaxSigners) {
		t.signers = append(t.signers, policy.TrustedSigner{SPIFFE: r.text(), Key: slices.Clone(r.bytes())})
	}
	return t, r.err
}

// retes reads the pinned signers from the store.
func (l *loader) retes() error {
	return l.scan(keyRete, func(k, v []byte) error {
		t, err := readRete(v)
		if err != nil {
			return err
		}
		t.project, t.name = l.state.project(uuid.UUID(k[:16])), string(k[16:])
		t.project.retes[t.name] = &t
		return nil
	})
}

// artifacts reads what nodes hold.
func (l *loader) artifacts() error {
	return l.scan(keyArtifacts, func(k, v []byte) error {
		s, name, err := readArtifacts(v)
		id, beside := cutBeside(k[16:])
		n := l.state.nodes[id]
		if err != nil || n == nil {
			return errRecord
		}
		if name != "" {
			if s.rete = n.project.retes[name]; s.rete == nil {
				return errRecord
			}
			s.rete.nodes++
		}
		for _, p := range s.parts {
			l.state.payloads[p.fingerprint]++
		}
		if s.beside = beside; beside != "" {
			if n.artifacts == nil {
				return errRecord // a node's first set is before it
			}
			n.artifacts.others = append(n.artifacts.others, &s)
		} else {
			n.artifacts = &s
		}
		return nil
	})
}
