package access

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// askedIssuer believes nothing, and counts how often it is asked.
type askedIssuer struct{ asked int }

func (i *askedIssuer) Verify(context.Context, string) (policy.OIDCIdentity, time.Time, error) {
	i.asked++
	return policy.OIDCIdentity{}, time.Time{}, errors.New("not mine")
}

// An address that failed too often over NATS is not looked after any more; what
// is known at once is good from there, too.
func TestWhoGuessesOverNATSIsNotLookedAfter(t *testing.T) {
	issuer, counted := &askedIssuer{}, map[string]int{}
	failures := NewFailures(1)
	failures.OnRefusal = func(reason string) { counted[reason]++ }
	text, kept := NewToken(uuid.New(), time.Time{})
	r := NewRegistry(silentModel{}, Options{Issuer: issuer, Failures: failures, File: File{"root": {
		Principal: policy.Principal{Kind: policy.Service, Tokens: []policy.Token{kept}},
		Relations: []policy.Relation{relation(t, "plane#admin")},
	}}})
	here, there := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	guess := func(from netip.Addr) {
		_, ok := r.Admit(streams.Credentials{Token: "a.b.c", From: from})
		require.False(t, ok)
	}
	const most = 10000
	for n := 0; counted["too_many"] == 0; n++ {
		require.Less(t, n, most, "nobody was refused")
		guess(here)
	}
	require.Equal(t, counted["unknown"], issuer.asked, "what is refused is not looked at")
	asked := issuer.asked
	guess(there)
	require.Equal(t, asked+1, issuer.asked, "another address")
	_, ok := r.Admit(streams.Credentials{Token: text, From: here})
	require.True(t, ok, "nobody locks out others behind an address")
	before := counted["unknown"] + counted["too_many"]
	_, ok = r.Admit(streams.Credentials{From: there})
	require.False(t, ok)
	require.Equal(t, before, counted["unknown"]+counted["too_many"], "nothing was shown")
}
