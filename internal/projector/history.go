package projector

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// Changes are the log sequences that gave the project what tables are made of
// now or were made of before: revisions of policies that live, and facts that
// nodes have. Newest first, each once. It is asked all along whether to proceed,
// and ends with the error.
func (e *Enforcement) Changes(proceed func() error) ([]uint64, error) {
	var seqs []uint64
	proceed = paced(proceed)
	err := e.policies(func(id uuid.UUID, _ policyRecord) error {
		r, err := e.rollout(id)
		if err != nil {
			return err
		}
		// Only while it is under way: what is staged next takes the place of one that
		// ended, and changes no table.
		if r.underWay() {
			for _, m := range r.opened {
				seqs = append(seqs, m.seq)
			}
		}
		return e.revisions(id, func(seq uint64) error {
			seqs = append(seqs, seq)
			return proceed()
		})
	})
	if err != nil {
		return nil, err
	}
	for n, err := range e.Nodes() {
		if err == nil {
			err = proceed()
		}
		if err != nil {
			return nil, err
		}
		seqs = append(seqs, n.Seq)
	}
	slices.SortFunc(seqs, func(a, b uint64) int { return cmp.Compare(b, a) })
	return slices.Compact(seqs), nil
}

// paced is proceed, asked every now and then by those who call it all along.
func paced(proceed func() error) func() error {
	const often = 256 // records, some ten microseconds
	n := 0
	return func() error {
		if n++; n%often != 0 {
			return nil
		}
		return proceed()
	}
}

// MatchedAt are the revisions, oldest policy id first, that matched the node's
// present labels when the log stood at seq, of policies that live now. What was
// deleted since stays deleted. It is asked all along whether to proceed, and ends
// with the error.
func (e *Enforcement) MatchedAt(seq uint64, proceed func() error) ([]HeadRef, error) {
	present := map[uuid.UUID]HeadRef{}
	for _, h := range e.Matched {
		present[h.Policy] = h
	}
	proceed = paced(proceed)
	var out []HeadRef
	err := e.policies(func(id uuid.UUID, r policyRecord) error {
		if err := proceed(); err != nil {
			return err
		}
		since, err := e.hasSince(id, r.headSeq)
		if err != nil {
			return err
		}
		if since <= seq {
			if h, matched := present[id]; matched {
				out = append(out, h)
			}
			return nil
		}
		last := uint64(0)
		if err := e.revisions(id, func(at uint64) error {
			if at <= seq {
				last = at
			}
			return proceed()
		}); err != nil || last == 0 {
			return err
		}
		h := HeadRef{Policy: id, seq: last}
		then, err := e.Revision(h)
		if err != nil {
			return err
		}
		h.Revision = then.ID
		if then.Selector.Matches(e.Node.Labels) {
			out = append(out, h)
		}
		return nil
	})
	return out, err
}

// rollout is the latest of a policy; a zero one, which has reached nobody, where there
// was none.
func (e *Enforcement) rollout(id uuid.UUID) (rolloutRecord, error) { return rolloutOf(e.snap, id) }

func rolloutOf(snap pebble.Reader, id uuid.UUID) (x rolloutRecord, err error) {
	b, closer, err := snap.Get(appendRolloutKey(nil, id))
	if errors.Is(err, pebble.ErrNotFound) {
		return x, nil
	}
	if err != nil {
		return x, fmt.Errorf("read the rollout of policy %s: %w", id, err)
	}
	defer closer.Close()
	return readRollout(b)
}

// hasSince is the event since which a policy says to the node's labels what it says
// now: that of its head, or of the wave of a rollout under way that reached them.
func (e *Enforcement) hasSince(id uuid.UUID, headSeq uint64) (uint64, error) {
	x, err := e.rollout(id)
	if wave := x.reached(e.Node.Labels); err == nil && wave > 0 && x.underWay() {
		return wave, nil
	}
	return headSeq, err
}

// reached is the sequence of the wave that gave nodes with these labels the revision;
// 0: none did.
func (r *rollout) reached(l policy.Labels) uint64 {
	for i, w := range r.waves[:min(len(r.opened), len(r.waves))] {
		if w.Matches(l) {
			return r.opened[i].seq
		}
	}
	return 0
}

// policies calls f with each policy of the project that lives, by id.
func (e *Enforcement) policies(f func(id uuid.UUID, r policyRecord) error) error {
	return livePolicies(e.snap, e.Node.Project, f)
}

func livePolicies(snap *pebble.Snapshot, project uuid.UUID, f func(id uuid.UUID, r policyRecord) error) error {
	prefix := append([]byte{keyPolicy}, project[:]...)
	return eachKey(snap, prefix, func(k, v []byte) error {
		r, err := readPolicy(v)
		if err != nil || r.deleted {
			return err
		}
		return f(uuid.UUID(k[len(prefix):]), r)
	})
}

// revisions calls f with the sequence of each revision of a policy, oldest first.
func (e *Enforcement) revisions(id uuid.UUID, f func(seq uint64) error) error {
	prefix := append([]byte{keyRevision}, id[:]...)
	return eachKey(e.snap, prefix, func(k, _ []byte) error {
		return f(binary.BigEndian.Uint64(k[len(prefix):]))
	})
}

// eachKey calls f with every record under a prefix; neither slice outlives the
// call.
func eachKey(snap *pebble.Snapshot, prefix []byte, f func(key, value []byte) error) error {
	it, err := snap.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return fmt.Errorf("list records: %w", err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if err := f(it.Key(), it.Value()); err != nil {
			return err
		}
	}
	return it.Error()
}

// Home is the project of a node that exists now, and the sequence of the last
// event that changed a node or a policy of it.
func (m *model) Home(id policy.NodeID) (project uuid.UUID, changed uint64, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	n := m.state.nodes[id]
	if n == nil || n.identity == nil {
		return uuid.Nil, 0, false
	}
	return n.project.id, n.project.changed, true
}

// WasExtended reports whether a policy that matches the node had anything of
// ordered policy at a sequence or later, before its present head.
func (e *Enforcement) WasExtended(after uint64) (bool, error) {
	for _, h := range e.Matched {
		if ever, err := e.everExtended(h.Policy); err != nil {
			return false, err
		} else if !ever {
			continue
		}
		if tried, err := e.triedExtended(h.Policy, after); tried || err != nil {
			return tried, err
		}
		since, err := e.hasSince(h.Policy, h.seq)
		if err != nil {
			return false, err
		}
		if since <= after {
			continue
		}
		var seqs []uint64
		err = e.revisions(h.Policy, func(seq uint64) error {
			seqs = append(seqs, seq)
			return nil
		})
		if err != nil {
			return false, err
		}
		for i, seq := range seqs {
			if seq == h.seq || i+1 < len(seqs) && seqs[i+1] <= after {
				continue
			}
			if yes, err := extended(e.snap, HeadRef{Policy: h.Policy, seq: seq}); yes || err != nil {
				return yes, err
			}
		}
	}
	return false, nil
}

// everExtended reports whether any revision of a policy that nodes were given had
// anything of ordered policy. What the store says is remembered.
func (e *Enforcement) everExtended(id uuid.UUID) (bool, error) {
	e.of.mu.RLock()
	p := e.of.state.policies[id]
	e.of.mu.RUnlock()
	if is := p.ever.get(); is != unread {
		return is == extending, nil
	}
	yes, err := e.storeEverExtended(id)
	if err == nil {
		p.ever.found(yes)
	}
	return yes, err
}

func (e *Enforcement) storeEverExtended(id uuid.UUID) (yes bool, err error) {
	for x, err := range rolloutsOf(e.snap, id) {
		if err != nil || x.extended {
			return x.extended, err
		}
	}
	err = e.revisions(id, func(seq uint64) (err error) {
		if !yes {
			yes, err = extended(e.snap, HeadRef{Policy: id, seq: seq})
		}
		return err
	})
	return yes, err
}

// triedExtended reports whether a rollout from which nodes with the labels of the node
// went back after a sequence had anything of ordered policy.
func (e *Enforcement) triedExtended(id uuid.UUID, after uint64) (bool, error) {
	for x, err := range rolloutsOf(e.snap, id) {
		switch {
		case err != nil:
			return false, err
		case !x.over():
		case x.ended.seq <= after:
			return false, nil
		case x.extended && x.phase != phaseCompleted && x.reached(e.Node.Labels) > 0:
			return true, nil
		}
	}
	return false, nil
}

// Extended are the policies that live and whose head has anything of ordered
// policy, by project.
func (m *model) Extended() (map[uuid.UUID][]uuid.UUID, error) {
	m.mu.RLock()
	projects := make([]uuid.UUID, 0, len(m.state.projects))
	for id := range m.state.projects {
		projects = append(projects, id)
	}
	snap := m.db.NewSnapshot()
	m.mu.RUnlock()
	defer snap.Close()
	out := map[uuid.UUID][]uuid.UUID{}
	for _, project := range projects {
		err := livePolicies(snap, project, func(id uuid.UUID, r policyRecord) error {
			yes, err := extended(snap, HeadRef{Policy: id, seq: r.headSeq})
			if err == nil && !yes {
				var x rolloutRecord
				x, err = rolloutOf(snap, id)
				yes = x.underWay() && x.extended
			}
			if yes {
				out[project] = append(out[project], id)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// extendedMarks are of texts that may have something of ordered policy: names and
// values that nothing else has, and what may hide one.
var extendedMarks = [][]byte{
	[]byte(`"tier"`), []byte(`"priority"`), []byte(`"default_deny"`), []byte(`"mode"`), []byte(`_selector"`), []byte(`"sctp"`),
	[]byte(`"pass"`), []byte(`"redirect"`), []byte(`"auth"`), []byte(`\`),
}

// extended reads the event only where it must: most planes have no such policy.
func extended(snap pebble.Reader, h HeadRef) (bool, error) {
	body, closer, err := revisionRecord(snap, h.Policy, h.seq)
	if err != nil {
		return false, fmt.Errorf("read revision of policy %s at %d: %w", h.Policy, h.seq, err)
	}
	marked := slices.ContainsFunc(extendedMarks, func(m []byte) bool { return bytes.Contains(body, m) })
	closer.Close()
	if !marked {
		return false, nil
	}
	r, err := revisionOf(snap, h)
	return err == nil && r.Content().Extended(), err
}
