package artifact_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// generations are a plane's keys, one after the other.
func generations(t *testing.T, n int) (all []*artifact.Signer) {
	t.Helper()
	for range n {
		s, err := artifact.GenerateSigner()
		require.NoError(t, err)
		all = append(all, s)
	}
	return all
}

// announced is the notice by which old names next to node n1.
func announced(old, next *artifact.Signer, now, until time.Time) []byte {
	b, ok := artifact.Keys{Current: next, Previous: old, Until: until}.AppendRotation(policy.DialectCurrent, nil, "n1", now)
	if !ok {
		panic("no transition")
	}
	return b
}

func rotate(t *artifact.TrustSet, notice []byte, now time.Time) error {
	n, err := t.Check(notice, now)
	if err != nil {
		return err
	}
	return t.Rotate(n, now)
}

func trustedFirst(s *artifact.Signer) *artifact.TrustSet {
	t := artifact.NewTrustSet()
	if err := t.Add(artifact.PlanePolicy, s.KeyID(), s.PublicKey(), time.Time{}); err != nil {
		panic(err)
	}
	return t
}

// says reports how a trust set judges what a key signs.
func says(t *testing.T, trust *artifact.TrustSet, s *artifact.Signer, now time.Time) error {
	t.Helper()
	b := s.AppendNotice(nil, artifact.Notice{ID: "x", Type: "node_state_updated", Scope: "node:n1", IssuedAt: now, Payload: []byte(`{}`)})
	_, err := trust.Check(b, now)
	return err
}

func TestTrustFollowsTheAnnouncementsOfTrustedKeysAlone(t *testing.T) {
	k := generations(t, 5)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	until := start.Add(time.Hour)
	trust := trustedFirst(k[0])
	require.ErrorIs(t, says(t, trust, k[1], start), artifact.ErrUnknownKey)
	require.NoError(t, rotate(trust, announced(k[0], k[1], start, until), start))
	require.NoError(t, says(t, trust, k[0], start), "both, while the transition lasts")
	require.NoError(t, says(t, trust, k[1], start))

	later := start.Add(time.Minute)
	require.NoError(t, rotate(trust, announced(k[0], k[1], later, until), later), "said again")
	require.NoError(t, rotate(trust, announced(k[0], k[1], later, until.Add(time.Hour)), later))
	require.ErrorIs(t, says(t, trust, k[0], until.Add(time.Second)), artifact.ErrExpiredKey, "said again, it lasts no longer")
	require.ErrorIs(t, rotate(trust, announced(k[0], k[2], later, until), later), artifact.ErrRetiredKey, "a replaced key names no other")
	require.ErrorIs(t, rotate(trust, announced(k[1], k[0], later, until), later), artifact.ErrRetiredKey, "nor is it named again")
	require.ErrorIs(t, rotate(trust, announced(k[3], k[4], later, until), later), artifact.ErrUnknownKey, "a stranger")

	after := until.Add(time.Second)
	require.NoError(t, says(t, trust, k[1], after))
	require.ErrorIs(t, rotate(trust, announced(k[0], k[1], after, after.Add(time.Hour)), after), artifact.ErrExpiredKey)
	require.NoError(t, rotate(trust, announced(k[1], k[2], after, after.Add(time.Hour)), after))
	require.ErrorIs(t, rotate(trust, announced(k[1], k[0], after, after.Add(time.Hour)), after), artifact.ErrRetiredKey)
	require.ErrorIs(t, rotate(trust, announced(k[2], k[0], after, after.Add(time.Hour)), after), artifact.ErrRetiredKey, "a rollback to an older key")
	require.NoError(t, says(t, trust, k[2], after))
	require.ErrorIs(t, says(t, trust, k[0], after), artifact.ErrExpiredKey)

	var ids []string
	for _, key := range trust.Keys(artifact.PlanePolicy) {
		ids = append(ids, key.KeyID)
		require.Equal(t, key.KeyID == k[2].KeyID(), key.NotAfter.IsZero())
	}
	require.ElementsMatch(t, []string{k[0].KeyID(), k[1].KeyID(), k[2].KeyID()}, ids)
}

func TestAnAnnouncementThatDoesNotHoldTogetherIsRefused(t *testing.T) {
	k := generations(t, 3)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		payload string
		want    error
	}{
		"the key is not the id's":      {payload(k[1].KeyID(), k[2], k[0].KeyID(), now.Add(time.Hour)), artifact.ErrMalformed},
		"the id is the signer's":       {payload(k[0].KeyID(), k[0], k[0].KeyID(), now.Add(time.Hour)), artifact.ErrMalformed},
		"it replaces another's":        {payload(k[1].KeyID(), k[1], k[2].KeyID(), now.Add(time.Hour)), artifact.ErrMalformed},
		"its transition is over":       {payload(k[1].KeyID(), k[1], k[0].KeyID(), now), artifact.ErrExpiredKey},
		"it says no key":               {`{}`, artifact.ErrMalformed},
		"its payload is no object":     {`[]`, artifact.ErrMalformed},
		"its transition has no end":    {fmt.Sprintf(`{"key_id":%q,"public_key":%q,"previous_key_id":%q}`, k[1].KeyID(), base64.StdEncoding.EncodeToString(k[1].PublicKey()), k[0].KeyID()), artifact.ErrExpiredKey},
		"its key is shorter than keys": {fmt.Sprintf(`{"key_id":%q,"public_key":"AAAA","previous_key_id":%q}`, k[1].KeyID(), k[0].KeyID()), artifact.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			trust := trustedFirst(k[0])
			b := k[0].AppendNotice(nil, artifact.Notice{ID: "x", Type: artifact.TypeKeyRotated, Scope: "node:n1", IssuedAt: now, Payload: []byte(c.payload)})
			require.ErrorIs(t, rotate(trust, b, now), c.want)
			require.Len(t, trust.Keys(artifact.PlanePolicy), 1)
		})
	}
	n := artifact.Notice{Type: "policy_updated", KeyID: k[0].KeyID(), Payload: []byte(payload(k[1].KeyID(), k[1], k[0].KeyID(), now.Add(time.Hour)))}
	require.ErrorIs(t, trustedFirst(k[0]).Rotate(n, now), artifact.ErrMalformed)
}

func payload(id string, key *artifact.Signer, previous string, until time.Time) string {
	b, err := json.Marshal(map[string]any{"key_id": id, "public_key": key.PublicKey(), "previous_key_id": previous, "transition_expires": until})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Agents of the field read these bytes.
func TestAnAnnouncementIsGolden(t *testing.T) {
	r := artifact.Rotation{
		KeyID: artifact.KeyID([]byte("11111111111111111111111111111111")), PublicKey: []byte("11111111111111111111111111111111"),
		Previous: artifact.KeyID([]byte("22222222222222222222222222222222")), PreviousKey: []byte("22222222222222222222222222222222"),
		Until: time.Date(2026, 1, 3, 4, 4, 5, 0, time.FixedZone("CET", 3600)),
	}
	require.Equal(t, `{"key_id":"ed25519:8a83665f3798727f","public_key":"MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=",`+
		`"previous_key_id":"ed25519:0d6ba19b62531ccb","transition_expires":"2026-01-03T03:04:05Z"}`, string(r.Payload()))
	require.Equal(t, `{"current":"MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=",`+
		`"previous":"MjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjI=","transition_expires":"2026-01-03T03:04:05Z"}`, string(r.LegacyPayload()))
}

func TestALegacyAgentHearsOfTheNextKeyUnderTheOneItKnows(t *testing.T) {
	k := generations(t, 2)
	now := time.Now()
	doc, ok := artifact.Keys{Current: k[1], Previous: k[0], Until: now.Add(time.Hour)}.AppendRotation(policy.DialectLegacy, nil, "n1", now)
	require.True(t, ok)
	_, ok = legacyVerify(doc, k[0].PublicKey())
	require.True(t, ok, "%s", doc)
	require.Contains(t, string(doc), `"current":"`+base64.StdEncoding.EncodeToString(k[1].PublicKey())+`"`)
}

func TestAKeyringTellsWhoWaits(t *testing.T) {
	k := generations(t, 2)
	ring := artifact.NewKeyring(k[0])
	now, changed := ring.Now()
	require.Equal(t, artifact.Keys{Current: k[0]}, now)
	_, ok := now.Rotation(time.Now())
	require.False(t, ok)
	until := time.Now().Add(time.Hour)
	ring.Set(artifact.Keys{Current: k[1], Previous: k[0], Until: until})
	<-changed
	now, _ = ring.Now()
	require.Same(t, k[0], now.Previous)
	_, ok = now.Rotation(until)
	require.False(t, ok, "it is over")
}
