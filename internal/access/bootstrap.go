package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"regexp"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// bootstrapForm is what agents take for a bootstrap token (plexsphere 5.3).
var bootstrapForm = regexp.MustCompile(`^psb_[a-z]+_[a-z2-7]+_(node|bridge)_[a-z2-7]{20,}$`)

// NewBootstrap makes a bootstrap token for a node of a project: the text, which
// is to be seen once, and what the plane keeps, but for its id and its end.
func NewBootstrap(project uuid.UUID) (text string, kept policy.Bootstrap) {
	var secret [tokenBytes]byte
	_, _ = rand.Read(secret[:]) // it cannot fail
	text = "psb_edict_" + lowerBase32(project[:]) + "_node_" + lowerBase32(secret[:])
	return text, policy.Bootstrap{Hash: sha256.Sum256([]byte(text)), Project: project}
}

// BootstrapKind is what a bootstrap token says it registers, node or bridge;
// false when it has not the form of one.
func BootstrapKind(text string) (kind string, ok bool) {
	m := bootstrapForm.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// nodeTokenPrefix marks the bearer tokens of registered nodes; agents name the
// plane's environment in it.
const nodeTokenPrefix = "nsk_plexd_"

// NodeToken is the bearer token of a registered node: its id and its secret.
func NodeToken(node uuid.UUID, secret [32]byte) string {
	return nodeTokenPrefix + base64.RawURLEncoding.EncodeToString(append(node[:], secret[:]...))
}

// NodeSecret is the secret that a registration gives. The same plane gives the
// same to the same request, so that one whose answer was lost can be sent again,
// though the plane keeps no secret. Without the bootstrap token, which it keeps
// no more than that, it cannot be made again, and without sign, a signature by
// the plane's own key, nobody else can make it.
func NodeSecret(sign func([]byte) []byte, node uuid.UUID, bootstrap, nonce string, publicKey [32]byte) (secret [32]byte) {
	mac := hmac.New(sha256.New, sign([]byte("edict: secrets of nodes\n")))
	for _, field := range [...]string{string(node[:]), bootstrap, nonce, string(publicKey[:])} {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(field))))
		mac.Write([]byte(field))
	}
	mac.Sum(secret[:0])
	return secret
}
