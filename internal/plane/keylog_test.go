package plane

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/keyring"
	"github.com/edictdev/edict/internal/streams"
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
	at, _ := start(t, opt)
	before, err := newClient(t, at).Keys.List(t.Context())
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
	after, err := newClient(t, at).Keys.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ana", all[0].Principal)
	require.Equal(t, "change-7", all[0].CorrelationID)
	require.Equal(t, before[0].KeyID+" to "+after[0].KeyID, all[0].Detail)
}

// A plane that was killed once the record named the next key, and before the
// log did.
func TestARotationThatAKillCutIsLoggedOnce(t *testing.T) {
	opt := Options{Data: t.TempDir(), Relaxed: true}
	p, err := Open(t.Context(), Options{Data: opt.Data, HTTP: "127.0.0.1:0", Relaxed: true})
	require.NoError(t, err)
	before := p.keys.Ring().Current().KeyID()
	killed := p.holderOf(t, p.opt.keyFiles(), neverLogs{p.stream})
	_, err = killed.Rotate(t.Context(), keyring.Rotation{Transition: time.Hour, Principal: "eve", CorrelationID: "change-8", Others: nobodyElse})
	require.ErrorContains(t, err, "is recorded")
	p.Close()
	for range 2 {
		at, stop := start(t, opt)
		all := rotations(t, at)
		require.Len(t, all, 1, "each rotation is told once, however often the plane starts")
		keys, err := newClient(t, at).Keys.List(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, before, keys[0].KeyID)
		require.Equal(t, "eve change-8 "+before+" to "+keys[0].KeyID, all[0].Principal+" "+all[0].CorrelationID+" "+all[0].Detail)
		stop()
	}
}

// neverLogs is a log that nothing is appended to.
type neverLogs struct{ keyring.Log }

func (neverLogs) Publish(context.Context, streams.Append) (uint64, bool, error) {
	return 0, false, errors.New("killed before that")
}

func nobodyElse() ([]keyring.Worker, error) { return nil, nil }

// holderOf holds the keys of these files, and goes by the plane's record.
func (p *Plane) holderOf(t *testing.T, files keyring.Files, log keyring.Log) *keyring.Manager {
	m, err := keyring.Load(keyring.Options{
		Files: files, Log: log,
		Open: keyring.BucketOn(p.conn),
	})
	require.NoError(t, err)
	require.NoError(t, m.Open(t.Context()))
	return m
}
