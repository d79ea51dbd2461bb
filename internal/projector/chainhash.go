package projector

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// Chain is the chain hash as it runs along a log: Hash is that at Seq, zeros
// before the first event.
type Chain struct {
	Seq  uint64
	Hash [32]byte
	// older is what releases before would have made of the log; nil while that is
	// the same.
	older *olderHashes
}

// olderHashes are chain hashes as releases made them that named an event by
// what they could decode of it: folded as their folds did, which did not decode
// what claimed a newer schema, and read as `edict log` did. The links of such a
// release are compared with them; nothing new is written by them.
type olderHashes struct {
	folded, read [32]byte
}

// names are the ids by which chain hashes name one event; uuid.Nil: by none.
type names struct {
	id           uuid.UUID // as its body says: the one that counts
	folded, read uuid.UUID // by which older releases did
}

// namesOf is the one place where an event gets the id that the chain hash
// names, which follows from its body alone. event is what the body decodes to.
func namesOf(m *streams.Message, event policy.Event) (n names) {
	n.id = policy.IDOf(m.Body)
	if event == nil {
		return n
	}
	n.read = event.EventID()
	if v := m.Header[wire.HeaderDataSchema]; len(v) == 0 || !aboveOlder(v[0]) || !ofProject(m.Subject) { // at one of the plane's own they stopped
		n.folded = n.read
	}
	return n
}

// olderSchema is the newest schema that releases knew whose chain hashes
// depended on it. It never rises.
const olderSchema = 5

// aboveOlder reports whether those releases saw a newer schema in this one: they
// knew one form of names.
func aboveOlder(schema string) bool {
	n, ok := strings.CutPrefix(schema, wire.PrefixSchemaOld)
	return ok && exceeds(n, olderSchema)
}

// Add moves the chain over the message that follows it.
func (c *Chain) Add(m streams.Message) {
	// A body without an id decodes to no event that has one, so it need not be decoded.
	n := names{id: policy.IDOf(m.Body)}
	if n.id != uuid.Nil {
		event, _ := policy.Decode(m.Body)
		n = namesOf(&m, event)
	}
	c.pass(&m, n, sha256.Sum256(m.Body))
}

// pass is Add of a message whose body was read and hashed.
func (c *Chain) pass(m *streams.Message, n names, body [32]byte) {
	if c.older == nil && (n.folded != n.id || n.read != n.id) {
		c.older = &olderHashes{c.Hash, c.Hash}
	}
	if o := c.older; o != nil {
		c.older = &olderHashes{link(o.folded, m.Seq, m.Subject, n.folded, body), link(o.read, m.Seq, m.Subject, n.read, body)}
	}
	c.Seq, c.Hash = m.Seq, link(c.Hash, m.Seq, m.Subject, n.id, body)
}

// agrees reports whether l, of the same sequence, speaks of the same events.
func (c Chain) agrees(l streams.Link) bool {
	return l.Hash == c.Hash || fault.Always(fault.CredulousWitness) || c.older != nil && (l.Hash == c.older.folded || l.Hash == c.older.read)
}

// Compare holds the chain against a link of the same sequence. since is the
// last sequence that agreed. It is nil, or a *streams.DamagedError.
func (c Chain) Compare(l streams.Link, since uint64) error {
	if c.agrees(l) {
		return nil
	}
	return &streams.DamagedError{
		Damage: streams.DamageChanged, From: since + 1, To: l.Seq,
		Detail: fmt.Sprintf("an event of %d to %d is not the one that was witnessed: at %d the chain hash is %x, the witness has %x",
			since+1, l.Seq, l.Seq, c.Hash[:8], l.Hash[:8]),
	}
}

// link is the chain hash of docs/design.md#the-read-model: sha256 over the hash before, the
// sequence (8 bytes, big endian), the subject, the event id as text (nothing
// for a body that has none) and the sha256 of the body.
func link(prev [32]byte, seq uint64, subject string, event uuid.UUID, body [32]byte) [32]byte {
	buf := make([]byte, 0, 256)
	buf = append(buf, prev[:]...)
	buf = binary.BigEndian.AppendUint64(buf, seq)
	buf = append(buf, subject...)
	if event != uuid.Nil {
		text, _ := event.MarshalText() // cannot fail
		buf = append(buf, text...)
	}
	buf = append(buf, body[:]...)
	return sha256.Sum256(buf)
}
