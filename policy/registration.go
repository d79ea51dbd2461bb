package policy

import (
	"encoding/hex"
	"time"

	"github.com/google/uuid"
)

// MaxResource is the most bytes of a resource handle.
const MaxResource = 256

// BootstrapState is what became of a bootstrap token. The zero value: nothing yet.
type BootstrapState string

// The ends of a bootstrap token.
const (
	BootstrapConsumed BootstrapState = "consumed" // a node registered with it
	BootstrapRevoked  BootstrapState = "revoked"
)

// Bootstrap is a one-time token by which a node's agent registers, as the plane
// knows it. The principal that has it is the node: they have one id.
type Bootstrap struct {
	ID       uuid.UUID
	Hash     [tokenHashSize]byte // SHA-256 of the token's text
	Project  uuid.UUID           // of the node
	Resource string              // what the agent must call itself; empty: anything
	Expires  time.Time           // never zero
	State    BootstrapState
}

// Dialect is the form of event envelopes that an agent reads. It shows when the
// agent registers, and is the same ever after (plexsphere 3.2).
type Dialect string

// The dialects. An agent that never registered reads DialectCurrent.
const (
	DialectCurrent Dialect = "current"
	DialectLegacy  Dialect = "legacy"
	// DialectBatch is the current one with the signature as an object, which many
	// envelopes may share. Readers of a stream ask for it; no agent registers with it.
	DialectBatch Dialect = "batch"
)

// Registration is how a node's agent registered last. The bearer token that it
// got is among the principal's tokens.
type Registration struct {
	Token     uuid.UUID // id of that bearer token, and of the event
	Bootstrap uuid.UUID // id of the token it was registered with
	Dialect   Dialect
	PublicKey [32]byte // X25519, the agent's
}

func appendBootstrap(b []byte, t Bootstrap) []byte {
	b = appendID(append(b, `{"id":`...), t.ID)
	b = hex.AppendEncode(append(b, `,"sha256":"`...), t.Hash[:])
	b = appendID(append(b, `","project_id":`...), t.Project)
	if t.Resource != "" {
		b = appendText(append(b, `,"resource_handle":`...), t.Resource)
	}
	b = t.Expires.UTC().AppendFormat(append(b, `,"expires_at":"`...), time.RFC3339Nano)
	b = append(b, '"')
	if t.State != "" {
		b = appendText(append(b, `,"state":`...), string(t.State))
	}
	return append(b, '}')
}

func appendRegistration(b []byte, r Registration) []byte {
	b = appendID(append(b, `{"token_id":`...), r.Token)
	b = appendID(append(b, `,"bootstrap_id":`...), r.Bootstrap)
	b = appendText(append(b, `,"dialect":`...), string(r.Dialect))
	b = hex.AppendEncode(append(b, `,"public_key":"`...), r.PublicKey[:])
	return append(b, `"}`...)
}

var bootstrapFields = []string{"id", "sha256", "project_id", "expires_at", "resource_handle", "state"}

func readBootstrap(r *reader) (t Bootstrap) {
	seen := uint(0)
	ok := r.object("a bootstrap token", func(name []byte) bool {
		bit := fieldBit(bootstrapFields, name)
		seen |= bit
		switch string(name) {
		case "id":
			t.ID = r.uuid()
		case "sha256":
			t.Hash = r.digest("the SHA-256 of the token")
		case "project_id":
			t.Project = r.uuid()
		case "expires_at":
			t.Expires = r.time()
		case "resource_handle":
			t.Resource = r.line(MaxResource, true)
		case "state":
			t.State = oneOf(r, BootstrapConsumed, BootstrapRevoked)
		}
		return bit != 0
	})
	if ok {
		r.require(1<<4-1, seen, bootstrapFields)
	}
	return t
}

var registrationFields = []string{"token_id", "bootstrap_id", "dialect", "public_key"}

func readRegistration(r *reader) *Registration {
	var g Registration
	seen := uint(0)
	ok := r.object("a registration", func(name []byte) bool {
		bit := fieldBit(registrationFields, name)
		seen |= bit
		switch string(name) {
		case "token_id":
			g.Token = r.uuid()
		case "bootstrap_id":
			g.Bootstrap = r.uuid()
		case "dialect":
			g.Dialect = oneOf(r, DialectCurrent, DialectLegacy)
		case "public_key":
			g.PublicKey = r.digest("an X25519 public key")
		}
		return bit != 0
	})
	if ok {
		r.require(1<<4-1, seen, registrationFields)
	}
	return &g
}
