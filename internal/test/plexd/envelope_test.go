package plexd

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// What is signed is the envelope as encoding/json writes it, however it was
// sent: these are written by hand.
func TestWhatIsSigned(t *testing.T) {
	for name, c := range map[string]struct {
		dialect    Dialect
		sent, want string
	}{
		"members in the current order, and no signature": {
			Current,
			`{"signature":"x","payload":{"b":1,"a":2.50},"issued_at":"2026-11-20T12:00:00Z","key_id":"k","scope":"node:n","type":"policy_updated","id":"e"}`,
			`{"id":"e","type":"policy_updated","scope":"node:n","key_id":"k","issued_at":"2026-11-20T12:00:00Z","payload":{"b":1,"a":2.50}}`,
		},
		"members in the legacy order": {
			Legacy,
			`{"nonce":"7","payload":[],"signature":"x","event_id":"e","event_type":"policy_updated","issued_at":"2026-11-20T12:00:00Z"}`,
			`{"event_type":"policy_updated","event_id":"e","issued_at":"2026-11-20T12:00:00Z","nonce":"7","payload":[]}`,
		},
		"white space goes, and HTML is escaped": {
			Current,
			"{\"id\":\"e\",\"type\":\"t\",\"scope\":\"s\",\"key_id\":\"k\",\"issued_at\":\"2026-11-20T12:00:00Z\",\"payload\":{ \"x\":\n\"<a&b>\u2028\u2029\" },\"signature\":\"x\"}",
			`{"id":"e","type":"t","scope":"s","key_id":"k","issued_at":"2026-11-20T12:00:00Z","payload":{"x":"\u003ca\u0026b\u003e\u2028\u2029"}}`,
		},
		"times lose their trailing zeros": {
			Legacy,
			`{"event_type":"t","event_id":"e","issued_at":"2026-11-20T12:00:00.120+00:00","nonce":"7","payload":{},"signature":"x"}`,
			`{"event_type":"t","event_id":"e","issued_at":"2026-11-20T12:00:00.12Z","nonce":"7","payload":{}}`,
		},
		"a time of no fraction": {
			Current,
			`{"id":"e","type":"t","scope":"s","key_id":"k","issued_at":"2026-11-20T12:00:00.000Z","payload":1,"signature":"x"}`,
			`{"id":"e","type":"t","scope":"s","key_id":"k","issued_at":"2026-11-20T12:00:00Z","payload":1}`,
		},
		"no payload is null": {
			Current,
			`{"id":"e","type":"t","scope":"s","key_id":"k","issued_at":"2026-11-20T12:00:00Z","signature":"x"}`,
			`{"id":"e","type":"t","scope":"s","key_id":"k","issued_at":"2026-11-20T12:00:00Z","payload":null}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := open(c.dialect, []byte(c.sent))
			require.NoError(t, err)
			require.Equal(t, c.want, string(o.signed))
		})
	}
}

func TestWhatCannotBeReadIsMalformed(t *testing.T) {
	for name, c := range map[string]struct {
		dialect Dialect
		sent    string
	}{
		"no JSON":                   {Current, `{`},
		"no id":                     {Current, `{"type":"t"}`},
		"no type":                   {Current, `{"id":"e"}`},
		"the other dialect":         {Legacy, `{"id":"e","type":"t"}`},
		"the current one to legacy": {Current, `{"event_id":"e","event_type":"t"}`},
		"a time that is none":       {Legacy, `{"event_id":"e","event_type":"t","issued_at":"noon"}`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(c.dialect, []byte(c.sent))
			require.ErrorIs(t, err, ErrMalformed)
		})
	}
}

func TestWhomAnAgentBelieves(t *testing.T) {
	for name, c := range map[string]struct {
		age  time.Duration
		want error
	}{
		"four minutes and fifty seconds old":    {4*time.Minute + 50*time.Second, nil},
		"five minutes and a second":             {5*time.Minute + time.Second, ErrStale},
		"early by four minutes and 50 seconds":  {-4*time.Minute - 50*time.Second, nil},
		"early by five minutes and two seconds": {-5*time.Minute - 2*time.Second, ErrEarly},
	} {
		t.Run(name, func(t *testing.T) {
			for _, d := range []Dialect{Current, Legacy} {
				require.ErrorIs(t, verified(d, sealed(d, "policy_updated", `{}`, noon.Add(-c.age), "7"), believer(d)), c.want)
			}
		})
	}
	good := sealed(Current, "policy_updated", `{"a":1}`, noon, "")
	for name, c := range map[string]struct {
		from, to string
		want     error
	}{
		"another payload":  {`{"a":1}`, `{"a":2}`, ErrForged},
		"another type":     {`policy_updated`, `signing_key_rotated`, ErrForged},
		"another key":      {keyID, "did:web:plexsphere.com#key-2025-12", ErrForged},
		"no key":           {keyID, "", ErrForged},
		"no signature":     {`"signature":"`, `"sig":"`, ErrUnsigned},
		"no time":          {`"issued_at":`, `"at":`, ErrUnsigned},
		"more white space": {`{"a":1}`, `{ "a" : 1 }`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			changed := replaced(t, good, c.from, c.to)
			require.ErrorIs(t, verified(Current, changed, believer(Current)), c.want)
		})
	}
}

func TestANonceIsGoodOnceInFiveMinutes(t *testing.T) {
	b := believer(Legacy)
	once := sealed(Legacy, "policy_updated", `{}`, noon, "7")
	forged := replaced(t, once, `"payload":{}`, `"payload":{"a":1}`)
	require.ErrorIs(t, verified(Legacy, forged, b), ErrForged)
	require.NoError(t, verified(Legacy, once, b), "a bad event does not use its nonce up")
	require.ErrorIs(t, verified(Legacy, once, b), ErrReplayed)
	require.NoError(t, verified(Legacy, sealed(Legacy, "policy_updated", `{}`, noon, "8"), b))
	require.ErrorIs(t, verified(Legacy, sealed(Legacy, "policy_updated", `{}`, noon, ""), b), ErrUnsigned)
}

// The event that brings a key is signed by the one before, which is good for a
// while.
func TestAKeyIsRotatedUnderTheOldOne(t *testing.T) {
	next := ed25519.NewKeyFromSeed([]byte("and with this one from then on.."))
	text := base64.StdEncoding.EncodeToString(next.Public().(ed25519.PublicKey))
	old := base64.StdEncoding.EncodeToString(public())
	for d, payload := range map[Dialect]string{
		Current: fmt.Sprintf(`{"key_id":"new","public_key":%q,"previous_key_id":%q,"transition_expires":"2026-11-20T12:01:00Z"}`, text, keyID),
		Legacy:  fmt.Sprintf(`{"current":%q,"previous":%q,"transition_expires":"2026-11-20T12:01:00Z"}`, text, old),
	} {
		b := believer(d)
		require.NoError(t, verified(d, sealed(d, "signing_key_rotated", payload, noon, "1"), b))
		require.NoError(t, b.rotate([]byte(payload)))
		require.NoError(t, verified(d, sealed(d, "policy_updated", `{}`, noon, "2"), b), "the old key still is good")
		again, err := open(d, []byte(sealed(d, "signing_key_rotated", payload, noon, "4")))
		require.NoError(t, err)
		require.ErrorIs(t, b.verify(again, noon.Add(2*time.Minute)), ErrLate, "what it announces is known")
		other, err := open(d, []byte(sealed(d, "signing_key_rotated", strings.ReplaceAll(payload, text, old), noon, "5")))
		require.NoError(t, err)
		require.ErrorIs(t, b.verify(other, noon.Add(2*time.Minute)), ErrForged)
		o, err := open(d, []byte(sealed(d, "policy_updated", `{}`, noon, "3")))
		require.NoError(t, err)
		require.ErrorIs(t, b.verify(o, noon.Add(2*time.Minute)), ErrForged, "and then is not")
		o.keyID, o.signature = "new", base64.StdEncoding.EncodeToString(ed25519.Sign(next, o.signed))
		require.NoError(t, b.verify(o, noon.Add(2*time.Minute)))
	}
}

func believer(d Dialect) *trust {
	t, err := newTrust(d, keyID, public())
	if err != nil {
		panic(err)
	}
	return t
}

func verified(d Dialect, sent string, b *trust) error {
	o, err := open(d, []byte(sent))
	if err != nil {
		return err
	}
	return b.verify(o, noon)
}
