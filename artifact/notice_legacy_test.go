package artifact_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// goldenKey is the key whose seed is the bytes 0 to 31.
func goldenKey(t *testing.T) *artifact.Signer {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(i)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(seed))
	require.NoError(t, err)
	s, err := artifact.ParseSigner(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	require.NoError(t, err)
	return s
}

// Agents of each kind verify exactly these bytes. What they sign again is what
// encoding/json makes of the parsed envelope: HTML escaped, the time without
// zeros at its end.
func TestNoticesAreGolden(t *testing.T) {
	payload := artifact.NoticePayload([]byte("{\"why\":\"<a> & b\u2028\"}"))
	n := artifact.Notice{
		ID: "web-1.<p>&.42", Type: "policy_updated", Scope: "node:web-1", Payload: payload,
		IssuedAt: time.Date(2026, 11, 20, 12, 0, 0, 120_000_000, time.FixedZone("x", 3600)),
	}
	s := goldenKey(t)
	require.Equal(t, `{"id":"web-1.\u003cp\u003e\u0026.42","type":"policy_updated","scope":"node:web-1","key_id":"ed25519:56475aa75463474c",`+
		`"issued_at":"2026-11-20T11:00:00.12Z","payload":{"why":"\u003ca\u003e \u0026 b\u2028"},`+
		`"signature":"DZoZW//3QehnMDekZYd3/fHcJ+GNm7Zo2n67QvTk1RWiNBP+1kL5fesM//S2hHZ2DW7prYf1x+JGnURdpDRuAg=="}`, string(s.AppendNoticeIn(policy.DialectCurrent, nil, n)))
	require.Equal(t, `{"event_type":"policy_updated","event_id":"web-1.\u003cp\u003e\u0026.42","issued_at":"2026-11-20T11:00:00.12Z",`+
		`"nonce":"0011","payload":{"why":"\u003ca\u003e \u0026 b\u2028"},"signature":"i/Fuuj09HqtTXVf3K2UHO+5GcOaRNGvxvIYvL/4KXPy3uAFX7O94dPLV6hv5CUk0qojNk69V0EvE57QoQ8lZAA=="}`, string(s.AppendLegacyNotice(nil, n, "0011")))
}

// legacyVerify is what an older agent does with a notice, written from the wire
// contract alone.
func legacyVerify(doc []byte, key ed25519.PublicKey) (nonce string, ok bool) {
	type envelope struct {
		EventType string          `json:"event_type"`
		EventID   string          `json:"event_id"`
		IssuedAt  time.Time       `json:"issued_at"`
		Nonce     string          `json:"nonce"`
		Payload   json.RawMessage `json:"payload"`
	}
	var got struct {
		envelope
		Signature string `json:"signature"`
	}
	if json.Unmarshal(doc, &got) != nil {
		return "", false
	}
	signed, err := json.Marshal(got.envelope)
	if err != nil || got.EventType == "" || got.EventID == "" || got.Nonce == "" || got.IssuedAt.IsZero() {
		return "", false
	}
	sig, err := base64.StdEncoding.DecodeString(got.Signature)
	return got.Nonce, err == nil && ed25519.Verify(key, signed, sig)
}

func TestLegacyNoticesSurviveTheirWayToTheAgent(t *testing.T) {
	s := signer(t)
	nonces := map[string]bool{}
	for _, payload := range []string{`{"rules":[]}`, `{"a":"<b>&amp;</b>","<":">"}`, "{\"a\":\"\u2028\u2029\"}", `{"a":1.50,"b":1e2}`, `null`} {
		for _, issued := range []time.Time{
			time.Date(2026, 1, 2, 3, 4, 5, 120_000_000, time.UTC), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2026, 1, 2, 3, 4, 5, 1, time.FixedZone("x", 7200)),
		} {
			form := artifact.NoticePayload([]byte(payload))
			doc := s.AppendNoticeIn(policy.DialectLegacy, nil, artifact.Notice{ID: "n.p.1", Type: "policy_updated", IssuedAt: issued, Payload: form})
			nonce, ok := legacyVerify(doc, s.PublicKey())
			require.True(t, ok, "%s", doc)
			require.False(t, nonces[nonce], "each delivery has a nonce of its own")
			nonces[nonce] = true
			require.False(t, agentVerify(doc, s.PublicKey()), "the dialects are two")
			doc[len(doc)-10] ^= 1
			_, ok = legacyVerify(doc, s.PublicKey())
			require.False(t, ok)
		}
	}
}
