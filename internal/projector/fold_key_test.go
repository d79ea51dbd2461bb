package projector

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

func TestARotationOfTheKeyChangesNothingThatIsKept(t *testing.T) {
	const key, before = "ed25519:0123456789abcdef", "ed25519:fedcba9876543210"
	p, j := openFresh(t), &journal{}
	require.Equal(t, "applied", verdict(t, p, j.add(update(t, 1, 1, "a"))))
	was, err := p.Digest(t.Context())
	require.NoError(t, err)
	e := policy.KeyRotated{ID: evt(2), Key: key, Previous: before, Expires: time.Unix(1, 0), CreatedBy: "root"}
	require.Equal(t, "applied", verdict(t, p, j.add(e)))
	is, err := p.Digest(t.Context())
	require.NoError(t, err)
	require.Equal(t, was.Sum, is.Sum)

	body := policy.Append(nil, e)
	require.Equal(t, CodeSubjectMismatch, verdict(t, p, j.raw("edict.log.key."+before, body)))
	require.Equal(t, CodeSubjectMismatch, verdict(t, p, j.raw("edict.log.access.root", body)))
	e.Previous = "root"
	require.Equal(t, policy.Invalid, verdict(t, p, j.raw(wire.Subject(e), policy.Append(nil, e))))
}
