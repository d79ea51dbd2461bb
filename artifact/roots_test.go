package artifact

import (
	"testing"
	"time"

	"github.com/edictdev/edict/policy"
	"github.com/stretchr/testify/require"
)

func TestRootsAreBoundedAndTheOldestGoesFirst(t *testing.T) {
	nth := func(i int) verifiedRoot { return verifiedRoot{size: i} }
	var r roots
	for i := range 3*maxRoots + 1 {
		require.False(t, r.knows(nth(i)))
		r.add(nth(i))
		r.add(nth(i))
		require.True(t, r.knows(nth(i)))
		require.Len(t, r.have, min(i+1, maxRoots))
		require.Len(t, r.ring, min(i+1, maxRoots))
		if i >= maxRoots {
			require.True(t, r.knows(nth(i-maxRoots+1)))
			require.False(t, r.knows(nth(i-maxRoots)))
		}
	}
	r.forget()
	require.False(t, r.knows(nth(3*maxRoots)))
	r.add(nth(1))
	require.True(t, r.knows(nth(1)))
}

func TestARunIsRememberedOnceAndForgottenWithItsKey(t *testing.T) {
	s, err := GenerateSigner()
	require.NoError(t, err)
	rules, err := PrepareRules([]byte("[]"), 0)
	require.NoError(t, err)
	var docs [][]byte
	list := make([]Message, MaxRun+2)
	for i := range list {
		list[i] = Message{Node: policy.NodeID("n"), Version: uint64(i), Rules: rules}
	}
	_, err = s.SealRuns(nil, list, func(_ int, wire []byte) { docs = append(docs, wire) })
	require.NoError(t, err)

	end := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	now := end
	set := TrustSet{Now: func() time.Time { return now }}
	require.NoError(t, set.Add(PlanePolicy, s.KeyID(), s.PublicKey(), end))
	kept := set.keys[trustKey{PlanePolicy, s.KeyID()}].roots
	for i, doc := range docs {
		_, err := set.Open(doc)
		require.NoError(t, err)
		require.Len(t, kept.have, 1+i/MaxRun)
	}
	doc := append([]byte(nil), docs[0]...)
	doc[len(doc)-len(`0}`)]++ // the version
	_, err = set.Open(doc)
	require.ErrorIs(t, err, ErrBadSignature)
	require.Len(t, kept.have, 2, "what is refused is not remembered")

	now = end.Add(1)
	_, err = set.Open(docs[0])
	require.ErrorIs(t, err, ErrExpiredKey)
	require.Empty(t, kept.have)

	now = end
	_, err = set.Open(docs[0])
	require.NoError(t, err)
	require.NoError(t, set.Add(PlanePolicy, s.KeyID(), s.PublicKey(), end))
	require.Empty(t, set.keys[trustKey{PlanePolicy, s.KeyID()}].roots.have)
}
