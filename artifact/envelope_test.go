package artifact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var at = time.Date(2026, 11, 20, 12, 0, 0, 120_000_000, time.UTC)

func sample() artifact.Envelope {
	return artifact.Envelope{
		Plane: "policy", Kind: "policy", Version: 42, Node: "node-17", Name: "0193b5a0-0000-7000-8000-000000000002",
		GeneratedAt: at, Payload: []byte(`{"rules": [{"source_cidr":"10.0.0.0/8","action":"allow"}], "n":1}`),
	}
}

func signer(t testing.TB) *artifact.Signer {
	s, err := artifact.GenerateSigner()
	require.NoError(t, err)
	return s
}

func trusting(s *artifact.Signer, planes ...string) *artifact.TrustSet {
	set := artifact.NewTrustSet()
	for _, p := range planes {
		if err := set.Add(p, s.KeyID(), s.PublicKey(), time.Time{}); err != nil {
			panic(err)
		}
	}
	return set
}

func TestSealedEnvelope(t *testing.T) {
	s := signer(t)
	e := sample()
	doc, err := s.Seal(e)
	require.NoError(t, err)

	signed, err := e.SigningBytes()
	require.NoError(t, err)
	require.Equal(t, `{"generated_at":"2026-11-20T12:00:00.12Z","kind":"policy","name":"0193b5a0-0000-7000-8000-000000000002","node":"node-17",`+
		`"payload":{"n":1,"rules":[{"action":"allow","source_cidr":"10.0.0.0/8"}]},"plane":"policy","schema_version":"1.0","version":42}`, string(signed))
	sig := base64.StdEncoding.EncodeToString(s.Sign(signed))
	require.Equal(t, `{"generated_at":"2026-11-20T12:00:00.12Z","kind":"policy","name":"0193b5a0-0000-7000-8000-000000000002","node":"node-17",`+
		`"payload":`+string(e.Payload)+`,"plane":"policy","schema_version":"1.0",`+
		`"signature":{"alg":"ed25519","key_id":"`+s.KeyID()+`","value":"`+sig+`"},"version":42}`, string(doc))

	got, err := trusting(s, "policy").Open(doc)
	require.NoError(t, err)
	e.SchemaVersion = "1.0"
	e.Signature = artifact.Signature{Alg: "ed25519", KeyID: s.KeyID(), Value: sig}
	require.Equal(t, e, got)
}

// Parse gives the part of the document that is the payload, as it stands there; Open a copy of it.
func TestThePayloadStandsInTheDocument(t *testing.T) {
	s := signer(t)
	for _, payload := range []string{"null", "7", `""`, `[ ]`, "{ \"a\" :\n[1, {\"payload\":2}] }"} {
		e := sample()
		e.Payload = []byte(payload)
		doc, err := s.Seal(e)
		require.NoError(t, err)
		for _, around := range []string{`"payload":`, "\"payload\" : \n\t"} {
			text := []byte(" " + strings.Replace(string(doc), `"payload":`+payload, around+payload+" ", 1))
			parsed, err := artifact.Parse(text)
			require.NoError(t, err)
			require.Equal(t, payload, string(parsed.Payload))
			opened, err := trusting(s, "policy").Open(text)
			require.NoError(t, err)
			copy(text[bytes.Index(text, []byte(around)):], strings.Repeat("x", len(around)+len(payload)))
			require.Equal(t, payload, string(opened.Payload))
			require.Equal(t, strings.Repeat("x", len(payload)), string(parsed.Payload))
		}
	}
}

func TestSealNeedsAnEnvelopeThatCanBeSigned(t *testing.T) {
	s := signer(t)
	for name, breakIt := range map[string]func(*artifact.Envelope){
		"no payload":                func(e *artifact.Envelope) { e.Payload = nil },
		"a fraction in the payload": func(e *artifact.Envelope) { e.Payload = []byte(`{"a":0.5}`) },
		"a version beyond 2^53-1":   func(e *artifact.Envelope) { e.Version = 1 << 53 },
		"a name that is not UTF-8":  func(e *artifact.Envelope) { e.Name = "\xff" },
	} {
		e := sample()
		breakIt(&e)
		_, err := s.Seal(e)
		require.Error(t, err, name)
	}
}

func TestOpenRefuses(t *testing.T) {
	s := signer(t)
	doc, err := s.Seal(sample())
	require.NoError(t, err)
	edit := func(old, new string) string {
		require.Contains(t, string(doc), old)
		return strings.Replace(string(doc), old, new, 1)
	}
	cases := []struct {
		name string
		doc  string
		want error
	}{
		{"another version", edit(`"version":42`, `"version":43`), artifact.ErrBadSignature},
		{"another node", edit("node-17", "node-18"), artifact.ErrBadSignature},
		{"another rule", edit("allow", "deny"), artifact.ErrBadSignature},
		{"another time", edit("12:00:00.12Z", "12:00:01Z"), artifact.ErrBadSignature},
		{"a plane whose keys these are not", edit(`"plane":"policy"`, `"plane":"mgmt"`), artifact.ErrUnknownKey},
		{"a key nobody knows", edit(s.KeyID(), "ed25519:0000000000000000"), artifact.ErrUnknownKey},
		{"another algorithm", edit(`"alg":"ed25519"`, `"alg":"none"`), artifact.ErrBadSignature},
		{"a signature value with a line break", edit(`=="},"version"`, `==\n"},"version"`), artifact.ErrBadSignature},
		{"no signature value", edit(`"value":"`, `"value":"","x":"`), artifact.ErrMalformed},
		{"a field that is not in the envelope", edit(`"kind"`, `"extra":1,"kind"`), artifact.ErrMalformed},
		{"a field twice", edit(`"kind"`, `"version":41,"kind"`), artifact.ErrMalformed},
		{"a field twice in the payload", edit(`"n":1`, `"n":2,"n":1`), artifact.ErrMalformed},
		{"a field in another case", edit(`"version"`, `"Version"`), artifact.ErrMalformed},
		{"no plane", edit(`"plane":"policy",`, ``), artifact.ErrMalformed},
		{"a null payload is a payload", edit(string(sample().Payload), `null`), artifact.ErrBadSignature},
		{"an older schema", edit(`"schema_version":"1.0"`, `"schema_version":"0.9"`), artifact.ErrSchemaVersion},
		{"a time in a longer form", edit("00.12Z", "00.120Z"), artifact.ErrMalformed},
		{"half of it", string(doc[:len(doc)/2]), artifact.ErrMalformed},
		{"it twice", string(doc) + string(doc), artifact.ErrMalformed},
	}
	set := trusting(s, "policy")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := set.Open([]byte(c.doc))
			require.ErrorIs(t, err, c.want)
		})
	}
	_, err = set.Open([]byte(edit(`"rules": [`, "\n\"rules\" :  [")))
	require.NoError(t, err, "white space is not signed")
}

func TestPreviousKeysExpire(t *testing.T) {
	s := signer(t)
	doc, err := s.Seal(sample())
	require.NoError(t, err)
	set := artifact.NewTrustSet()
	require.NoError(t, set.Add("policy", s.KeyID(), s.PublicKey(), at))
	now := at
	set.Now = func() time.Time { return now }
	_, err = set.Open(doc)
	require.NoError(t, err, "not after means: still good at that moment")
	now = at.Add(time.Nanosecond)
	_, err = set.Open(doc)
	require.ErrorIs(t, err, artifact.ErrExpiredKey)
	_, err = artifact.NewTrustSet().Open(doc)
	require.ErrorIs(t, err, artifact.ErrUnknownKey)
	require.Error(t, set.Add("policy", "x", []byte("short"), time.Time{}))
}

func TestSealCanonicalEqualsSeal(t *testing.T) {
	s := signer(t)
	set := trusting(s, "policy")
	rapid.Check(t, func(t *rapid.T) {
		e := sample()
		e.Kind = rapid.String().Draw(t, "kind")
		e.Version = rapid.Uint64Range(0, artifact.MaxInteger).Draw(t, "version")
		e.GeneratedAt = time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).In(time.FixedZone("", 3600))
		e.Payload, _ = json.Marshal(anyValue(t, 3))
		canonical, err := artifact.Canonical(e.Payload)
		require.NoError(t, err)
		slow, err := s.Seal(e)
		require.NoError(t, err)
		fast, err := s.SealCanonical(e, canonical)
		require.NoError(t, err)
		require.Equal(t, string(slow), string(fast))

		opened, err := set.Open(fast)
		require.NoError(t, err)
		require.Equal(t, string(e.Payload), string(opened.Payload), "the payload travels verbatim")
		require.True(t, e.GeneratedAt.Equal(opened.GeneratedAt))

		// What is signed is the canonical form of the whole wire document
		// without its signature.
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(fast, &members))
		delete(members, "signature")
		rest, err := json.Marshal(members)
		require.NoError(t, err)
		want, err := artifact.Canonical(rest)
		require.NoError(t, err)
		got, err := opened.SigningBytes()
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	})
}

func TestHighWater(t *testing.T) {
	var h artifact.HighWater
	offer := func(change func(*artifact.Envelope)) (bool, error) {
		e := sample()
		change(&e)
		return h.Accept(e)
	}
	news, err := offer(func(*artifact.Envelope) {})
	require.NoError(t, err)
	require.True(t, news)

	news, err = offer(func(e *artifact.Envelope) { e.Signature.Value = "signed again" })
	require.NoError(t, err, "equal bytes but for the signature")
	require.False(t, news)

	_, err = offer(func(e *artifact.Envelope) { e.Payload = []byte(`{}`) })
	require.ErrorIs(t, err, artifact.ErrForked)
	_, err = offer(func(e *artifact.Envelope) { e.Version = 41 })
	require.ErrorIs(t, err, artifact.ErrRollback)

	news, err = offer(func(e *artifact.Envelope) { e.Version = 43 })
	require.NoError(t, err)
	require.True(t, news)
	_, err = offer(func(*artifact.Envelope) {})
	require.ErrorIs(t, err, artifact.ErrRollback)

	for name, change := range map[string]func(*artifact.Envelope){
		"node":  func(e *artifact.Envelope) { e.Node = "other" },
		"plane": func(e *artifact.Envelope) { e.Plane = "mgmt" },
		"kind":  func(e *artifact.Envelope) { e.Kind = "other" },
		"name":  func(e *artifact.Envelope) { e.Name = "other" },
	} {
		news, err = offer(func(e *artifact.Envelope) { e.Version = 1; change(e) })
		require.NoError(t, err, "another %s has versions of its own", name)
		require.True(t, news)
	}

	var restored artifact.HighWater
	for id, m := range h.All() {
		restored.Restore(id, m)
	}
	_, err = restored.Accept(sample())
	require.ErrorIs(t, err, artifact.ErrRollback)
}

func TestExpect(t *testing.T) {
	e := sample()
	require.NoError(t, e.Expect(e.Identity()))
	want := e.Identity()
	want.Node = "node-18"
	require.ErrorIs(t, e.Expect(want), artifact.ErrMisdirected)
}

func BenchmarkSeal(b *testing.B) {
	s := signer(b)
	e := sample()
	e.Payload = samplePayload(20).Append(nil)
	canonical, err := artifact.Canonical(e.Payload)
	require.NoError(b, err)
	b.Run("parsing", func(b *testing.B) {
		for b.Loop() {
			_, _ = s.Seal(e)
		}
	})
	b.Run("canonical given", func(b *testing.B) {
		for b.Loop() {
			_, _ = s.SealCanonical(e, canonical)
		}
	})
	b.Run("signature alone", func(b *testing.B) {
		for b.Loop() {
			s.Sign(canonical)
		}
	})
}

func TestNoEnvelopeIsSignedThatNobodyCouldRead(t *testing.T) {
	for _, year := range []int{-1, 10000, 3170843} {
		e := sample()
		e.GeneratedAt = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		_, err := signer(t).Seal(e)
		require.ErrorContains(t, err, "generated_at is in the year")
		_, err = signer(t).SealDocument(e)
		require.ErrorContains(t, err, "generated_at is in the year")
	}
	s := signer(t)
	for _, year := range []int{0, 9999} {
		e := sample()
		e.GeneratedAt = time.Date(year, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
		doc, err := s.Seal(e)
		require.NoError(t, err)
		_, err = trusting(s, "policy").Open(doc)
		require.NoError(t, err)
	}
}
