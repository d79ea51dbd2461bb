package snapshot

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler/datapath"
)

// named is what a list comes to, and the steps that it took to find out.
type named struct {
	key   tableKey
	steps int
}

// tableKey names what a table is made of: the rules of a list, and the peers that
// they can tell apart.
type tableKey [sha256.Size]byte

// sorted are the nodes of a project by what a list can tell apart.
type sorted struct {
	kinds      *datapath.Kinds
	population datapath.Population
}

// sort sorts nodes as they stood at a sequence.
func (p *projectTables) sort(w *datapath.Work, rules []datapath.Rule, seq uint64) (*sorted, error) {
	s := &sorted{kinds: datapath.NewKinds(rules)}
	var err error
	s.population, err = s.kinds.Sort(p.roster.at(seq).nodes, w)
	return s, err
}

// name finds out what a list comes to, as nodes stood at a sequence. Once it is
// known in a generation, nodes are not sorted again for it.
func (t *Tables) name(w *datapath.Work, p *projectTables, rules []datapath.Rule, seq uint64) (name named, s *sorted, err error) {
	list := keyOf(rules, seq)
	t.mu.Lock()
	name, known := p.keys[list]
	t.mu.Unlock()
	if known {
		return name, nil, nil
	}
	if s, err = p.sort(w, rules, seq); err != nil {
		return name, nil, err
	}
	name = named{nameOf(p.project, rules, s.population), w.Steps()}
	t.mu.Lock()
	defer t.mu.Unlock()
	p.keys[list] = name
	return name, s, nil
}

// nameOf is equal for equal tables of one project: those of equal rules and equal
// peers.
func nameOf(project uuid.UUID, rules []datapath.Rule, population datapath.Population) (key tableKey) {
	h := sha256.New()
	list := keyOf(rules, present)
	h.Write(project[:])
	h.Write(list[:])
	var line []byte
	for _, id := range population.Identities {
		line = append(binary.AppendUvarint(line[:0], uint64(len(id.Name))), id.Name...)
		members := population.Members[id.Name]
		line = binary.AppendUvarint(line, uint64(len(members)))
		for _, n := range members {
			line = append(binary.AppendUvarint(line, uint64(len(n.ID))), n.ID...)
			line = binary.AppendUvarint(line, uint64(len(n.Addresses)))
			for _, a := range n.Addresses {
				b := a.As16()
				line = append(line, b[:]...)
			}
			if len(line) > 1<<14 {
				h.Write(line)
				line = line[:0]
			}
		}
		h.Write(line)
	}
	h.Sum(key[:0])
	return key
}

// listKey names a list of rules and the moment of the nodes.
type listKey [sha256.Size]byte

// keyOf is equal for equal lists of one project: which rules of which revisions
// they have, in which direction, and which of them are for any peer.
func keyOf(rules []datapath.Rule, at uint64) (key listKey) {
	h := sha256.New()
	line := binary.BigEndian.AppendUint64(nil, at)
	h.Write(line)
	for i := range rules {
		r := &rules[i]
		line = append(line[:0], byte(r.Direction))
		line = append(append(line, r.Ref.Policy...), r.Ref.Revision...)
		line = append(line, byte(r.Ref.Index>>8), byte(r.Ref.Index), 0)
		if r.Peer.Any {
			line[len(line)-1] = 1
		}
		h.Write(line)
	}
	h.Sum(key[:0])
	return key
}
