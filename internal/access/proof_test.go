package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// A NATS client may send any text as its token, with zeros in it, too: what a
// certificate or an identity token is found by is no secret.
func TestATokenIsNobodysCertificate(t *testing.T) {
	const spiffe = "spiffe://edict.test/root"
	identity := policy.OIDCIdentity{Issuer: "https://issuer.test", Subject: "root"}
	r := NewRegistry(silentModel{}, Options{File: File{"root": {
		Principal: policy.Principal{Kind: policy.Person, SPIFFE: []string{spiffe}, OIDC: []policy.OIDCIdentity{identity}},
		Relations: []policy.Relation{relation(t, "plane#admin")},
	}}})
	_, err := r.Authenticate(context.Background(), Credentials{SPIFFE: []string{spiffe}})
	require.NoError(t, err)
	for _, token := range []string{
		"spiffe\x00" + spiffe, "oidc\x00" + identity.Issuer + "\x00" + identity.Subject, spiffe, "root",
	} {
		_, let := r.Admit(streams.Credentials{Token: token})
		require.False(t, let, "%q", token)
		_, err := r.Authenticate(context.Background(), Credentials{Bearer: token})
		require.ErrorIs(t, err, ErrUnknown, "%q", token)
	}
}

// The end of a token may be any moment that can be written, such as the last of all for one that is
// never over. What does not fit into nanoseconds since 1970 is no other moment.
func TestATokenIsGoodUntilTheEndThatIsWritten(t *testing.T) {
	now := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	for end, good := range map[string]bool{
		"2026-11-28T23:59:59Z": false, "2026-11-29T00:00:01Z": true,
		"2262-04-12T00:00:00Z": true, "2319-03-11T08:42:13Z": true, "9999-12-31T23:59:59Z": true,
		"1970-01-01T00:00:00Z": false, "1600-01-01T00:00:00Z": false, "0000-01-01T00:00:00Z": false,
	} {
		at, err := time.Parse(time.RFC3339, end)
		require.NoError(t, err)
		text, kept := NewToken(uuid.New(), at)
		r := NewRegistry(silentModel{}, Options{Clock: func() time.Time { return now }, File: File{"ana": {Principal: policy.Principal{Kind: policy.Person, Tokens: []policy.Token{kept}}}}})
		_, err = r.Authenticate(t.Context(), Credentials{Bearer: text})
		require.Equal(t, good, err == nil, end)
	}
}

// Certificates of a Workload API last an hour; connections may last for days.
func TestACertificateProvesNothingOnceItIsOver(t *testing.T) {
	const spiffe = "spiffe://edict.test/n1"
	id, err := url.Parse(spiffe)
	require.NoError(t, err)
	r := NewRegistry(silentModel{}, Options{File: File{"n1": {
		Principal: policy.Principal{Kind: policy.Agent, SPIFFE: []string{spiffe}},
		Relations: []policy.Relation{relation(t, "node:"+shop.String()+"/n1#agent")},
	}}})
	for left, good := range map[time.Duration]bool{time.Hour: true, -time.Second: false} {
		end := time.Now().Add(left)
		shown := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{URIs: []*url.URL{id}, NotAfter: end}}}}
		require.Equal(t, good, len(SPIFFEIDs(shown)) == 1)
		g, let := r.Admit(streams.Credentials{TLS: shown})
		require.Equal(t, good, let)
		require.Equal(t, good, g.Until.Equal(end))
	}
}

// A certificate is of one workload, and who signs others is none (X509-SVID, section 5.2).
func TestACertificateThatIsNoSVIDProvesNothing(t *testing.T) {
	at := func(text string) *url.URL {
		u, err := url.Parse(text)
		require.NoError(t, err)
		return u
	}
	ana, bob, web := at("spiffe://edict.test/ana"), at("spiffe://edict.test/bob"), at("https://edict.test/ana")
	for _, row := range []struct {
		what string
		leaf x509.Certificate
		ids  []string
	}{
		{"one id", x509.Certificate{URIs: []*url.URL{ana}}, []string{ana.String()}},
		{"two ids", x509.Certificate{URIs: []*url.URL{bob, ana}}, nil},
		{"another URI beside it", x509.Certificate{URIs: []*url.URL{web, ana}}, nil},
		{"another URI alone", x509.Certificate{URIs: []*url.URL{web}}, nil},
		{"an authority", x509.Certificate{URIs: []*url.URL{ana}, IsCA: true}, nil},
		{"no URI", x509.Certificate{}, nil},
	} {
		row.leaf.NotAfter = time.Now().Add(time.Hour)
		shown := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{&row.leaf}}}
		require.Equal(t, row.ids, SPIFFEIDs(shown), row.what)
	}
}
