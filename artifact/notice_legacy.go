package artifact

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"time"

	"github.com/edictdev/edict/policy"
)

// nonceBytes of a legacy notice; agents drop one whose nonce they met in the
// last five minutes.
const nonceBytes = 16

// AppendNoticeIn is AppendNotice in the dialect of the agent that will read it.
// Two notices of one event in the legacy dialect have two nonces: each delivery
// is a new one.
func (s *Signer) AppendNoticeIn(d policy.Dialect, b []byte, n Notice) []byte {
	switch d {
	case policy.DialectLegacy:
	case policy.DialectBatch:
		run := NewNoticeRun(s)
		place := run.Add(n)
		return run.Sign().AppendNotice(b, place, n)
	default:
		return s.AppendNotice(b, n)
	}
	var nonce [nonceBytes]byte
	_, _ = rand.Read(nonce[:]) // it cannot fail
	return s.AppendLegacyNotice(b, n, hex.EncodeToString(nonce[:]))
}

// AppendLegacyNotice appends the older envelope (plexsphere 3.2, dialect L), with
// a nonce that no other delivery has. It
// names neither scope nor key; the signature is over json.Marshal of its other
// five members, in this order.
func (s *Signer) AppendLegacyNotice(b []byte, n Notice, nonce string) []byte {
	start := len(b)
	b = appendText(append(b, `{"event_type":`...), n.Type)
	b = appendText(append(b, `,"event_id":`...), n.ID)
	b = n.IssuedAt.UTC().AppendFormat(append(b, `,"issued_at":"`...), time.RFC3339Nano)
	b = appendText(append(b, `","nonce":`...), nonce)
	b = append(append(b, `,"payload":`...), n.Payload...)
	b = append(b, '}')
	signature := s.Sign(b[start:])
	b = append(b[:len(b)-1], `,"signature":"`...)
	b = base64.StdEncoding.AppendEncode(b, signature)
	return append(b, `"}`...)
}
