package relay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
)

func TestTheSignerOfAStoredEnvelopeIsFoundBehindItsPayload(t *testing.T) {
	s := newSealer(artifact.NewKeyring(testSigner), "17", 30*day, 8<<20)
	doc := ArtifactUpdated{NodeID: "n0", Kind: "agent", Name: "agent", Document: new(string)}
	*doc.Document = `{"signature":{"alg":"ed25519","key_id":"somebody","value":""},"version":1}`
	a := announcement{key: Key{7, artifactPrefix + "agent.agent", "n0"}, artifact: "agent.agent", time: timeOf(7)}
	out := make([]streams.Outgoing, 1)
	require.NoError(t, s.seal([]line{{announcement: a, payload: doc.append(nil)}}, out))
	require.Equal(t, testSigner.KeyID(), signedBy(out[0].Body))
	for _, body := range []string{"", `{}`, `{"key_id":"`, `{"key_id":"half`} {
		require.Empty(t, signedBy([]byte(body)))
	}
}

// A sync tells again what another key signed: a row, and that a row is gone.
func TestWhatAnotherKeySignedIsADifference(t *testing.T) {
	other, err := artifact.GenerateSigner()
	require.NoError(t, err)
	gone := func(by *artifact.Signer) streams.Message {
		rules, err := artifact.PrepareRules([]byte(`[]`), 0)
		require.NoError(t, err)
		var m streams.Message
		_, err = by.SealRuns(nil, []artifact.Announcement{{
			Node: "n0", Policy: policyIDs[0], Revision: policyIDs[1], Version: 7, GeneratedAt: time.Unix(0, 0), Rules: rules,
		}}, func(_ int, wire []byte) {
			m = streams.Message{Subject: streams.NodeSubject("n0", policyIDs[0].String()), Body: wire}
		})
		require.NoError(t, err)
		return m
	}
	for signer, want := range map[*artifact.Signer]int{testSigner: 0, other: 1} {
		d := newDifference(projector.SyncRows{Seq: 9}, nil, []int{policy.NodeID("n0").Partition(worldParts)}, worldParts, testSigner.KeyID())
		d.told(gone(signer))
		n := 0
		for _, diffs := range d.untold() {
			n += len(diffs)
		}
		require.Equal(t, want, n)
	}
}
