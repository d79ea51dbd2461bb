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

// late is the announcement of a plane's key, as the plane makes it a moment before the
// transition is over by its clock, and who trusts the key before until then.
func late(t *testing.T, p *plane) (notice []byte, trust *artifact.TrustSet) {
	before, err := artifact.GenerateSigner()
	require.NoError(t, err)
	over := time.Now().Add(-time.Second)
	keys := artifact.Keys{Current: p.signer, Previous: before, Until: over}
	notice, ok := keys.AppendRotation(policy.DialectCurrent, nil, string(self), over.Add(-time.Second))
	require.True(t, ok)
	trust = artifact.NewTrustSet()
	require.NoError(t, trust.Add(artifact.PlanePolicy, before.KeyID(), before.PublicKey(), over))
	return notice, trust
}

// TestAKeyThatIsKnownMayBeAnnouncedLate: one that is not known may not.
func TestAKeyThatIsKnownMayBeAnnouncedLate(t *testing.T) {
	p, url := newPlane(t)
	notice, trust := late(t, p)
	p.serve = func(w http.ResponseWriter, r *http.Request, after policy.EventID) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(frameText(after, notice)))
		p.live(w, r, after)
	}
	p.add(msg{5, web, rulesA})
	opt := hasty(0)
	opt.Trust = trust
	var untrusted *UntrustedKeyError
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, err := range NewFollower(url, self, opt).Events(ctx) {
		require.ErrorAs(t, err, &untrusted)
		break
	}
	require.NoError(t, trust.Add(artifact.PlanePolicy, p.signer.KeyID(), p.signer.PublicKey(), time.Time{}))
	require.Equal(t, []policy.EventID{5}, ids(follow(t, NewFollower(url, self, opt), 1)))
}

func TestOverNATSAKeyThatIsKnownMayBeAnnouncedLate(t *testing.T) {
	p := newNATSPlane(t)
	notice, trust := late(t, p.plane)
	require.NoError(t, trust.Add(artifact.PlanePolicy, p.signer.KeyID(), p.signer.PublicKey(), time.Time{}))
	p.key = notice
	id := p.publish(web, rulesA)
	p.read(p.follower(origin, func(o *Options) { o.Trust = trust })).want(id)
}
