package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// tokenPrefix marks a text as a token of ours, so that scanners for leaked
// secrets find it.
const tokenPrefix = "edt_"

// tokenBytes of randomness are far beyond guessing, which is why one round of
// SHA-256 is enough to keep them.
const tokenBytes = 32

var base32Text = base32.StdEncoding.WithPadding(base32.NoPadding)

func lowerBase32(b []byte) string { return strings.ToLower(base32Text.EncodeToString(b)) }

// NewToken makes a bearer token: the text, which is to be seen once, and what
// the plane keeps of it. Zero expires: never.
func NewToken(id uuid.UUID, expires time.Time) (text string, kept policy.Token) {
	var secret [tokenBytes]byte
	_, _ = rand.Read(secret[:]) // it cannot fail
	text = tokenPrefix + lowerBase32(secret[:])
	return text, policy.Token{ID: id, Hash: sha256.Sum256([]byte(text)), Expires: expires}
}

// key is what a credential is found by: a hash, and the kind of credential, so
// that nothing a client sends as a token, zeros and all, is another's certificate
// or identity. These are no secrets.
type key [sha256.Size + 1]byte

// The kinds. A key ends with its own.
const (
	kindToken byte = iota + 1
	kindSPIFFE
	kindOIDC
)

func keyOf(hash [sha256.Size]byte, kind byte) (k key) {
	copy(k[:], hash[:])
	k[sha256.Size] = kind
	return k
}

func tokenKey(hash [sha256.Size]byte) key { return keyOf(hash, kindToken) }

func spiffeKey(id string) key { return keyOf(sha256.Sum256([]byte(id)), kindSPIFFE) }

func oidcKey(o policy.OIDCIdentity) key {
	return keyOf(sha256.Sum256([]byte(o.Issuer+"\x00"+o.Subject)), kindOIDC)
}
