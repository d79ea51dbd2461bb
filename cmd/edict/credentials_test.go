package main

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/authority"
)

// Over HTTP/2 a connection to a host that is gone is found by asking, since a stream that
// is asked for again would go by it, too.
func TestConnectionsOfCommandsAreAskedWhetherTheyLive(t *testing.T) {
	a := &app{}
	cmd := nodeCommands{a}.nodeWatchCommand()
	c := credentials{dial: http.DefaultTransport.(*http.Transport).DialContext}
	got, err := c.http(cmd, "https://plane.example")
	require.NoError(t, err)
	h2 := got.Transport.(*bearer).next.(*http.Transport).HTTP2
	require.NotNil(t, h2)
	require.Positive(t, h2.SendPingTimeout)
	require.Positive(t, h2.PingTimeout)
}

// A plane, or what stands before it, may send a client on from TLS to the same address without.
func TestATokenIsNotSentOnInTheClear(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ana.token")
	require.NoError(t, os.WriteFile(file, []byte("edt_ana\n"), 0o600))
	c := credentials{tokenFile: file, admin: "https://plane.example:8081"}
	got, err := c.http(nodeCommands{&app{}}.nodeWatchCommand(), "https://plane.example")
	require.NoError(t, err)
	shown := map[string]string{}
	got.Transport.(*elsewhere).next.(*bearer).next = answering(func(r *http.Request) *http.Response {
		shown[r.URL.String()] = r.Header.Get("Authorization")
		res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
		if r.URL.Scheme == "https" {
			res.StatusCode = http.StatusFound
			res.Header.Set("Location", "http://"+r.URL.Host+"/")
		}
		return res
	})
	for _, address := range []string{"https://plane.example/v1/keys", "https://plane.example:8081/v1/keys"} {
		res, err := got.Get(address)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
	require.Equal(t, map[string]string{
		"https://plane.example/v1/keys": "Bearer edt_ana", "http://plane.example/": "",
		"https://plane.example:8081/v1/keys": "Bearer edt_ana", "http://plane.example:8081/": "",
	}, shown)
}

// A client of NATS asks all its servers for TLS where one of them is named with it.
func TestATokenIsForNATSServersOverTLSOrOnThisMachine(t *testing.T) {
	c := credentials{tokenFile: filepath.Join(t.TempDir(), "ana.token")}
	require.NoError(t, os.WriteFile(c.tokenFile, []byte("edt_ana\n"), 0o600))
	for urls, sent := range map[string]bool{
		"": true, "nats://127.0.0.1:4222": true, "localhost, [::1]:4222": true, "tls://nats.example": true, "nats://a.example,tls://b.example": true, "wss://nats.example": true,
		"nats://nats.example:4222": false, "nats.example": false, "127.0.0.1:4222, nats.example:4222": false, "ws://nats.example": false, "nats://tls@nats.example": false, "nats://a b": false,
	} {
		token, err := c.natsToken(urls, nil)
		require.Equal(t, sent, err == nil, "%q: %v", urls, err)
		require.Equal(t, sent, token.Now() == "edt_ana", urls)
	}
	token, err := c.natsToken("nats://nats.example", &tls.Config{MinVersion: tls.VersionTLS13})
	require.NoError(t, err)
	require.Equal(t, "edt_ana", token.Now())
	token, err = credentials{}.natsToken("nats://nats.example", nil)
	require.NoError(t, err)
	require.Empty(t, token.Now())
}

// A command that runs for months shows what its files have: a token that was renewed, and the
// certificate, before what they had is revoked or over.
func TestCredentialsAreRenewedByTheirFiles(t *testing.T) {
	dir := t.TempDir()
	ca := authority.New(t, dir)
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	c := credentials{tokenFile: write("token", "edt_a\n"), cert: filepath.Join(dir, "client.crt"), key: filepath.Join(dir, "client.key")}
	ca.Issue("client", &x509.Certificate{Subject: pkix.Name{CommonName: "a"}})
	got, err := c.http(nodeCommands{&app{}}.nodeWatchCommand(), "https://plane.example")
	require.NoError(t, err)
	shown := got.Transport.(*bearer)
	config := shown.next.(*http.Transport).TLSClientConfig
	asks := func(schemes ...tls.SignatureScheme) string {
		pair, err := config.GetClientCertificate(&tls.CertificateRequestInfo{Version: tls.VersionTLS13, SignatureSchemes: schemes})
		require.NoError(t, err)
		if pair.Leaf == nil {
			return ""
		}
		return pair.Leaf.Subject.CommonName
	}
	var token string
	shown.next = answering(func(r *http.Request) *http.Response {
		token = r.Header.Get("Authorization")
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
	})
	sends := func() string {
		res, err := got.Get("https://plane.example/v1/keys")
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return token
	}
	require.Equal(t, "Bearer edt_a", sends())
	require.Equal(t, "a", asks(tls.ECDSAWithP256AndSHA256))
	require.Empty(t, asks(tls.Ed25519), "as a server is shown none that takes no such one")

	write("token", "")
	write("client.crt", "half")
	require.Equal(t, "Bearer edt_a", sends(), "while it is being written")
	require.Equal(t, "a", asks(tls.ECDSAWithP256AndSHA256))

	write("token", "edt_b\n")
	ca.Issue("client", &x509.Certificate{Subject: pkix.Name{CommonName: "b"}})
	require.Equal(t, "Bearer edt_b", sends())
	require.Equal(t, "b", asks(tls.ECDSAWithP256AndSHA256))
}

// answering is a server that is not there.
type answering func(r *http.Request) *http.Response

// RoundTrip implements http.RoundTripper.
func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }
