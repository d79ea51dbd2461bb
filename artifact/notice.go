package artifact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Notice is the event envelope that nodes receive over SSE. It is not an
// Envelope: existing agents verify this dialect, and refuse one signed more
// than five minutes ago, so it is signed at delivery (docs/design.md#http).
type Notice struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Scope    string          `json:"scope"`
	KeyID    string          `json:"key_id"`
	IssuedAt time.Time       `json:"issued_at"`
	Payload  json.RawMessage `json:"payload"`
	// Signature is over json.Marshal of the six fields above, in this order.
	Signature NoticeSignature `json:"signature"`
}

// NoticeWindow is how far a notice's time may lie from the agent's, either way.
const NoticeWindow = 5 * time.Minute

// Reasons to refuse a notice, beside those of an envelope.
var (
	ErrUnsigned = errors.New("unsigned notice")
	ErrStale    = errors.New("stale notice")
	ErrFuture   = errors.New("notice from the future")
)

// signingBytes are what an agent makes again from the notice it parsed:
// encoding/json's compact, HTML-escaped form of six fields in this order, the
// time in UTC. The order of these fields is part of the contract.
func (n Notice) signingBytes() ([]byte, error) {
	if len(n.Payload) == 0 {
		n.Payload = nil // printed as null; an empty text is not JSON
	}
	return json.Marshal(struct {
		ID       string          `json:"id"`
		Type     string          `json:"type"`
		Scope    string          `json:"scope"`
		KeyID    string          `json:"key_id"`
		IssuedAt time.Time       `json:"issued_at"`
		Payload  json.RawMessage `json:"payload"`
	}{n.ID, n.Type, n.Scope, n.KeyID, n.IssuedAt.UTC(), n.Payload})
}

// NoticePayload is a payload as notices carry it: escaped for HTML as
// encoding/json does it. What is given must be compact JSON; it is not parsed.
// One that is in this form already is returned as it is, so that who keeps both
// keeps one.
func NoticePayload(compact []byte) []byte {
	if !slices.ContainsFunc([]byte{'<', '>', '&', lineSeparator[0]}, func(c byte) bool { return bytes.IndexByte(compact, c) >= 0 }) {
		return compact // almost always, and four scans are fast
	}
	at := nextEscaped(compact, 0)
	if at == len(compact) {
		return compact
	}
	b, from := make([]byte, 0, len(compact)+64), 0
	for ; at < len(compact); at = nextEscaped(compact, from) {
		r, n := utf8.DecodeRune(compact[at:])
		b = fmt.Appendf(append(b, compact[from:at]...), `\u%04x`, r)
		from = at + n
	}
	return append(b, compact[from:]...)
}

// lineSeparator is U+2028; U+2029 differs in the last bit.
const lineSeparator = "\u2028"

// nextEscaped is the place of the next <, >, &, U+2028 or U+2029 from a place
// on; the length if there is none. They stand in texts alone.
func nextEscaped(b []byte, from int) int {
	for i := from; i < len(b); i++ {
		switch b[i] {
		case '<', '>', '&':
			return i
		case lineSeparator[0]:
			if i+2 < len(b) && b[i+1] == lineSeparator[1] && b[i+2]&^1 == lineSeparator[2] {
				return i
			}
		}
	}
	return len(b)
}

// AppendNotice appends a notice, signed, as it travels. n.Payload must be in the form
// of NoticePayload already, which many notices may share: nothing is parsed,
// and IssuedAt must be in the years 0 to 9999.
func (s *Signer) AppendNotice(b []byte, n Notice) []byte {
	start := len(b)
	b = s.appendSigned(b, n)
	signature := s.Sign(b[start:])
	b = append(b[:len(b)-1], `,"signature":"`...)
	b = base64.StdEncoding.AppendEncode(b, signature)
	return append(b, `"}`...)
}

// appendSigned appends what is signed of a notice: signingBytes without parsing.
func (s *Signer) appendSigned(b []byte, n Notice) []byte {
	b = appendText(append(b, `{"id":`...), n.ID)
	b = appendText(append(b, `,"type":`...), n.Type)
	b = appendText(append(b, `,"scope":`...), n.Scope)
	b = appendText(append(b, `,"key_id":`...), s.keyID)
	b = n.IssuedAt.UTC().AppendFormat(append(b, `,"issued_at":"`...), time.RFC3339Nano)
	b = append(append(b, `","payload":`...), n.Payload...)
	return append(b, '}')
}

// appendText appends s as encoding/json quotes it.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // a string always marshals
			return append(b, quoted...)
		}
	}
	b = append(append(b, '"'), s...)
	return append(b, '"')
}

// Check verifies a notice as agents do, in their order: signed, dated, within
// NoticeWindow of now, key known to plane "policy", signature good. White space
// in doc does not matter, unknown members are ignored. It takes dialect batch as
// well as the current one.
func (t *TrustSet) Check(doc []byte, now time.Time) (Notice, error) {
	var n Notice
	if err := json.Unmarshal(doc, &n); err != nil {
		return Notice{}, fmt.Errorf("%w notice: %w", ErrMalformed, err)
	}
	switch age := now.Sub(n.IssuedAt); {
	case n.ID == "" || n.Type == "":
		return Notice{}, fmt.Errorf("%w notice: id and type are required", ErrMalformed)
	case n.Signature.Value == "":
		return Notice{}, fmt.Errorf("%w: %s", ErrUnsigned, n.ID)
	case n.IssuedAt.IsZero():
		return Notice{}, fmt.Errorf("%w notice: issued_at is required", ErrMalformed)
	case age > NoticeWindow:
		return Notice{}, fmt.Errorf("%w: %s is %s old", ErrStale, n.ID, age)
	case age < -NoticeWindow:
		return Notice{}, fmt.Errorf("%w: %s is %s ahead", ErrFuture, n.ID, -age)
	}
	signed, err := n.signingBytes()
	if err != nil {
		return Notice{}, fmt.Errorf("%w notice: %w", ErrMalformed, err)
	}
	if err := t.verifyNotice(n, now, signed); err != nil {
		return Notice{}, err
	}
	return n, nil
}
