package access

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// domain is a SPIFFE trust domain with one authority.
type domain struct {
	t    *testing.T
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newDomain(t *testing.T, name string) *domain {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	d := &domain{t: t, name: name, key: key}
	c := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	d.cert, err = x509.ParseCertificate(d.sign(c, "", c, &key.PublicKey))
	require.NoError(t, err)
	return d
}

func (d *domain) sign(c *x509.Certificate, path string, parent *x509.Certificate, public *ecdsa.PublicKey) []byte {
	d.next++
	u, err := url.Parse("spiffe://" + d.name + path)
	require.NoError(d.t, err)
	c.SerialNumber, c.URIs = big.NewInt(d.next), []*url.URL{u}
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, public, d.key)
	require.NoError(d.t, err)
	return der
}

// svid is what a Workload API says of who has the path.
func (d *domain) svid(path string, life time.Duration) *workload.X509SVIDResponse {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(d.t, err)
	der := d.sign(&x509.Certificate{
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(life), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, path, d.cert, &key.PublicKey)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(d.t, err)
	return &workload.X509SVIDResponse{Svids: []*workload.X509SVID{{
		SpiffeId: "spiffe://" + d.name + path, X509Svid: der, X509SvidKey: secret, Bundle: d.cert.Raw,
	}}}
}

// agent is a Workload API that tells whoever asks that it is one workload, and
// tells again when that changes.
type agent struct {
	workload.UnimplementedSpiffeWorkloadAPIServer
	addr string

	mu      sync.Mutex
	now     *workload.X509SVIDResponse
	changed chan struct{}
}

func startAgent(t *testing.T, first *workload.X509SVIDResponse) *agent {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	a := &agent{addr: "unix://" + socket, now: first, changed: make(chan struct{})}
	s := grpc.NewServer()
	workload.RegisterSpiffeWorkloadAPIServer(s, a)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-served })
	return a
}

func (a *agent) FetchX509SVID(_ *workload.X509SVIDRequest, stream workload.SpiffeWorkloadAPI_FetchX509SVIDServer) error {
	for {
		a.mu.Lock()
		now, changed := a.now, a.changed
		a.mu.Unlock()
		if err := stream.Send(now); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (a *agent) say(now *workload.X509SVIDResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.changed)
	a.now, a.changed = now, make(chan struct{})
}

func (a *agent) open(t *testing.T) *Workload {
	w, err := OpenWorkload(t.Context(), a.addr)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// greet has a client connect to a server that says who it believes the client
// is, and returns that and the server's serial number.
func greet(t *testing.T, server, client *tls.Config) (ids string, serial int64, err error) {
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		c := conn.(*tls.Conn)
		if c.HandshakeContext(context.Background()) != nil {
			return // the client hears of it
		}
		state := c.ConnectionState()
		for _, id := range SPIFFEIDs(&state) {
			_, _ = c.Write([]byte(id))
		}
		_, _ = c.Write([]byte("\n"))
	}()
	defer func() { l.Close(); <-done }()
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		return "", 0, err
	}
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "", 0, err
	}
	return line[:len(line)-1], conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func TestAWorkloadAPIGivesBothSidesTheirCertificates(t *testing.T) {
	d, other := newDomain(t, "edict.test"), newDomain(t, "other.test")
	plane := startAgent(t, d.svid("/edict", time.Hour))
	w := plane.open(t)
	server := w.ServerTLS()
	as := func(r *workload.X509SVIDResponse, id string) *tls.Config {
		c, err := startAgent(t, r).open(t).ClientTLS(id)
		require.NoError(t, err)
		return c
	}
	n1 := as(d.svid("/n1", time.Hour), "spiffe://edict.test/edict")
	who, first, err := greet(t, server, n1)
	require.NoError(t, err)
	require.Equal(t, "spiffe://edict.test/n1", who)

	t.Run("the plane must be who it is said to be", func(t *testing.T) {
		_, _, err := greet(t, server, as(d.svid("/n1", time.Hour), "spiffe://edict.test/another"))
		require.ErrorContains(t, err, `unexpected ID "spiffe://edict.test/edict"`)
	})
	t.Run("one of another trust domain is nobody, and does not believe the plane", func(t *testing.T) {
		stranger := other.svid("/n1", time.Hour)
		_, _, err := greet(t, server, as(stranger, "spiffe://edict.test/edict"))
		require.Error(t, err)
		blind := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}
		startAgent(t, stranger).open(t).Show(blind)
		_, _, err = greet(t, server, blind)
		require.ErrorContains(t, err, "unknown certificate authority")
	})
	t.Run("an expired certificate is refused", func(t *testing.T) {
		_, _, err := greet(t, server, as(d.svid("/n1", -time.Hour), "spiffe://edict.test/edict"))
		require.ErrorContains(t, err, "certificate")
	})
	t.Run("whoever shows none is asked for something else later", func(t *testing.T) {
		who, _, err := greet(t, server, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
		require.NoError(t, err)
		require.Empty(t, who)
	})
	t.Run("a renewed certificate serves the next connection", func(t *testing.T) {
		plane.say(d.svid("/edict", time.Hour))
		require.NoError(t, w.source.WaitUntilUpdated(t.Context()))
		who, second, err := greet(t, server, n1)
		require.NoError(t, err)
		require.Equal(t, "spiffe://edict.test/n1", who)
		require.NotEqual(t, first, second)
	})
}

func TestAWorkloadAPIThatIsNotThereIsNamed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := OpenWorkload(ctx, "unix:///nowhere/agent.sock")
	require.ErrorContains(t, err, "unix:///nowhere/agent.sock")
	_, err = OpenWorkload(t.Context(), "/no/scheme")
	require.Error(t, err)
}
