package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

func TestAFileIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.json")
	_, kept := NewToken(uuid.New(), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	f := File{
		"root": {
			Principal: policy.Principal{
				Kind: policy.Service, DisplayName: "Röot", Tokens: []policy.Token{kept}, SPIFFE: []string{"spiffe://a.test/root"},
				OIDC: []policy.OIDCIdentity{{Issuer: "https://id.test", Subject: "r"}},
			},
			Relations: []policy.Relation{relation(t, "plane#admin"), relation(t, "node:"+shop.String()+"/n1#agent")},
		},
		"ana": {Principal: policy.Principal{Kind: policy.Person}},
	}
	require.NoError(t, f.Write(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	got, err := ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, f, got)
}

func TestAFilesFaultsAreNamed(t *testing.T) {
	for body, want := range map[string]string{
		`{`:                          "want",
		`{"principals":[],"x":1}`:    "unknown field",
		`{"principals":[]} {}`:       "after top-level value",
		`{"principals":[]}}`:         "after top-level value",
		`{"principals":[]}] or this`: "after top-level value",
		`{"Principals":[]}`:          "/Principals: unknown field",
		`{"principals":[{"id":"a","principal":{"kind":"person"}}],"principals":[]}`:                           `duplicate object member name "principals"`,
		`{"principals":[{"id":"a","principal":{"kind":"person"},"relations":["plane#read"],"relations":[]}]}`: `duplicate object member name "relations"`,
		`{"principals":[{"id":"A"}]}`:                             "/principals/0/id: ",
		`{"principals":[{"id":"a"}]}`:                             "/principals/0/principal: ",
		`{"principals":[{"id":"a","principal":{"kind":"king"}}]}`: "unknown_kind",
		`{"principals":[{"id":"a","principal":{"kind":"person","tokens":[{"id":"x","sha256":"00"}]}}]}`:                                                                  "invalid_token",
		`{"principals":[{"id":"a","principal":{"kind":"person","spiffe_ids":["https://a/b"]}}]}`:                                                                         "invalid_spiffe_id",
		`{"principals":[{"id":"a","principal":{"kind":"person"},"relations":["plane#king"]}]}`:                                                                           "/principals/0/relations/0: ",
		`{"principals":[{"id":"a","principal":{"kind":"person"}},{"id":"a","principal":{"kind":"person"}}]}`:                                                             "occurs twice",
		`{"principals":[{"id":"a","principal":{"kind":"person","oidc":[{"issuer":"i"}]}}]}`:                                                                              "required",
		`{"principals":[{"id":"a","principal":{"kind":"person","spiffe_ids":["spiffe://x/y"]}},{"id":"b","principal":{"kind":"person","spiffe_ids":["spiffe://x/y"]}}]}`: "/principals/1/principal/spiffe_ids/0: a lists it, too",
		`{"principals":[{"id":"a","principal":{"kind":"person","secret":"x"}}]}`:                                                                                         "unknown_field",
	} {
		_, err := parseFile([]byte(body))
		require.ErrorContains(t, err, want, body)
	}
}

func writeCertificate(t *testing.T, dir string, serial int64) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

func TestACertificateIsReplacedByItsFiles(t *testing.T) {
	dir := t.TempDir()
	var failures []error
	k := &keeper{
		files:  TLSFiles{Cert: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key")},
		failed: func(err error) { failures = append(failures, err) },
	}
	_, err := ServerTLS(k.files, k.failed)
	require.ErrorIs(t, err, os.ErrNotExist)
	serial := func() int64 {
		k.looked = time.Time{} // a second has passed
		c := k.config()
		require.EqualValues(t, tls.VersionTLS13, c.MinVersion)
		leaf, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
		require.NoError(t, err)
		return leaf.SerialNumber.Int64()
	}
	writeCertificate(t, dir, 1)
	require.Equal(t, int64(1), serial())
	writeCertificate(t, dir, 1<<40)
	require.Equal(t, int64(1<<40), serial())
	require.NoError(t, os.WriteFile(k.files.Key, []byte("half"), 0o600))
	require.Equal(t, int64(1<<40), serial(), "the one before stays")
	require.Len(t, failures, 1)
	writeCertificate(t, dir, 3)
	require.Equal(t, int64(3), serial())
	require.Len(t, failures, 1, "it is reported once")
}
