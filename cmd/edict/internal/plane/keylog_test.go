package plane

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
)

// rotations are what the audit of a plane shows of them.
func rotations(t *testing.T, at Addresses) (all []resource.AuditEntry) {
	page, err := newClient(t, at).Audit(t.Context(), 0, 0)
	require.NoError(t, err)
	for _, e := range page.Items {
		if e.Type == policy.TypeKeyRotated {
			all = append(all, e)
		}
	}
	return all
}

func TestARotationIsOneLineOfTheAudit(t *testing.T) {
	opt := Options{Data: t.TempDir(), Relaxed: true}
	at, stop := start(t, opt)
	before, err := newClient(t, at).Keys(t.Context())
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+at.HTTP+"/v1/keys:rotate?transition=1h", nil)
	require.NoError(t, err)
	r.Header.Set("X-Edict-Principal", "ana")
	r.Header.Set("X-Correlation-Id", "change-7")
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
	all := rotations(t, at)
	require.Len(t, all, 1)
	after, err := newClient(t, at).Keys(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ana", all[0].Principal)
	require.Equal(t, "change-7", all[0].CorrelationID)
	require.Equal(t, before[0].KeyID+" to "+after[0].KeyID, all[0].Detail)
	stop()

	// A plane that was killed once the record named the next key, and before the
	// log did.
	p, err := Open(t.Context(), Options{Data: opt.Data, HTTP: "127.0.0.1:0", Relaxed: true})
	require.NoError(t, err)
	next, err := artifact.GenerateSigner()
	require.NoError(t, err)
	require.NoError(t, next.Create(p.keyPath(next.KeyID())))
	_, err = writeKey(t.Context(), p.keys.bucket, p.keys.now().rotated(next, time.Now(), time.Now().Add(time.Hour), "eve", "change-8"))
	require.NoError(t, err)
	p.Close()
	for range 2 {
		at, stop = start(t, opt)
		all = rotations(t, at)
		require.Len(t, all, 2, "each rotation is told once, however often the plane starts")
		require.Equal(t, "eve change-8 "+after[0].KeyID+" to "+next.KeyID(), all[1].Principal+" "+all[1].CorrelationID+" "+all[1].Detail)
		keys, err := newClient(t, at).Keys(t.Context())
		require.NoError(t, err)
		require.Equal(t, next.KeyID(), keys[0].KeyID)
		stop()
	}
}

// Nobody meets a key whose coming the log does not show.
func TestAKeyDoesNotSignBeforeTheLogShowsIt(t *testing.T) {
	p, err := Open(t.Context(), Options{Data: t.TempDir(), HTTP: "127.0.0.1:0", Relaxed: true})
	require.NoError(t, err)
	defer p.Close()
	before := p.keys.now()
	next, err := artifact.GenerateSigner()
	require.NoError(t, err)
	p.keys.held[next.KeyID()] = next
	require.NoError(t, next.Create(p.keyPath(next.KeyID())))
	recorded, err := writeKey(t.Context(), p.keys.bucket, before.rotated(next, time.Now(), time.Now().Add(time.Hour), "ana", ""))
	require.NoError(t, err)
	require.NoError(t, p.entrance.nats.Refuse(true))
	require.Error(t, p.adopt(t.Context(), recorded))
	require.Equal(t, before.KeyID, p.keysNow()[0].KeyID)
	require.Equal(t, before.KeyID, p.keys.ring.Current().KeyID())
	require.NoError(t, p.entrance.nats.Refuse(false))
	require.NoError(t, p.adopt(t.Context(), recorded))
	require.Equal(t, next.KeyID(), p.keys.ring.Current().KeyID())
	there, err := p.stream.Holds(t.Context(), recorded.rotation())
	require.NoError(t, err)
	require.True(t, there)
}
