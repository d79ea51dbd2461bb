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

// Relations are in the digest as they were when one record had all of a principal's.
func TestTheDigestsBytesOfRelationsStandStill(t *testing.T) {
	p, j := openFresh(t), &journal{}
	for _, e := range []policy.Event{
		person(1, "b", "x"), granted(2, "b", "plane#admin"), granted(3, "a-b", "plane#read"), granted(4, "a", "node:n1#agent"),
		granted(5, "a", "plane#read"), granted(6, "a", "plane#admin"), bootstrapped(7, "c", 9999, 1), registers(8, "c", 1, 1),
		revoked(9, "a", "plane#read"), granted(10, "d", "plane#read"), removed(11, "d"),
	} {
		require.Equal(t, "applied", verdict(t, p, j.add(e)))
	}
	d, err := p.Digest(t.Context())
	require.NoError(t, err)
	require.Equal(t, "22eb141ebbfe62b4d04f4e5d80da26b7e93fca14877ceaf804ec04ffcf4592ff", hex.EncodeToString(d.Sum[:]))
	_, facts := p.Facts("")
	var given []string
	for f, err := range facts {
		require.NoError(t, err)
		given = append(given, f.Key+": "+f.Values["relations"])
	}
	require.Equal(t, []string{
		"a: node:n1#agent,plane#admin", "a-b: plane#read", "b: plane#admin", "c: node:" + tenant(1).String() + "/c#agent", "d: ",
	}, given)
}
