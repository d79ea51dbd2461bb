package artifact_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// agentVerify is what an agent does with a notice, written from the wire
// contract alone: parse into its struct, print all but the signature again, verify.
func agentVerify(doc []byte, key ed25519.PublicKey) bool {
	var got struct {
		ID        string          `json:"id"`
		Type      string          `json:"type"`
		Scope     string          `json:"scope"`
		KeyID     string          `json:"key_id"`
		IssuedAt  time.Time       `json:"issued_at"`
		Payload   json.RawMessage `json:"payload"`
		Signature string          `json:"signature"`
	}
	if json.Unmarshal(doc, &got) != nil {
		return false
	}
	type canonical struct {
		ID       string          `json:"id"`
		Type     string          `json:"type"`
		Scope    string          `json:"scope"`
		KeyID    string          `json:"key_id"`
		IssuedAt time.Time       `json:"issued_at"`
		Payload  json.RawMessage `json:"payload"`
	}
	signed, err := json.Marshal(canonical{got.ID, got.Type, got.Scope, got.KeyID, got.IssuedAt, got.Payload})
	if err != nil {
		return false
	}
	sig, err := base64.StdEncoding.DecodeString(got.Signature)
	return err == nil && ed25519.Verify(key, signed, sig)
}

// slowNotice is a signed notice as the wire contract has it, made by encoding/json.
func slowNotice(s *artifact.Signer, n artifact.Notice) ([]byte, error) {
	type unsigned struct {
		ID       string          `json:"id"`
		Type     string          `json:"type"`
		Scope    string          `json:"scope"`
		KeyID    string          `json:"key_id"`
		IssuedAt time.Time       `json:"issued_at"`
		Payload  json.RawMessage `json:"payload"`
	}
	u := unsigned{n.ID, n.Type, n.Scope, s.KeyID(), n.IssuedAt.UTC(), n.Payload}
	if len(u.Payload) == 0 {
		u.Payload = nil // printed as null
	}
	text, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		unsigned
		Signature []byte `json:"signature"`
	}{u, s.Sign(text)})
}

func notice() artifact.Notice {
	return artifact.Notice{ID: "node-17.p.42", Type: "policy_updated", Scope: "node:node-17", IssuedAt: at, Payload: []byte(`{"rules":[]}`)}
}

func TestNoticesSurviveTheirWayToTheAgent(t *testing.T) {
	gen.Unraced()
	s := signer(t)
	payloads := map[string]string{
		"plain":            `{"rules":[]}`,
		"HTML characters":  `{"a":"<b>&amp;</b>","<":">"}`,
		"line separators":  "{\"a\":\"\u2028\u2029\"}",
		"white space":      "{ \"a\" :\n[1 ,\t2] }",
		"escapes as given": `{"a":"\u00e9\/\u0041"}`,
		"number text":      `{"a":1.50,"b":1e2}`,
		"null":             `null`,
		"absent":           ``,
	}
	times := map[string]time.Time{
		"trailing zeros":   time.Date(2026, 1, 2, 3, 4, 5, 120_000_000, time.UTC),
		"whole seconds":    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		"another zone":     time.Date(2026, 1, 2, 3, 4, 5, 1, time.FixedZone("x", 7200)),
		"a zone named UTC": time.Date(2026, 1, 2, 3, 4, 5, 7, time.FixedZone("UTC", 0)),
	}
	for name, payload := range payloads {
		for zone, issued := range times {
			t.Run(name+", "+zone, func(t *testing.T) {
				n := notice()
				n.Payload, n.IssuedAt = []byte(payload), issued
				doc, err := slowNotice(s, n)
				require.NoError(t, err)
				require.True(t, agentVerify(doc, s.PublicKey()), "%s", doc)
				require.NotContains(t, string(doc), "\n")
				require.Contains(t, string(doc), `Z","payload":`, "times are in UTC")

				// SSE may cut the document into lines between tokens.
				var cut bytes.Buffer
				require.NoError(t, json.Indent(&cut, doc, "", " "))
				require.True(t, agentVerify(cut.Bytes(), s.PublicKey()))
				_, err = trusting(s, artifact.PlanePolicy).Check(cut.Bytes(), issued)
				require.NoError(t, err)
			})
		}
	}
}

func TestNoticesOfAnyPayload(t *testing.T) {
	s := signer(t)
	rapid.Check(t, func(t *rapid.T) {
		n := notice()
		n.ID = rapid.StringN(1, -1, -1).Draw(t, "id")
		n.Payload = []byte(slowCanonical(anyValue(t, 3))) // not escaped for HTML
		doc, err := slowNotice(s, n)
		require.NoError(t, err)
		require.True(t, agentVerify(doc, s.PublicKey()), "%s", doc)
	})
}

func TestAppendNoticeWritesTheMembersInOrder(t *testing.T) {
	s := signer(t)
	doc := s.AppendNotice(nil, notice())
	want := `{"id":"node-17.p.42","type":"policy_updated","scope":"node:node-17","key_id":"` + s.KeyID() +
		`","issued_at":"2026-11-20T12:00:00.12Z","payload":{"rules":[]},"signature":"`
	require.True(t, strings.HasPrefix(string(doc), want), "%s", doc)
}

func TestCheck(t *testing.T) {
	s := signer(t)
	doc, err := slowNotice(s, notice())
	require.NoError(t, err)
	edit := func(old, new string) string { return strings.Replace(string(doc), old, new, 1) }
	unsigned := doc[:bytes.Index(doc, []byte(`,"signature"`))]
	cases := []struct {
		name string
		doc  string
		now  time.Time
		want error
	}{
		{"a fresh one", string(doc), at, nil},
		{"five minutes old to the moment", string(doc), at.Add(5 * time.Minute), nil},
		{"older than five minutes", string(doc), at.Add(5*time.Minute + time.Nanosecond), artifact.ErrStale},
		{"five minutes ahead to the moment", string(doc), at.Add(-5 * time.Minute), nil},
		{"more than five minutes ahead", string(doc), at.Add(-5*time.Minute - time.Nanosecond), artifact.ErrFuture},
		{"another payload", edit(`"rules":[]`, `"rules":[1]`), at, artifact.ErrBadSignature},
		{"another scope", edit(`node:node-17`, `node:node-18`), at, artifact.ErrBadSignature},
		{"a key nobody knows", edit(s.KeyID(), "ed25519:0"), at, artifact.ErrUnknownKey},
		{"no signature", string(unsigned) + "}", at, artifact.ErrUnsigned},
		{"no signature, and stale: the signature is missed first", string(unsigned) + "}", at.Add(time.Hour), artifact.ErrUnsigned},
		{"stale, and an unknown key: stale comes first", edit(s.KeyID(), "ed25519:0"), at.Add(time.Hour), artifact.ErrStale},
		{"no time", edit(`"issued_at":"2026-11-20T12:00:00.12Z",`, ``), at, artifact.ErrMalformed},
		{"no id", edit(`"id":"node-17.p.42",`, ``), at, artifact.ErrMalformed},
		{"not JSON", "{", at, artifact.ErrMalformed},
	}
	set := trusting(s, artifact.PlanePolicy)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n, err := set.Check([]byte(c.doc), c.now)
			require.ErrorIs(t, err, c.want)
			if c.want == nil {
				require.Equal(t, "node-17.p.42", n.ID)
			}
		})
	}
	_, err = trusting(s, artifact.PlaneMgmt).Check(doc, at)
	require.ErrorIs(t, err, artifact.ErrUnknownKey, "notices are signed by plane policy")
}

func BenchmarkAppendNotice(b *testing.B) {
	s := signer(b)
	n := notice()
	n.Payload = samplePayload(20).Append(nil)
	for b.Loop() {
		_ = s.AppendNotice(nil, n)
	}
}

func TestAppendNoticeWritesWhatEncodingJSONWrites(t *testing.T) {
	s, err := artifact.GenerateSigner()
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		n := artifact.Notice{
			ID: rapid.String().Draw(t, "id"), Type: rapid.StringMatching(`[a-z_]*`).Draw(t, "type"), Scope: rapid.String().Draw(t, "scope"),
			IssuedAt: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")),
		}
		char := rapid.SampledFrom([]rune("ab<>&\u2027\u2028\u2029\u202aé\"/\n"))
		text, err := json.Marshal(map[string]any{"t": rapid.StringOf(char).Draw(t, "text"), "n": []any{1, nil, true}})
		require.NoError(t, err)
		var compact bytes.Buffer // not escaped, as compiled payloads and documents are
		enc := json.NewEncoder(&compact)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(json.RawMessage(text)))
		unescaped := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSpace(compact.String()))
		n.Payload = []byte(unescaped)
		want, err := slowNotice(s, n)
		require.NoError(t, err)
		n.Payload = artifact.NoticePayload(n.Payload)
		require.Equal(t, string(want), string(s.AppendNotice([]byte("x"), n)[1:]))
	})
	ready := []byte(`{"a":[1,2]}`)
	require.Same(t, &ready[0], &artifact.NoticePayload(ready)[0], "it is not kept twice")
	ready = []byte("{\"a\":\"\u2027\u202a\xe2\"}")
	require.Same(t, &ready[0], &artifact.NoticePayload(ready)[0], "what only looks like a separator stays")
}
