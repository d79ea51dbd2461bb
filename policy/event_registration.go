package policy

import (
	"encoding/hex"

	"github.com/google/uuid"
)

// TypeNodeRegistered is the name of NodeRegistered on the wire.
const TypeNodeRegistered = "node_registered"

// NodeRegistered trades a bootstrap token for a bearer token, and makes the
// principal the agent of its node. It is one event so that all of it happens or
// nothing does.
type NodeRegistered struct {
	ID        uuid.UUID
	Principal PrincipalID
	Bootstrap uuid.UUID
	Dialect   Dialect
	PublicKey [32]byte
	Nonce     *[32]byte           // SHA-256 of the agent's nonce; nil: its dialect has none
	Hash      [tokenHashSize]byte // SHA-256 of the bearer token's text
}

var nodeRegistered = Kind{
	Type: TypeNodeRegistered, Family: ofPrincipals, Schema: always(schemaAccess),
	need: []string{"principal_id", "registration"},
	own: []member{
		{"registration", func(r *reader, rec *record) { rec.registered = readRegistered(r) }},
	},
	read: func(rec *record) Event {
		e := rec.registered
		e.ID, e.Principal = rec.id, rec.principalID
		return e
	},
}

// EventID implements Event.
func (e NodeRegistered) EventID() uuid.UUID { return e.ID }

// EventType implements Event.
func (NodeRegistered) EventType() string { return TypeNodeRegistered }

// Scope implements Event: principals belong to the plane.
func (NodeRegistered) Scope() uuid.UUID { return uuid.Nil }

func (NodeRegistered) describe() *Kind { return &nodeRegistered }

func (e NodeRegistered) appendKey(b []byte) []byte { return append(b, e.Principal...) }

func (e NodeRegistered) appendMembers(b []byte) []byte {
	b = append(appendAccess(b, e.Principal, nil, ""), `,"registration":`...)
	b = appendID(append(b, `{"bootstrap_id":`...), e.Bootstrap)
	b = appendText(append(b, `,"dialect":`...), string(e.Dialect))
	b = hex.AppendEncode(append(b, `,"public_key":"`...), e.PublicKey[:])
	if e.Nonce != nil {
		b = hex.AppendEncode(append(b, `","nonce_sha256":"`...), e.Nonce[:])
	}
	b = hex.AppendEncode(append(b, `","sha256":"`...), e.Hash[:])
	return append(b, `"}`...)
}

var registeredFields = []string{"bootstrap_id", "dialect", "public_key", "sha256", "nonce_sha256"}

// readRegistered reads what a node_registered says beside its ids.
func readRegistered(r *reader) (e NodeRegistered) {
	seen := uint(0)
	ok := r.object("a registration", func(name []byte) bool {
		bit := fieldBit(registeredFields, name)
		seen |= bit
		switch string(name) {
		case "bootstrap_id":
			e.Bootstrap = r.uuid()
		case "dialect":
			e.Dialect = oneOf(r, DialectCurrent, DialectLegacy)
		case "public_key":
			e.PublicKey = r.digest("an X25519 public key")
		case "sha256":
			e.Hash = r.digest("the SHA-256 of the token")
		case "nonce_sha256":
			nonce := r.digest("the SHA-256 of the nonce")
			e.Nonce = &nonce
		}
		return bit != 0
	})
	if ok {
		r.require(1<<4-1, seen, registeredFields)
	}
	return e
}
