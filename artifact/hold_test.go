package artifact_test

import (
	"testing"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/stretchr/testify/require"
)

func TestWhoeverHoldsAKeyJudgesAsEverybodyDoes(t *testing.T) {
	own, other := signer(t).As("signer"), signer(t).As("signer")
	sealed := func(s *artifact.Signer, change func(*artifact.Envelope)) artifact.Envelope {
		doc, err := s.Seal(sample())
		require.NoError(t, err)
		e, err := artifact.Parse(doc)
		require.NoError(t, err)
		change(&e)
		return e
	}
	same := func(*artifact.Envelope) {}
	cases := map[string]artifact.Envelope{
		"signed by the key":              sealed(own, same),
		"signed by another under its id": sealed(other, same),
		"changed since":                  sealed(own, func(e *artifact.Envelope) { e.Version++ }),
		"another plane":                  sealed(own, func(e *artifact.Envelope) { e.Plane = "mgmt" }),
		"an unknown algorithm":           sealed(own, func(e *artifact.Envelope) { e.Signature.Alg = "none" }),
		"no signature":                   sealed(own, func(e *artifact.Envelope) { e.Signature.Value = "" }),
		"a line break in the signature":  sealed(own, func(e *artifact.Envelope) { e.Signature.Value += "\n" }),
		"a cut signature":                sealed(own, func(e *artifact.Envelope) { e.Signature.Value = e.Signature.Value[4:] }),
	}
	judge := func(set *artifact.TrustSet, held *artifact.Signer) map[string]string {
		if held != nil {
			set.Hold("policy", held)
		}
		answers := map[string]string{}
		for name, e := range cases {
			answers[name] = "good"
			if _, err := set.Verify(e); err != nil {
				answers[name] = err.Error()
			}
		}
		return answers
	}
	want := judge(trusting(own, "policy"), nil)
	require.Equal(t, "good", want["signed by the key"])
	require.NotEqual(t, "good", want["signed by another under its id"])
	require.Equal(t, want, judge(trusting(own, "policy"), own))
	require.Equal(t, want, judge(trusting(own, "policy"), other), "a key that is not the trusted one is not held")
	require.Equal(t, want, judge(trusting(own, "policy"), signer(t)), "nor one that nobody knows")

	// A key that takes the place of a held one is not held itself.
	set := trusting(own, "policy")
	set.Hold("policy", own)
	require.NoError(t, set.Add("policy", "signer", other.PublicKey(), time.Time{}))
	_, err := set.Verify(cases["signed by the key"])
	require.ErrorIs(t, err, artifact.ErrBadSignature)

	// Nor does an expired key sign for itself.
	set = artifact.NewTrustSet()
	require.NoError(t, set.Add("policy", "signer", own.PublicKey(), time.Unix(1, 0)))
	set.Hold("policy", own)
	_, err = set.Verify(cases["signed by the key"])
	require.ErrorIs(t, err, artifact.ErrExpiredKey)
}
