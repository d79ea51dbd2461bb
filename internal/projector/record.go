package projector

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// errRecord means that a stored value is not what this schema writes.
var errRecord = errors.New("stored record is damaged: move the data directory away and let it be rebuilt from the log")

// reader takes values off the front of a record. After the first value that is
// not there, all further ones are zero and err is set.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || len(r.b) < n {
		r.err = errRecord
		return make([]byte, min(n, 64))
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) u8() byte       { return r.take(1)[0] }
func (r *reader) u32() uint32    { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64    { return binary.BigEndian.Uint64(r.take(8)) }
func (r *reader) time() int64    { return int64(r.u64()) }
func (r *reader) id() uuid.UUID  { return uuid.UUID(r.take(16)) }
func (r *reader) hash() [32]byte { return [32]byte(r.take(32)) }

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.err != nil || n <= 0 {
		r.err = errRecord
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if r.err != nil || n > uint64(len(r.b)) {
		r.err = errRecord
		return nil
	}
	return r.take(int(n))
}

func (r *reader) text() string { return string(r.bytes()) }

func appendU32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }
func appendU64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

func appendText[T ~string | ~[]byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func (m moment) append(b []byte) []byte { return appendU64(appendU64(b, m.seq), uint64(m.time)) }

func (r *reader) moment() moment { return moment{r.u64(), r.time()} }

// logTime turns a stored log timestamp into a time.
func logTime(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// nodeRecord is what keyNode holds. A removed node keeps its record, so that
// its id stays its project's and its last events stay known.
type nodeRecord struct {
	present   bool
	ordinal   uint32
	identity  uint32
	seq       uint64
	since     moment // of the present labels
	event     uuid.UUID
	recent    recent
	addresses policy.Addresses
}

func (n nodeRecord) append(b []byte) []byte {
	var present byte
	if n.present {
		present = 1
	}
	b = appendU32(appendU32(append(b, present), n.ordinal), n.identity)
	b = n.recent.append(append(appendU64(b, n.seq), n.event[:]...))
	b = n.since.append(b)
	b = binary.AppendUvarint(b, uint64(len(n.addresses)))
	for _, a := range n.addresses {
		b = appendText(b, a.AsSlice())
	}
	return b
}

func readNode(b []byte) (n nodeRecord, err error) {
	r := reader{b: b}
	n.present = r.u8() == 1
	n.ordinal, n.identity = r.u32(), r.u32()
	n.seq, n.event, n.recent = r.u64(), r.id(), r.recent()
	n.since = r.moment()
	for range min(r.uvarint(), policy.MaxAddresses) {
		a, ok := netip.AddrFromSlice(r.bytes())
		if !ok {
			return n, errRecord
		}
		n.addresses = append(n.addresses, a)
	}
	return n, r.err
}

// policyRecord is what keyPolicy holds; selector means nothing once deleted.
type policyRecord struct {
	deleted  bool
	selector uint32
	head     uuid.UUID
	headSeq  uint64
	headTime int64
	created  int64
	number   uint32
	since    moment
	selected uint64
	ended    uint64
	fp       compiler.Fingerprint
	slug     string
	name     string
}

func (p policyRecord) append(b []byte) []byte {
	var deleted byte
	if p.deleted {
		deleted = 1
	}
	b = append(appendU32(append(b, deleted), p.selector), p.head[:]...)
	b = appendU64(appendU64(appendU64(b, p.headSeq), uint64(p.headTime)), uint64(p.created))
	b = p.since.append(appendU32(b, p.number))
	b = appendU64(appendU64(b, p.selected), p.ended)
	return appendText(appendText(append(b, p.fp[:]...), p.slug), p.name)
}

func readPolicy(b []byte) (p policyRecord, err error) {
	r := reader{b: b}
	p.deleted = r.u8() == 1
	p.selector, p.head = r.u32(), r.id()
	p.headSeq, p.headTime, p.created = r.u64(), r.time(), r.time()
	p.number, p.since = r.u32(), r.moment()
	p.selected, p.ended = r.u64(), r.u64()
	p.fp, p.slug, p.name = r.hash(), r.text(), r.text()
	return p, r.err
}

func appendIdentity(b []byte, project uuid.UUID, labels policy.Labels) []byte {
	return appendLabels(append(b, project[:]...), labels)
}

func appendLabels(b []byte, labels policy.Labels) []byte {
	b = binary.AppendUvarint(b, uint64(len(labels)))
	for _, l := range labels {
		b = appendText(appendText(b, l.Key), l.Value)
	}
	return b
}

func readIdentity(b []byte) (project uuid.UUID, labels policy.Labels, err error) {
	r := reader{b: b}
	project, labels = r.id(), r.labels()
	return project, labels, r.err
}

func (r *reader) labels() policy.Labels {
	n := min(r.uvarint(), policy.MaxLabels)
	labels := make(policy.Labels, 0, n)
	for range n {
		labels = append(labels, policy.Label{Key: r.text(), Value: r.text()})
	}
	return labels
}

func appendSelector(b []byte, project uuid.UUID, s policy.Selector, within *scope) []byte {
	var buf [256]byte
	b = append(b, project[:]...)
	b = appendText(b, s.Source.AppendText(buf[:0]))
	return within.append(appendText(b, s.Destination.AppendText(buf[:0])))
}

func readSelector(b []byte) (project uuid.UUID, s policy.Selector, within *scope, err error) {
	r := reader{b: b}
	project = r.id()
	source, destination := r.text(), r.text()
	within = r.scope()
	if r.err != nil {
		return project, s, nil, r.err
	}
	s, err = parseSelector(source, destination)
	return project, s, within, err
}

func parseSelector(source, destination string) (s policy.Selector, err error) {
	var faults []policy.SyntaxError
	if s.Source, faults = policy.ParseExpr(source); len(faults) > 0 {
		return s, errRecord
	}
	if s.Destination, faults = policy.ParseExpr(destination); len(faults) > 0 {
		return s, errRecord
	}
	return s, nil
}
