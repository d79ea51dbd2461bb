package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/policy"
)

func TestEveryStreamIsLookedAtOnceARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r revalidator
		looks := make([]int, 100)
		var leave []func()
		for i := range looks {
			leave = append(leave, r.join(func() bool { looks[i]++; return true }))
			time.Sleep(37 * time.Millisecond) // they come at any moment of a round
		}
		clear(looks)
		for range 3 {
			time.Sleep(revalidateEvery)
		}
		synctest.Wait()
		for i, n := range looks {
			require.Equal(t, 3, n, "stream %d", i)
		}
		for _, l := range leave {
			l()
			l() // twice is once
		}
		clear(looks)
		time.Sleep(2 * revalidateEvery)
		require.NotContains(t, looks, 1, "who left is not looked at")
	})
}

func TestAStreamIsNotLookedAtAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r revalidator
		n, other := 0, 0
		leave := r.join(func() bool { n++; return false })
		time.Sleep(revalidateEvery)
		synctest.Wait()
		require.Equal(t, 1, n, "within a round of its beginning")
		leaveOther := r.join(func() bool { other++; return true })
		time.Sleep(2 * revalidateEvery)
		synctest.Wait()
		leave()
		require.Equal(t, 1, n)
		require.Equal(t, 2, other)
		leaveOther()
	})
}

// A bubble ends only once its timers are over: without streams there is none.
func TestWithoutStreamsNothingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r revalidator
		for range 3 { // and it begins again, by one timer
			n := 0
			leave := r.join(func() bool { n++; return true })
			r.join(func() bool { return true })()
			time.Sleep(2 * revalidateEvery)
			synctest.Wait()
			require.Equal(t, 2, n)
			leave()
			time.Sleep(revalidateEvery)
			synctest.Wait()
			r.mu.Lock()
			runs := r.runs
			r.mu.Unlock()
			require.False(t, runs)
		}
	})
}

// watched is the little of a plane that revalidate asks.
type watched struct {
	Access
	Model
	registry *access.Registry
	seq      atomic.Uint64
	revoked  atomic.Bool
	looks    atomic.Int64
}

func (w *watched) Applied() uint64       { return w.seq.Load() }
func (w *watched) AccessVersion() uint64 { return 0 }

func (w *watched) Authenticate(ctx context.Context, c access.Credentials) (*access.Principal, error) {
	w.looks.Add(1)
	if w.revoked.Load() {
		return nil, access.ErrUnknown
	}
	return w.registry.Authenticate(ctx, c)
}

func (w *watched) Until(c access.Credentials) (time.Time, bool) {
	return w.registry.Until(c)
}

// follow opens a stream under a token that is good until then, and says whether
// it was ended.
func (w *watched) follow(t *testing.T, expires time.Time) (ended func() bool, leave func()) {
	text, kept := access.NewToken(uuid.New(), expires)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+text)
	return w.open(r, policy.Principal{Kind: policy.Person, Tokens: []policy.Token{kept}})
}

// open opens a stream by a request of that principal.
func (w *watched) open(r *http.Request, who policy.Principal) (ended func() bool, leave func()) {
	w.registry = access.NewRegistry(w, access.Options{File: access.File{"ana": {
		Principal: who, Relations: []policy.Relation{{Kind: policy.ObjectPlane, Name: policy.RelationAdmin}},
	}}})
	a := &authorizer{access: w, model: w, clock: time.Now}
	var end atomic.Bool
	leave = a.revalidate(&call{r: r, route: &Route{Needs: access.ReadPlane}}, func() { end.Store(true) })
	return func() bool { synctest.Wait(); return end.Load() }, leave
}

func TestAStreamWhosePrincipalLosesItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		ended, leave := w.follow(t, time.Time{})
		defer leave()
		time.Sleep(10 * revalidateEvery)
		require.False(t, ended())
		require.EqualValues(t, 1, w.looks.Load(), "nothing was folded: nothing can have changed")
		w.seq.Add(1)
		time.Sleep(revalidateEvery)
		require.False(t, ended())
		require.EqualValues(t, 2, w.looks.Load())
		w.revoked.Store(true)
		w.seq.Add(1)
		time.Sleep(revalidateEvery)
		require.True(t, ended())
	})
}

func TestAStreamOfDecisionsEndsWithTheRelationsItBeganWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text, kept := access.NewToken(uuid.New(), time.Time{})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+text)
		w := &watched{}
		grant := func(relations ...policy.Relation) {
			w.registry = access.NewRegistry(w, access.Options{File: access.File{"ana": {
				Principal: policy.Principal{Kind: policy.Person, Tokens: []policy.Token{kept}}, Relations: relations,
			}}})
			w.seq.Add(1)
		}
		shop := policy.Relation{Kind: policy.ObjectTenant, Tenant: "shop", Name: policy.RelationAdmin}
		grant(shop)
		a := &authorizer{access: w, model: w, clock: time.Now}
		given, _, err := a.credentials(r)
		require.NoError(t, err)
		who, err := w.Authenticate(t.Context(), given)
		require.NoError(t, err)
		var ended atomic.Bool
		defer a.revalidate(&call{r: r, who: who, route: &Route{Needs: access.SeeAdmission, byRelations: true}}, func() { ended.Store(true) })()
		for _, held := range []bool{true, false} {
			if held {
				grant(shop)
			} else {
				grant() // no administrator of shop any more
			}
			time.Sleep(revalidateEvery)
			synctest.Wait()
			require.Equal(t, held, !ended.Load())
		}
	})
}

func TestAStreamWhoseTokenIsOverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		ended, leave := w.follow(t, time.Now().Add(5*revalidateEvery))
		defer leave()
		time.Sleep(5*revalidateEvery - time.Second)
		require.False(t, ended())
		time.Sleep(time.Second + revalidateEvery)
		require.True(t, ended(), "though nothing was folded")
	})
}

func TestAStreamWhoseCertificateIsOverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const id = "spiffe://edict.test/ana"
		name, err := url.Parse(id)
		require.NoError(t, err)
		shown := &x509.Certificate{URIs: []*url.URL{name}, NotAfter: time.Now().Add(5 * revalidateEvery)}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{shown}}}
		ended, leave := (&watched{}).open(r, policy.Principal{Kind: policy.Person, SPIFFE: []string{id}})
		defer leave()
		time.Sleep(5*revalidateEvery - time.Second)
		require.False(t, ended())
		time.Sleep(time.Second + revalidateEvery)
		require.True(t, ended(), "the connection stands, and proves nothing")
	})
}
