package node

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// TestAKeyThatIsKnownMayBeAnnouncedLate: the plane announces it until the transition is over
// by its own clock.
func TestAKeyThatIsKnownMayBeAnnouncedLate(t *testing.T) {
	p, url := newPlane(t)
	before, err := artifact.GenerateSigner()
	require.NoError(t, err)
	over := time.Now().Add(-time.Second)
	keys := artifact.Keys{Current: p.signer, Previous: before, Until: over}
	p.serve = func(w http.ResponseWriter, r *http.Request, after policy.EventID) {
		notice, ok := keys.AppendRotation(policy.DialectCurrent, nil, string(self), over.Add(-time.Second))
		require.True(t, ok)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(frameText(after, notice)))
		p.live(w, r, after)
	}
	p.add(msg{5, web, rulesA})
	opt := hasty(0)
	opt.Trust = artifact.NewTrustSet()
	require.NoError(t, opt.Trust.Add(artifact.PlanePolicy, before.KeyID(), before.PublicKey(), over))
	require.NoError(t, opt.Trust.Add(artifact.PlanePolicy, p.signer.KeyID(), p.signer.PublicKey(), time.Time{}))
	require.Equal(t, []policy.EventID{5}, ids(follow(t, NewFollower(url, self, opt), 1)))

	opt.Trust = artifact.NewTrustSet()
	require.NoError(t, opt.Trust.Add(artifact.PlanePolicy, before.KeyID(), before.PublicKey(), over))
	var untrusted *UntrustedKeyError
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, err := range NewFollower(url, self, opt).Events(ctx) {
		require.ErrorAs(t, err, &untrusted, "a key that is not known must be announced in time")
		break
	}
}
