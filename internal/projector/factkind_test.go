package projector

import (
	"encoding/hex"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

// The bytes of the digest are what workers of two releases, checkpoints and
// replays are held against each other by: no kind of fact moves, or changes how it
// is hashed, without a new schema.
func TestTheDigestsBytesStandStill(t *testing.T) {
	p, j := openFresh(t), &journal{}
	for _, e := range []policy.Event{
		update(t, 1, 1, "a", "role", "web"), update(t, 2, 1, "b", "role", "db"), leave(3, 1, "b"),
		revise(t, 4, 1, 1, 1, 0, "web", "role=web", 80), revise(t, 5, 1, 1, 2, 1, "web", "role=web", 81),
		revise(t, 6, 2, 2, 1, 0, "gone", "role=web", 80), remove(7, 2, 2),
		policy.AdmissionPolicyUpdated{ID: evt(8), Policy: "guard", Document: policy.AdmissionPolicy{
			Name: "guard", Level: policy.Global, Priority: 500, Mode: policy.Enforce, Rego: "package edict\nresult := {}",
		}},
		policy.PrincipalUpdated{ID: evt(9), Principal: "ann", Document: policy.Principal{Kind: policy.Person}},
		policy.RelationWritten{ID: evt(10), Principal: "ann", Relation: related("plane#admin"), CreatedBy: "root"},
	} {
		require.Equal(t, "applied", verdict(t, p, j.add(e)))
	}
	for _, prefix := range []byte{keyRete, keyArtifacts, keyRelease} { // whole, whatever they are
		require.NoError(t, p.db.Set([]byte{prefix, 'k'}, []byte{prefix, 'v'}, pebble.NoSync))
	}
	d, err := p.Digest(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, d.Rows)
	require.Equal(t, "9df535a1113f2f29eb6a0c3b7e5f7f8662554a0f0a2749492a22fd65bc44f139", hex.EncodeToString(d.Sum[:]))
}
