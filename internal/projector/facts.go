package projector

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// Fact is one of the things that the store digest covers, in words: two stores
// of one digest yield the same facts, and of two that differ the first fact
// that does says where.
type Fact struct {
	Kind   string
	Key    string // names it among those of its kind, which come in its order: see FactKinds
	Values map[string]string
}

// Facts yields what Digest covers, and seq, the sequence it stands for: of
// every policy, revision and node, a node's rows as one hash. With a node it
// yields that node alone, and its rows one by one. The fold goes on meanwhile,
// but for the moment in which rows are derived. The iteration must be
// run, once: it holds a snapshot.
func (m *model) Facts(only policy.NodeID) (seq uint64, facts iter.Seq2[Fact, error]) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f := factReader{snap: m.db.NewSnapshot(), identities: map[uint32]identityFacts{}}
	if only != "" {
		f.one = m.state.nodes[only]
		if n := f.one; n != nil && n.identity != nil {
			f.rows = rows(n.identity.selectors())
			f.identities[n.identity.ordinal] = identityFacts{n.identity.labels, hashIdentity(n.identity.labels, f.rows)}
		}
		return m.cursor.seq, f.oneNode(only)
	}
	for i := range m.state.identities.all() {
		f.identities[i.ordinal] = identityFacts{i.labels, hashIdentity(i.labels, rows(i.glance()))}
	}
	return m.cursor.seq, f.all
}

// factReader yields the facts of one moment.
type factReader struct {
	snap       *pebble.Snapshot
	relations  *relations
	identities map[uint32]identityFacts
	one        *node // asked for; nil: all
	rows       []Row // of one
}

type identityFacts struct {
	labels policy.Labels
	sum    [32]byte // over labels and rows
}

func (f factReader) all(yield func(Fact, error) bool) {
	defer f.snap.Close()
	relations, err := readRelations(f.snap)
	if err != nil {
		yield(Fact{}, fmt.Errorf("read facts: %w", err))
		return
	}
	defer relations.close()
	f.relations = relations
	stopped := errors.New("stopped") // by yield
	for _, kind := range FactKinds {
		if kind.prefix == 0 {
			continue
		}
		err := scanSnapshot(context.Background(), f.snap, kind.prefix, func(k, v []byte) error {
			fact, err := kind.fact(f, k, v)
			if err == nil && !yield(fact, nil) {
				return stopped
			}
			return err
		})
		if err != nil {
			if !errors.Is(err, stopped) {
				yield(Fact{}, fmt.Errorf("read facts: %w", err))
			}
			return
		}
	}
}

// oneNode yields a node and its rows, or nothing when there never was one.
func (f factReader) oneNode(id policy.NodeID) iter.Seq2[Fact, error] {
	return func(yield func(Fact, error) bool) {
		defer f.snap.Close()
		if f.one == nil {
			return
		}
		key := nodeKey(f.one.project.id, id)
		v, closer, err := f.snap.Get(key)
		if err != nil {
			yield(Fact{}, fmt.Errorf("read node %s: %w", id, err))
			return
		}
		defer closer.Close()
		fact, err := f.nodeFact(key[1:], v)
		if !yield(fact, err) || err != nil {
			return
		}
		for _, r := range f.rows {
			if !yield(rowFact(id, r), nil) {
				return
			}
		}
	}
}

func rowFact(id policy.NodeID, r Row) Fact {
	return Fact{FactRow, string(id) + "/" + r.Policy.String(), map[string]string{
		"revision": r.Revision.String(), "fingerprint": r.Fingerprint.String(),
	}}
}

func policyFact(k, v []byte) (Fact, error) {
	r, err := readPolicy(v)
	return Fact{FactPolicy, uuid.UUID(k[:16]).String() + "/" + uuid.UUID(k[16:]).String(), map[string]string{
		"deleted": strconv.FormatBool(r.deleted), "slug": r.slug, "display_name": r.name,
		"head": r.head.String(), "head_seq": strconv.FormatUint(r.headSeq, 10), "head_time": stamp(r.headTime),
		"created_at": stamp(r.created), "fingerprint": r.fp.String(), "number": strconv.FormatUint(uint64(r.number), 10),
		"since": r.since.String(), "selected": strconv.FormatUint(r.selected, 10), "ended": strconv.FormatUint(r.ended, 10),
	}}, err
}

func admissionFact(k, v []byte) (Fact, error) {
	p, err := readAdmission(policy.AdmissionPolicyID(k), v)
	if err != nil {
		return Fact{}, err
	}
	values := map[string]string{
		"deleted": strconv.FormatBool(p.document == nil), "version": strconv.FormatUint(p.seq, 10), "event": p.event.String(),
		"created_at": stamp(p.created), "updated_at": stamp(p.updated), "created_by": p.createdBy,
	}
	if p.document != nil {
		sum := sha256.Sum256(policy.AppendAdmissionPolicy(nil, *p.document))
		values["name"], values["sha256"] = p.document.Name, hex.EncodeToString(sum[:])
	}
	return Fact{FactAdmission, string(k), values}, nil
}

func (f factReader) principalFact(k, v []byte) (Fact, error) {
	v, err := f.relations.with(k, v)
	if err != nil {
		return Fact{}, err
	}
	p, err := readPrincipal(policy.PrincipalID(k), v)
	if err != nil {
		return Fact{}, err
	}
	values := map[string]string{
		"removed": strconv.FormatBool(p.document == nil), "version": strconv.FormatUint(p.version, 10), "seq": strconv.FormatUint(p.seq, 10),
		"created_at": stamp(p.created), "updated_at": stamp(p.updated), "created_by": p.createdBy,
	}
	if p.document != nil {
		sum := sha256.Sum256(policy.AppendPrincipal(nil, *p.document))
		values["sha256"] = hex.EncodeToString(sum[:])
	}
	relations, given := make([]string, len(p.relations)), make([]string, len(p.relations))
	for i, g := range p.relations {
		relations[i] = g.relation.String()
		given[i] = fmt.Sprintf("%s at %d by %q", g.relation, g.seq, g.by)
	}
	values["relations"], values["given"] = strings.Join(relations, ","), strings.Join(given, ",")
	return Fact{FactPrincipal, string(k), values}, nil
}

func revisionFact(k, v []byte) (Fact, error) {
	seq := binary.BigEndian.Uint64(k[16:])
	sum := sha256.Sum256(v)
	return Fact{FactRevision, fmt.Sprintf("%s/%020d", uuid.UUID(k[:16]), seq), map[string]string{"sha256": hex.EncodeToString(sum[:])}}, nil
}

func (f factReader) nodeFact(k, v []byte) (Fact, error) {
	r, err := readNode(v)
	fact := Fact{FactNode, uuid.UUID(k[:16]).String() + "/" + string(k[16:]), map[string]string{"registered": strconv.FormatBool(r.present)}}
	if err != nil || !r.present {
		return fact, err
	}
	i := f.identities[r.identity]
	addresses := make([]string, len(r.addresses))
	for n, a := range r.addresses {
		addresses[n] = a.String()
	}
	labels := make([]string, len(i.labels))
	for n, l := range i.labels {
		labels[n] = l.Key + "=" + l.Value
	}
	fact.Values["version"], fact.Values["event"] = strconv.FormatUint(r.seq, 10), r.event.String()
	fact.Values["since"] = r.since.String()
	fact.Values["addresses"], fact.Values["labels"] = strings.Join(addresses, ","), strings.Join(labels, ",")
	fact.Values["rows"] = hex.EncodeToString(i.sum[:])
	return fact, nil
}

// On returns the options with the store on another file system than the disk's:
// memory, for a store that is thrown away.
func (o Options) On(fs vfs.FS) Options {
	o.fs = fs
	return o
}
